"""How far each machine's f32 arithmetic and functions are from exact, with sources.

Errors are in ulps of f32 from the exact result of the rounded arguments: 0.5 is correctly rounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Machine:
    """One way f32 is computed. `ulps` maps operators (`+ - * /`) and primitive functions to their largest error.

    Primitives that `ulps` lacks (max, min, abs, floor, round, where) are exact on every machine.
    """

    name: str
    ulps: Mapping[str, float]
    flushes: bool
    """Whether subnormal arguments and results may be replaced by 0."""
    source: str


def _ulps(divide: float, **functions: float) -> Mapping[str, float]:
    return MappingProxyType({"+": 0.5, "-": 0.5, "*": 0.5, "/": divide, **functions})


CUDA = Machine(
    "cuda",
    # The guide counts from the correctly rounded result: half an ulp more from the exact one.
    _ulps(0.5, exp=2.5, exp2=2.5, log=1.5, log2=1.5, sqrt=0.5, rsqrt=2.5, tanh=2.5, erf=2.5),
    flushes=False,
    source="CUDA C++ Programming Guide, Mathematical Functions, single precision; the largest figure of editions 10 to"
    " 13, default flags (-prec-div=true -prec-sqrt=true -ftz=false)",
)
TPU = Machine(
    "pallas",
    _ulps(199.5, exp=116.0, exp2=141.5, log=4030.5, log2=5159.0, sqrt=3.0, rsqrt=2.5, tanh=1365.5, erf=8.5),
    flushes=True,
    source="JAX documentation, Numerical accuracy, float32: the worst TPU generation. Assumed: Mosaic's functions"
    " are no worse than XLA's; a division errs as a reciprocal (198) and a product",
)
INTERPRET = Machine(
    "pallas-interpret",
    # XLA divides by a constant as a product with its rounded reciprocal: two roundings and a half.
    _ulps(1.5, exp=6.0, exp2=68.5, log=1.5, log2=2.5, sqrt=0.5, rsqrt=2.0, tanh=5.0, erf=7.0),
    flushes=True,
    source="JAX documentation, Numerical accuracy, float32, CPU; all of these hold on samples of jax 0.10.2 but exp,"
    " which errs by up to 5.6 just below overflow (all f32 in [64, 88.73]; 1.1 elsewhere)",
)
MACHINES: Mapping[str, Machine] = MappingProxyType({machine.name: machine for machine in (CUDA, TPU, INTERPRET)})
"""`cuda` and `pallas` are the targets' devices; `pallas-interpret` is XLA on a CPU, which runs Pallas kernels here."""
