"""spec x arch -> plan: every decision of a kernel made, its clauses checked. One module a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from kgen.plan import cuda, pallas
from kgen.plan.base import Plan
from kgen.plan.cuda_views import CudaPlan
from kgen.plan.pallas_views import PallasPlan
from kgen.spec.kernel import Kernel
from kgen.spec.problem import Problem

_PLANNERS: Mapping[str, Callable[[Kernel], Plan | tuple[Problem, ...]]] = MappingProxyType(
    {"cuda": cuda.plan, "pallas": pallas.plan}
)


def plan_kernel(kernel: Kernel) -> Plan | tuple[Problem, ...]:
    """The plan of `kernel` (with what the lock chose filled in), or the clauses that it breaks."""
    return _PLANNERS[kernel.target](kernel)


__all__ = ["CudaPlan", "PallasPlan", "Plan", "plan_kernel"]
