"""The functions that `to_numpy` text calls, written by hand for float32 or float64 arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from kgen.expr.dtypes import DTYPES, DType
from kgen.expr.rounding import round_to


def library(dtype: str = "float32") -> Mapping[str, Callable[..., Any]]:
    """Functions and casts by name; results are of `dtype` (casts hold the narrower format's values in it)."""
    import numpy as np

    def constant(value: float) -> Any:
        return np.dtype(dtype).type(np.float32(value))

    def clamp(x: Any, lo: Any, hi: Any) -> Any:
        return np.minimum(np.maximum(x, lo), hi)

    def erf(x: Any) -> Any:
        return np.asarray(np.frompyfunc(math.erf, 1, 1)(x)).astype(dtype)

    def sigmoid(x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    def silu(x: Any) -> Any:
        return x / (1 + np.exp(-x))

    def gelu(x: Any) -> Any:
        return constant(0.5) * x * (1 + erf(constant(0.70710678) * x))

    def gelu_tanh(x: Any) -> Any:
        inner = constant(0.79788456) * (x + constant(0.044715) * x * x * x)
        return constant(0.5) * x * (1 + np.tanh(inner))

    def relu(x: Any) -> Any:
        return np.maximum(x, 0)

    def rsqrt(x: Any) -> Any:
        return 1 / np.sqrt(x)

    def cast(target: DType) -> Callable[[Any], Any]:
        return lambda x: round_to(np.asarray(x, dtype=np.float64), target).astype(dtype)

    own = (clamp, erf, sigmoid, silu, gelu, gelu_tanh, relu, rsqrt)
    numpy_own: dict[str, Callable[..., Any]] = {
        "where": np.where, "max": np.maximum, "min": np.minimum, "abs": np.abs, "floor": np.floor, "round": np.rint,
        "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt, "tanh": np.tanh,
    }  # fmt: skip
    return {**numpy_own, **{f.__name__: f for f in own}, **{name: cast(target) for name, target in DTYPES.items()}}
