"""What every command starts with: specs loaded, the lock applied, plans made; problems reported all at once."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import click

from kgen import __version__
from kgen.plan import Plan, plan_kernel
from kgen.plan.cabi import C_TARGETS, Declared, declared, header_file
from kgen.render.environment import template_digest
from kgen.spec import lock as locks
from kgen.spec.diagnostic import Diagnostic
from kgen.spec.document import Document
from kgen.spec.kernel import Kernel
from kgen.spec.load import load_all
from kgen.spec.project import LOCK, find_root, find_specs

DRIFT, BAD = 1, 2


@dataclass(frozen=True)
class Planned:
    """A kernel as its spec gives it, and its plan."""

    kernel: Kernel
    plan: Plan
    document: Document


@dataclass
class Output:
    """Where a command's words go: text for people, one JSON value for programs, nothing where asked for quiet."""

    as_json: bool = False
    quiet: bool = False

    def say(self, text: str) -> None:
        """A line for people."""
        if not self.as_json and not self.quiet:
            click.echo(text)

    def note(self, text: str) -> None:
        """A line about progress, on the error stream."""
        if not self.as_json and not self.quiet:
            click.echo(text, err=True)

    def complain(self, text: str) -> None:
        """A line that even a quiet command says, on the error stream."""
        if not self.as_json:
            click.echo(text, err=True)

    def result(self, value: object) -> None:
        """The command's whole result, for programs."""
        if self.as_json:
            click.echo(json.dumps(value, indent=2))

    def fail(self, diagnostics: Iterable[Diagnostic], code: int = BAD) -> NoReturn:
        """Report and leave."""
        listed = list(diagnostics)
        if self.as_json:
            click.echo(json.dumps({"errors": [d.to_json() for d in listed]}, indent=2))
        for diagnostic in [] if self.as_json else listed:
            click.echo(str(diagnostic), err=True)
        sys.exit(code)


class Project:
    """The specs of one command, under one root."""

    def __init__(self, paths: tuple[str, ...], out: Output, kernels: tuple[str, ...] = ()) -> None:
        self.out = out
        places = [Path(path) for path in paths]
        self.root = find_root(places[0])
        selection = find_specs(places, self.root)
        if selection.diagnostics:
            out.fail(selection.diagnostics)
        loaded = load_all(selection.files, self.root)
        if loaded.diagnostics:
            out.fail(loaded.diagnostics)
        self.documents = loaded.documents
        lock = locks.read(self.lock_path)
        if not isinstance(lock, locks.Lock):
            out.fail(lock)
        self.lock = lock
        self.wanted = kernels

    @property
    def lock_path(self) -> Path:
        """Where the project's lock is."""
        return self.root / LOCK

    @property
    def specs(self) -> frozenset[str]:
        """Project-relative paths of the specs."""
        return frozenset(document.file for document in self.documents)

    def kernels(self) -> Iterator[tuple[Document, Kernel]]:
        """Every selected kernel; an arch or name that selects none is an error."""
        found: set[str] = set()
        for document in self.documents:
            for kernel in document.kernels():
                names = {kernel.name, kernel.arch, kernel.target} & set(self.wanted)
                found |= names
                if names or not self.wanted:
                    yield document, kernel
        if missing := [name for name in self.wanted if name not in found]:
            words = "no kernel, arch or target"
            self.out.fail(Diagnostic("--only", 0, 0, "no-kernel", f"{words} {name!r}") for name in missing)

    def declared(self) -> dict[str, list[Declared]]:
        """By header: every C kernel of the specs, so that a selection never loses declarations.

        Nothing where everything is selected: the plans then say it all.
        """
        found: dict[str, list[Declared]] = {}
        for document in self.documents if self.wanted else ():
            for kernel in document.kernels():
                if kernel.target in C_TARGETS:
                    path = header_file(kernel.signature)
                    found.setdefault(path, []).append(declared(kernel.name, kernel.signature))
        return found

    def plan(self, choose: bool = True, anew: bool = False) -> list[Planned]:
        """The plans of all selected kernels, under the lock.

        A kernel the lock lacks is chosen for where `choose` says so (it is drift otherwise). `anew`: the lock is
        set aside. Broken clauses of all kernels are reported together.
        """
        planned: list[Planned] = []
        broken: list[Diagnostic] = []
        stale: list[Diagnostic] = []
        for document, kernel in self.kernels():
            locked = locks.Missing() if anew else self.lock.lookup(kernel)
            if isinstance(locked, locks.Stale):
                stale.append(_stale(kernel, locked.reason))
                continue
            plan = plan_kernel(locked if isinstance(locked, Kernel) else kernel)
            if isinstance(plan, tuple):
                broken.extend(document.diagnose(plan, kernel))
                continue
            if isinstance(locked, Kernel) and plan.decisions:
                lacking = ", ".join(decision.field for decision in plan.decisions)
                stale.append(_stale(kernel, f"the lock does not say {lacking}"))
            if isinstance(locked, locks.Missing) and plan.decisions and not choose:
                stale.append(_stale(kernel, "the lock has no entry for it"))
            planned.append(Planned(kernel, plan, document))
        if broken:
            self.out.fail(sorted(broken))
        if stale:
            self.out.fail(stale, DRIFT)
        return planned

    def note_templates(self, planned: Iterable[Planned]) -> None:
        """Say where templates are not those that the lock was written with: output may differ for that alone."""
        for target in sorted({one.plan.target for one in planned}):
            recorded = self.lock.templates.get(target)
            if recorded is not None and recorded != template_digest(target):
                self.out.note(f"{LOCK}: written by kgen {self.lock.kgen} with other {target} templates than these")

    def relock(self, planned: Iterable[Planned], anew: bool = False) -> bool:
        """Record what was chosen; True where that changed the lock. Others may be doing the same for other kernels."""
        with _alone(self.root):
            lock = locks.read(self.lock_path)
            if not isinstance(lock, locks.Lock):
                self.out.fail(lock)
            return self._relock(lock, list(planned), anew)

    def _relock(self, lock: locks.Lock, planned: list[Planned], anew: bool) -> bool:
        kernels = dict(lock.kernels)
        for one in planned:
            if one.plan.decisions and (anew or one.kernel.name not in kernels):
                kernels[one.kernel.name] = locks.entry(one.kernel, {d.field: d.value for d in one.plan.decisions})
        if kernels == lock.kernels and not anew:
            return False
        digests = {target: template_digest(target) for target in sorted({one.plan.target for one in planned})}
        new = replace(lock, kgen=__version__, templates={**lock.templates, **digests}, kernels=kernels)
        return locks.write(self.lock_path, new)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Holds an advisory lock on a folder: what is read and written meanwhile is not overtaken by another kgen."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _stale(kernel: Kernel, reason: str) -> Diagnostic:
    return Diagnostic(LOCK, 0, 0, "stale", f"{kernel.name}: {reason}", f"run `kgen update {kernel.spec}`")
