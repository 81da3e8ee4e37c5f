"""`kgen.lock`: what was chosen for each kernel where its spec is silent.

Rendering and checking obey it; only `kgen update` chooses anew. JSON, sorted and indented, so that two branches merge.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints, ValidationError

from kgen.spec import schema_errors
from kgen.spec.diagnostic import Diagnostic
from kgen.spec.digest import kernel_digest
from kgen.spec.document import diagnose
from kgen.spec.kernel import Kernel, Value
from kgen.spec.models import ALGORITHMS, Model, Name
from kgen.spec.source import MAX_BYTES, parse, read_text
from kgen.spec.sweep import leaves, nested

_FIX = "repair it, or delete the file and run `kgen update`"
_Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8,64}$")]


class _EntryModel(Model):
    what: ClassVar[str] = "a locked kernel"
    spec: _Digest
    chosen: dict[str, int | str]


class _LockModel(Model):
    what: ClassVar[str] = "the lock"
    lock: Literal[1]
    kgen: str
    templates: dict[str, _Digest]
    kernels: dict[Name, _EntryModel] = Field(default={})


@dataclass(frozen=True)
class Entry:
    """What was chosen for one kernel."""

    spec: str
    """Digest of the kernel as its spec gave it when the choice was made."""
    chosen: Mapping[str, int | str]
    """Algorithm field, dotted -> value; only fields the spec leaves out."""


@dataclass(frozen=True)
class Missing:
    """The lock has nothing for the kernel."""


@dataclass(frozen=True)
class Stale:
    """The lock's choice was made for something else."""

    reason: str


@dataclass(frozen=True)
class Lock:
    """The content of a lock file."""

    kgen: str = ""
    """Version that wrote it; empty for a project without a lock."""
    templates: Mapping[str, str] = field(default_factory=dict)
    """Target -> digest of its templates."""
    kernels: Mapping[str, Entry] = field(default_factory=dict)

    def lookup(self, kernel: Kernel) -> Kernel | Stale | Missing:
        """The kernel with what was chosen for it filled in, or why the lock does not serve.

        `kernel` is as its spec gives it; a change of its signature or of its algorithm makes the entry stale.
        """
        entry = self.kernels.get(kernel.name)
        if entry is None:
            return Missing()
        if entry.spec != kernel_digest(kernel):
            return Stale("the spec of the kernel has changed since")
        reason = _refusal(kernel, entry.chosen)
        return Stale(reason) if reason else fill(kernel, entry.chosen)


def entry(kernel: Kernel, chosen: Mapping[str, int | str]) -> Entry:
    """The lock's entry for a kernel as its spec gives it."""
    return Entry(kernel_digest(kernel), dict(chosen))


def _refusal(kernel: Kernel, chosen: Mapping[str, int | str]) -> str:
    """Why an edited lock cannot be followed: fields the target does not have, or that the spec gives; else empty."""
    given = _flat(kernel)
    if twice := sorted(given.keys() & chosen.keys()):
        return f"it chooses {', '.join(twice)}, which the spec gives"
    fields = {name: _plain(value) for name, value in fill(kernel, chosen).algorithm.items()}
    model = ALGORITHMS[kernel.target]
    try:
        model.model_validate(fields)
    except ValidationError as error:
        first = schema_errors.problems(model, error)[0]
        return f"it chooses {'.'.join(map(str, first.path))}: {first.message}"
    return ""


def fill(kernel: Kernel, chosen: Mapping[str, int | str]) -> Kernel:
    """The kernel with chosen fields (dotted) added to those its spec gives, which win."""
    return replace(kernel, algorithm=nested({**chosen, **_flat(kernel)}))


def _flat(kernel: Kernel) -> dict[str, int | str]:
    return dict(leaf for name, value in kernel.algorithm.items() for leaf in leaves(_plain(value), name))


def _plain(value: Value) -> Any:
    return {name: _plain(inner) for name, inner in value} if isinstance(value, tuple) else value


def read(path: FilePath) -> Lock | tuple[Diagnostic, ...]:
    """The lock at `path`, an empty one where there is no file, or all that is wrong with it."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return Lock()
    except OSError as error:
        return (Diagnostic(path.name, 0, 0, "unreadable", error.strerror or "cannot be read"),)
    try:
        data = json.loads(raw, object_pairs_hook=_no_duplicates)
        model = _LockModel.model_validate(data)
    except (ValueError, RecursionError) as error:
        return _wrong(raw, path.name, error)
    kernels = {name: Entry(given.spec, given.chosen) for name, given in model.kernels.items()}
    return Lock(model.kgen, model.templates, kernels)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        raise ValueError("a key is given twice")
    return data


def _wrong(raw: bytes, name: str, error: Exception) -> tuple[Diagnostic, ...]:
    """What is wrong with a lock, and how to go on."""
    found = _places(raw, name, error) or [Diagnostic(name, 0, 0, "lock", str(error))]
    return tuple(replace(line, fix="; ".join(filter(None, (line.fix, _FIX)))) for line in sorted(found))


def _places(raw: bytes, name: str, error: Exception) -> Iterable[Diagnostic]:
    """JSON is YAML, so the loader of specs finds the places; none in a lock that is larger than any spec."""
    if isinstance(error, json.JSONDecodeError):
        return [Diagnostic(name, error.lineno, error.colno, "lock", f"not JSON: {error.msg}")]
    if len(raw) > MAX_BYTES:
        return []
    source = read_text(raw, name)
    if isinstance(source, Diagnostic):
        return [source]
    tree = parse(source)
    problems = schema_errors.problems(_LockModel, error) if isinstance(error, ValidationError) else []
    return [*tree.diagnostics, *diagnose(tree, problems)]


def to_text(lock: Lock) -> str:
    """The file's content: the same for the same lock, whatever order it was made in."""
    kernels = {name: {"spec": made.spec, "chosen": dict(made.chosen)} for name, made in lock.kernels.items()}
    data = {"lock": 1, "kgen": lock.kgen, "templates": dict(lock.templates), "kernels": kernels}
    return json.dumps(data, indent=2, sort_keys=True) + "\n"


def write(path: FilePath, lock: Lock) -> bool:
    """Write the lock if that changes the file; at no time is there half a file. True where it was written."""
    text = to_text(lock).encode()
    if path.is_file() and path.read_bytes() == text:
        return False
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        FilePath(temporary).unlink(missing_ok=True)
        raise
    return True
