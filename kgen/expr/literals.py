"""f32 literals without NumPy."""

from __future__ import annotations

import struct

MAX_DIGITS = 40
"""Longest number an expression may hold, in characters."""


def f32(value: float) -> float | None:
    """`value` rounded to f32, to nearest even; None where it overflows."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return None
    return rounded if abs(rounded) != float("inf") else None


def shortest(value: float) -> str:
    """The shortest decimal that reads back as the f32 `value`, always with a point or an exponent: `0.5`, `1e-5`."""
    text = next(text for digits in range(1, 10) if f32(float(text := f"{value:.{digits}g}")) == value)
    mantissa, _, exponent = text.partition("e")
    if exponent and not 0 <= int(exponent) < 7:
        return f"{mantissa}e{int(exponent)}"
    return repr(float(text))
