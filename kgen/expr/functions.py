"""Every function of the language, in one table: arity and meaning.

A *primitive* is one call of the target's library; `machines.py` states its error. A *composite* is defined by an
expression over primitives, which every target's helper of that name computes as written, so that its error follows.
`f32(x)`, `bf16(x)`, ... are casts and stand in `dtypes.DTYPES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kgen.expr.dtypes import DTYPES


@dataclass(frozen=True)
class Function:
    """A function of f32 arguments with an f32 result (`where` takes a condition first)."""

    name: str
    parameters: tuple[str, ...]
    summary: str
    definition: str = ""
    """Expression over `parameters` that a composite computes; empty for a primitive."""


_FUNCTIONS = (
    Function("where", ("condition", "x", "y"), "x where the condition holds, else y"),
    Function("max", ("x", "y"), "the larger; NaN if either is NaN"),
    Function("min", ("x", "y"), "the smaller; NaN if either is NaN"),
    Function("clamp", ("x", "lo", "hi"), "min(max(x, lo), hi); NaN if any is NaN", "min(max(x, lo), hi)"),
    Function("relu", ("x",), "max(x, 0); NaN stays NaN", "max(x, 0)"),
    Function("abs", ("x",), "absolute value"),
    Function("floor", ("x",), "largest integer not above x"),
    Function("round", ("x",), "nearest integer, ties to even"),
    Function("exp", ("x",), "e to the x"),
    Function("exp2", ("x",), "2 to the x"),
    Function("log", ("x",), "natural logarithm; NaN below 0, -inf at 0"),
    Function("log2", ("x",), "logarithm to base 2; NaN below 0, -inf at 0"),
    Function("sqrt", ("x",), "square root; NaN below 0"),
    Function("rsqrt", ("x",), "1 / sqrt(x); NaN below 0, inf at 0"),
    Function("tanh", ("x",), "hyperbolic tangent"),
    Function("erf", ("x",), "error function"),
    Function("sigmoid", ("x",), "logistic function", "1 / (1 + exp(-x))"),
    Function("silu", ("x",), "x sigmoid(x), also called swish", "x / (1 + exp(-x))"),
    Function("gelu", ("x",), "x times the normal distribution function", "0.5 * x * (1 + erf(0.70710678 * x))"),
    Function(
        "gelu_tanh", ("x",), "gelu's approximation by tanh",
        "0.5 * x * (1 + tanh(0.79788456 * (x + 0.044715 * x * x * x)))",
    ),
)  # fmt: skip
FUNCTIONS: Mapping[str, Function] = MappingProxyType({function.name: function for function in _FUNCTIONS})

RESERVED = frozenset({*FUNCTIONS, *DTYPES, "and", "or", "not"})
"""Words that cannot name an input."""
