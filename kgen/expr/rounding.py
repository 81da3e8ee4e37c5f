"""Rounding to a number format, on float64 arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgen.expr.dtypes import DType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def round_to(x: Array, dtype: DType) -> Array:
    """`x` rounded to `dtype`, to nearest even, as float64 of the same shape.

    Floats overflow to infinity and underflow gradually (IEEE 754 section 4.3.1); integers saturate and NaN gives 0.
    """
    import numpy as np

    if dtype.kind == "int":
        clipped = np.clip(np.rint(x), -dtype.largest - 1.0, dtype.largest)
        return np.where(np.isnan(clipped), 0.0, clipped)
    exponent = np.frexp(np.maximum(np.abs(x), dtype.smallest_normal))[1]
    unit = np.ldexp(1.0, exponent - dtype.precision)
    rounded: Array = np.rint(x / unit) * unit
    overflowed: Array = np.where(np.abs(rounded) > dtype.largest, np.copysign(np.inf, x), rounded)
    return overflowed
