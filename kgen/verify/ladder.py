"""One kernel up the ladder, whatever its target: the record of what was verified."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kgen.plan import CudaPlan, Plan
from kgen.render.files import body_digest, body_of, render, source_path
from kgen.spec.kernel import Kernel
from kgen.verify import cuda, pallas
from kgen.verify.record import COVERS, Record
from kgen.verify.shapes import Case


@dataclass(frozen=True)
class Subject:
    """A kernel to verify. `source` replaces the rendered text: a copy that somebody edited."""

    kernel: Kernel
    plan: Plan
    source: str | None = None


def verify(subject: Subject, seed: str | None = None, only: Sequence[Case] | None = None) -> Record:
    """Climbs all rungs. Inputs are seeded by the kernel's digest where no seed is given."""
    kernel, plan = subject.kernel, subject.plan
    files = render([plan])
    name = source_path(plan)
    text = files[name] if subject.source is None else subject.source
    seed = seed or plan.header.kernel_digest
    if isinstance(plan, CudaPlan):
        header = plan.abi.header_file
        rungs = tuple(cuda.ladder(kernel, plan, cuda.Files(name, text, header, files[header]), seed, only))
    else:
        rungs = tuple(pallas.ladder(kernel, plan, text, seed, only))
    return Record(
        kernel=kernel.name,
        spec=kernel.spec,
        arch=kernel.arch,
        kernel_digest=plan.header.kernel_digest,
        body_digest=body_digest(body_of(text)),
        covers=COVERS[kernel.target],
        rungs=rungs,
    )
