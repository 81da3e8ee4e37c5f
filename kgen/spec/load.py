"""From files to validated documents, with every error of every file.

Layers: the file and its YAML -> duplicates and traps -> schema -> rules between fields -> names. A layer goes on with
what the layers before left intact, and is silent about what they reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from kgen.spec import rules, schema_errors, signature, sweep
from kgen.spec.diagnostic import Diagnostic
from kgen.spec.document import MAX_FILE_NAME, Document, TargetKernels, diagnose
from kgen.spec.models import Spec
from kgen.spec.problem import Path, Problem
from kgen.spec.project import project_header, relative
from kgen.spec.source import MAX_BYTES, Tree, parse, read_text
from kgen.spec.vocabulary import all_archs, target_of


@dataclass(frozen=True)
class LoadResult:
    """The documents without errors of their own, and all errors. Nothing may be written while there is an error."""

    documents: tuple[Document, ...]
    diagnostics: tuple[Diagnostic, ...]


def load(path: FilePath, root: FilePath) -> LoadResult:
    """Load one spec. `root` is the project's, from which files are named."""
    return load_all([path], root)


def load_all(paths: Iterable[FilePath], root: FilePath) -> LoadResult:
    """Load specs that are used together: no two of their kernels may have one name."""
    header = project_header(root)
    if isinstance(header, Diagnostic):
        return LoadResult((), (header,))
    results = [_file(path, relative(path, root), header) for path in paths]
    documents = tuple(document for result in results for document in result.documents)
    diagnostics = [diagnostic for result in results for diagnostic in result.diagnostics]
    return LoadResult(documents, (*diagnostics, *collisions(documents)))


def load_bytes(raw: bytes, file: str, header: tuple[str, ...] = ()) -> LoadResult:
    """Load the content of a spec. `header` is the project's, for specs that have none."""
    result = _content(raw, file, header)
    return LoadResult(result.documents, (*result.diagnostics, *collisions(result.documents)))


def _file(path: FilePath, name: str, header: tuple[str, ...]) -> LoadResult:
    if not name.isprintable():
        fix = "rename it: generated files name their spec"
        return LoadResult((), (Diagnostic(repr(name), 0, 0, "file-name", "it has unprintable characters", fix),))
    try:
        if not path.is_file():
            return LoadResult((), (Diagnostic(name, 0, 0, "unreadable", "not a regular file"),))
        with path.open("rb") as file:
            return _content(file.read(MAX_BYTES + 1), name, header)
    except OSError as error:
        return LoadResult((), (Diagnostic(name, 0, 0, "unreadable", error.strerror or "cannot be read"),))


def _content(raw: bytes, file: str, header: tuple[str, ...]) -> LoadResult:
    source = read_text(raw, file)
    if isinstance(source, Diagnostic):
        return LoadResult((), (source,))
    tree = parse(source)
    if tree.data is None:
        return LoadResult((), tuple(sorted(tree.diagnostics)))
    document, problems = _validate(tree, header)
    heard = [problem for problem in problems if not _poisoned(tree, problem.path)]
    diagnostics = sorted({*tree.diagnostics, *diagnose(tree, heard)})
    return LoadResult((document,) if document else (), tuple(diagnostics))


def _poisoned(tree: Tree, path: Path) -> bool:
    return any(path[:length] in tree.poisoned for length in range(len(path) + 1))


@dataclass(frozen=True)
class _Intact:
    """The parts of a document that the schema accepts, with their indices in the document."""

    spec: Spec
    targets: list[int]
    verify: list[int]


def _validate(tree: Tree, header: tuple[str, ...]) -> tuple[Document | None, list[Problem]]:
    intact, problems = _schema(tree.data)
    if intact is None:
        return None, problems
    spec = intact.spec
    base = signature.resolve(spec)
    entries = list(_entries(intact, tree.data))
    problems += signature.problems(base)
    problems += rules.document_problems(spec, base, intact.verify)
    for entry in entries:
        changes = list(signature.override_problems(spec, entry.entry, entry.path))
        problems += changes or (signature.problems(entry.resolved) if entry.resolved.overridden else ())
        problems += rules.target_problems(entry)
    problems += rules.f32_mma_problems(spec, entries)
    axes, sweep_problems = sweep.axes(spec.sweep, tree.data["targets"]) if intact.targets else ([], [])
    problems += sweep_problems
    if problems or tree.diagnostics:
        return None, problems
    targets = tuple(_target(entry, tree.data["targets"][entry.path[1]]) for entry in entries)
    lines = tuple(spec.header) or header
    return Document(tree.source.file, tree, targets, tuple(axes), tuple(spec.verify), lines), []


def _schema(data: Any) -> tuple[_Intact | None, list[Problem]]:
    """Validate; on errors drop what is broken where that leaves the rest its meaning, and validate what is left."""
    try:
        spec = Spec.model_validate(data)
        return _Intact(spec, list(range(len(spec.targets))), list(range(len(spec.verify)))), []
    except ValidationError as error:
        problems = schema_errors.problems(Spec, error)
    if version := [problem for problem in problems if problem.path == ("kgen",)]:
        return None, version
    return _rest(data, problems) if isinstance(data, dict) else None, problems


_LISTS = ("targets", "verify")
_MAPPINGS = ("dims", "sweep")
_ANY_TARGET = {"arch": all_archs()[0]}
"""Stands in where no target is left, so that what does not depend on one is still checked."""
_DISPENSABLE = ("verify", "header", "acc", *_MAPPINGS)


def _rest(data: dict[str, Any], problems: list[Problem]) -> _Intact | None:
    unknown = [problem.path for problem in problems if problem.clause == "unknown-field"]
    broken = [problem.path for problem in problems if problem.clause != "unknown-field"]
    items = {path[:2] for path in broken if path[:1] and path[0] in (*_LISTS, *_MAPPINGS) and len(path) > 1}
    sections = {path[0] for path in broken if path and path[:2] not in items}
    whole = _without(data, [*unknown, *(path for path in items if path[0] in _MAPPINGS)])
    kept = {name: value for name, value in whole.items() if name not in sections.intersection(_DISPENSABLE)}
    kept = {"kgen": 1, **kept, **({"kernel": "kernel"} if "kernel" in sections or "kernel" not in kept else {})}
    indices = {}
    for name in _LISTS:
        given = kept.get(name)
        values = given if isinstance(given, list) else []
        indices[name] = [index for index in range(len(values)) if (name, index) not in items]
        kept[name] = [values[index] for index in indices[name]]
    kept["targets"] = kept["targets"] or [_ANY_TARGET]
    try:
        return _Intact(Spec.model_validate(kept), indices["targets"], indices["verify"])
    except ValidationError:
        return None


def _without(data: Any, paths: list[Path]) -> Any:
    """A copy of the data without the mapping entries at `paths`."""
    here = {path[0] for path in paths if len(path) == 1}
    if isinstance(data, dict):
        return {k: _without(v, _below(paths, k)) for k, v in data.items() if k not in here}
    if isinstance(data, list):
        return [_without(item, _below(paths, index)) for index, item in enumerate(data)]
    return data


def _below(paths: list[Path], step: str | int) -> list[Path]:
    return [path[1:] for path in paths if len(path) > 1 and path[0] == step]


def _entries(intact: _Intact, data: Any) -> Iterator[rules.TargetEntry]:
    for index, entry in zip(intact.targets, intact.spec.targets, strict=False):
        path: Path = ("targets", index)
        target = target_of(data["targets"][index])
        if target is not None:
            yield rules.TargetEntry(path, target, entry, signature.resolve(intact.spec, entry, path))


def _target(entry: rules.TargetEntry, given: dict[str, Any]) -> TargetKernels:
    typed = signature.signature(entry.resolved)
    name = entry.entry.as_ or f"{typed.kernel}_{entry.entry.arch.replace('-', '_')}"
    fields = sweep.algorithm(given, entry.target)
    return TargetKernels(entry.path, entry.target, entry.entry.arch, name, typed, fields)


def collisions(documents: Iterable[Document]) -> list[Diagnostic]:
    """Kernels of the documents whose names are too long, or clash in a file or a symbol of one library."""
    found: list[Diagnostic] = []
    symbols: dict[str, tuple[Document, Path]] = {}
    for document in documents:
        other = symbols.setdefault(f"{document.kernel}_args", (document, ("kernel",)))
        if other[0] is not document:
            found += _clash(document, ("kernel",), f"kernel {document.kernel}", other, "choose another name")
        for name, path, suffix in document.names():
            found += _too_long(document, name + suffix, path)
            first = next((symbols[s] for s in _symbols(name) if s in symbols), None)
            if first is not None:
                found += _clash(document, path, name, first, "name one of them with as:")
            symbols.update(dict.fromkeys(_symbols(name), (document, path)))
    return sorted(set(found))


def _symbols(name: str) -> tuple[str, ...]:
    return name, f"{name}_check", f"{name}_workspace"


def _clash(document: Document, path: Path, name: str, other: tuple[Document, Path], fix: str) -> Iterator[Diagnostic]:
    first, place = other
    line, _ = first.tree.source.place(first.tree.index(place))
    message = f"{name} is already made by {first.file}:{line}"
    yield from document.diagnose([Problem(path, "name-clash", message, fix)])


def _too_long(document: Document, file: str, path: Path) -> Iterator[Diagnostic]:
    if len(file) > MAX_FILE_NAME:
        message = f"the file name {file[:40]}... has {len(file)} bytes"
        fix = f"allowed: at most {MAX_FILE_NAME}; shorten kernel, or name it with as:"
        yield from document.diagnose([Problem(path, "name-length", message, fix)])
