"""A validated spec: the kernels it makes, and the way back from a problem to the place in the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from kgen.spec.diagnostic import Diagnostic
from kgen.spec.kernel import Kernel, Signature
from kgen.spec.problem import Path, Problem
from kgen.spec.source import Tree
from kgen.spec.sweep import Axis, Choice, combinations, nested
from kgen.spec.vocabulary import TARGET_FACTS

MAX_FILE_NAME = 127
"""Bytes of a generated file's name."""


@dataclass(frozen=True)
class TargetKernels:
    """A target entry ready to make kernels."""

    path: Path
    target: str
    arch: str
    name: str
    """Before the suffixes of a sweep."""
    signature: Signature
    fields: dict[str, int | str]
    """Algorithm fields, dotted, before a sweep's."""

    @property
    def index(self) -> int:
        """Place in `targets`."""
        return int(self.path[1])


@dataclass(frozen=True)
class Document:
    """A spec without errors."""

    file: str
    """Project-relative path, with forward slashes."""
    tree: Tree
    targets: tuple[TargetKernels, ...]
    axes: tuple[Axis, ...]
    verify: tuple[dict[str, int], ...]
    header: tuple[str, ...]

    @property
    def kernel(self) -> str:
        """The name all its kernels share."""
        return self.targets[0].signature.kernel

    def kernels(self) -> Iterator[Kernel]:
        """Every kernel of the document, target by target, made one at a time."""
        for target in self.targets:
            for chosen in combinations(list(self.axes), target.index):
                yield self._kernel(target, chosen)

    def _kernel(self, target: TargetKernels, chosen: tuple[Choice, ...]) -> Kernel:
        axes = [axis for axis in self.axes if axis.target == target.index] if chosen else []
        fields = target.fields
        for axis, choice in zip(axes, chosen, strict=True):
            kept = {n: v for n, v in fields.items() if n != axis.field and not n.startswith(f"{axis.field}.")}
            fields = {**kept, **dict(choice.fields)}
        return Kernel(
            name=target.name + "".join(choice.suffix for choice in chosen),
            signature=target.signature,
            target=target.target,
            arch=target.arch,
            algorithm=nested(fields),
            spec=self.file,
            path=target.path,
            verify=self.verify,
            header=self.header,
            swept=tuple((axis.key, axis.field, c.index) for axis, c in zip(axes, chosen, strict=True)),
        )

    def names(self) -> Iterator[tuple[str, Path, str]]:
        """(symbol, path of the target entry, suffix of the file) of every kernel."""
        for target in self.targets:
            suffix = TARGET_FACTS[target.target].suffix
            for chosen in combinations(list(self.axes), target.index):
                yield target.name + "".join(choice.suffix for choice in chosen), target.path, suffix

    def diagnose(self, problems: Iterable[Problem], kernel: Kernel | None = None) -> tuple[Diagnostic, ...]:
        """Problems as places in the file, in order of place, each once.

        A problem of a swept kernel stands at the value the sweep gave it and names the kernel.
        """
        return diagnose(self.tree, (_swept(problem, kernel) if kernel else problem for problem in problems))


def diagnose(tree: Tree, problems: Iterable[Problem]) -> tuple[Diagnostic, ...]:
    """Problems of a file as diagnostics, in order of place, each once."""
    found = {
        tree.source.diagnostic(tree.index(p.path, p.offset, p.on_key), p.clause, p.message, p.fix) for p in problems
    }
    return tuple(sorted(found))


def _swept(problem: Problem, kernel: Kernel) -> Problem:
    if not kernel.swept:
        return problem
    problem = replace(problem, message=f"{problem.message} ({kernel.name})")
    for key, field, index in kernel.swept:
        at = (*kernel.path, *field.split("."))
        if problem.path[: len(at)] == at:
            return replace(problem, path=("sweep", key, index, *problem.path[len(at) :]))
    return problem
