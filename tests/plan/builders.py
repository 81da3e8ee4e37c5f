"""Kernels for tests of plans: those of the repository's specs, and some made from a few fields."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from kgen.plan import CudaPlan, plan_kernel
from kgen.plan.base import Decision
from kgen.spec.kernel import Kernel
from kgen.spec.load import load_all, load_bytes
from kgen.spec.problem import Problem

ROOT = Path(__file__).parents[2]
SPEC = """\
kgen: 1
kernel: gemm
op: gemm
inputs:
  a: {{dtype: {dtype}, layout: {a}}}
  b: {{dtype: {dtype}, layout: {b}}}
outputs: {{c: {{dtype: f32, layout: {c}}}}}
targets:
  - {{arch: sm_80{fields}}}
"""


@lru_cache(maxsize=1)
def cuda_kernels() -> tuple[Kernel, ...]:
    """Every CUDA kernel of specs/."""
    loaded = load_all(sorted((ROOT / "specs").glob("*.yaml")), ROOT)
    assert loaded.diagnostics == ()
    return tuple(k for document in loaded.documents for k in document.kernels() if k.target == "cuda")


def kernel(fields: str = "", dtype: str = "bf16", a: str = "mk", b: str = "nk") -> Kernel:
    """A plain gemm for sm_80 with these algorithm fields, as YAML; batched where a layout has three letters."""
    c = "bmn" if len(a + b) > 4 else "mn"
    fields = fields + (", f32_mma: tf32" if dtype == "f32" else "")
    text = SPEC.format(fields=f", {fields.removeprefix(', ')}" if fields else "", dtype=dtype, a=a, b=b, c=c)
    loaded = load_bytes(text.encode(), "specs/gemm.yaml")
    assert loaded.diagnostics == ()
    return next(loaded.documents[0].kernels())


def planned(of: Kernel) -> CudaPlan:
    """The plan of a legal kernel."""
    made = plan_kernel(of)
    assert isinstance(made, CudaPlan), made
    return made


def problems(of: Kernel) -> tuple[Problem, ...]:
    """The clauses that an illegal kernel breaks."""
    made = plan_kernel(of)
    assert isinstance(made, tuple)
    return made


def chosen(decisions: tuple[Decision, ...]) -> dict[str, int | str]:
    """Decisions as a mapping."""
    return {decision.field: decision.value for decision in decisions}
