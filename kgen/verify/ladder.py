"""One kernel up the ladder, whatever its target: the record of what was verified."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from kgen.plan import CudaPlan, PallasPlan, Plan
from kgen.render.files import body_digest, body_of, render, source_path
from kgen.spec.kernel import Kernel
from kgen.verify import cuda, pallas
from kgen.verify.record import COVERS, Record, Rung
from kgen.verify.shapes import Case


@dataclass(frozen=True)
class Subject:
    """A kernel to verify. `source` replaces the rendered text: a copy that somebody edited."""

    kernel: Kernel
    plan: Plan
    source: str | None = None


@dataclass(frozen=True)
class _Climb:
    """What a target's ladder is given: the text to verify, and the other files that go with it."""

    subject: Subject
    text: str
    files: Mapping[str, str]
    seed: str
    only: Sequence[Case] | None


def _cuda(climb: _Climb) -> Iterator[Rung]:
    kernel, plan = climb.subject.kernel, climb.subject.plan
    assert isinstance(plan, CudaPlan)
    header = plan.abi.header_file
    files = cuda.Files(source_path(plan), climb.text, header, climb.files[header])
    return cuda.ladder(kernel, plan, files, climb.seed, climb.only)


def _pallas(climb: _Climb) -> Iterator[Rung]:
    plan = climb.subject.plan
    assert isinstance(plan, PallasPlan)
    return pallas.ladder(climb.subject.kernel, plan, climb.text, climb.seed, climb.only)


LADDERS: Mapping[str, Callable[[_Climb], Iterator[Rung]]] = MappingProxyType({"cuda": _cuda, "pallas": _pallas})


def verify(subject: Subject, seed: str | None = None, only: Sequence[Case] | None = None) -> Record:
    """Climbs all rungs. Inputs are seeded by the kernel's digest where no seed is given."""
    kernel, plan = subject.kernel, subject.plan
    files = render([plan])
    text = files[source_path(plan)] if subject.source is None else subject.source
    climb = _Climb(subject, text, files, seed or plan.header.kernel_digest, only)
    return Record(
        kernel=kernel.name,
        spec=kernel.spec,
        arch=kernel.arch,
        kernel_digest=plan.header.kernel_digest,
        body_digest=body_digest(body_of(text)),
        covers=COVERS[kernel.target],
        rungs=tuple(LADDERS[kernel.target](climb)),
    )
