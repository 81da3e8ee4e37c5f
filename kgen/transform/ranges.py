"""Arithmetic of ranges: inclusive bounds, None where there is none. A result holds all that its operands allow."""

from __future__ import annotations

from collections.abc import Iterable

Range = tuple[int | None, int | None]


def total(terms: Iterable[tuple[Range, int]], offset: int) -> Range:
    """offset + the sum of range * coefficient."""
    lo: int | None = offset
    hi: int | None = offset
    for bounds, coefficient in terms:
        low, high = bounds if coefficient >= 0 else bounds[::-1]
        lo = None if lo is None or low is None else lo + coefficient * low
        hi = None if hi is None or high is None else hi + coefficient * high
    return lo, hi


def product(left: Range, right: Range) -> Range:
    """left * right."""
    (a, b), (c, d) = left, right
    if a is not None and b is not None and c is not None and d is not None:
        corners = (a * c, a * d, b * c, b * d)
        return min(corners), max(corners)
    return (a * c, None) if a is not None and a >= 0 and c is not None and c >= 0 else (None, None)


def floordiv(left: Range, right: Range) -> Range:
    """left // right for a divisor of 1 or more. A large divisor brings either bound towards 0 (or -1)."""
    (lo, hi), (small, large) = left, right
    assert small is not None
    if lo is not None:
        lo = lo // small if lo < 0 else (0 if large is None else lo // large)
    if hi is not None:
        hi = hi // small if hi >= 0 else (-1 if large is None else hi // large)
    return lo, hi


def mod(left: Range, right: Range) -> Range:
    """left % right for a divisor of 1 or more."""
    (lo, hi), (_, large) = left, right
    return 0, _least(None if large is None else large - 1, hi if lo is not None and lo >= 0 else None)


def xor(left: Range, right: Range) -> Range:
    """left ^ right: as many bits as the longer operand has; negative only where an operand may be."""
    bounds = (*left, *right)
    size = max((1 << (b if b >= 0 else ~b).bit_length() for b in bounds if b is not None), default=0)
    positive = all(low is not None and low >= 0 for low in (left[0], right[0]))
    return (0 if positive else None if None in bounds else -size), (None if None in bounds else size - 1)


def minimum(left: Range, right: Range) -> Range:
    """The smaller of two."""
    (a, b), (c, d) = left, right
    return (None if a is None or c is None else min(a, c)), _least(b, d)


def maximum(left: Range, right: Range) -> Range:
    """The larger of two."""
    (a, b), (c, d) = left, right
    lows = [low for low in (a, c) if low is not None]
    return max(lows, default=None), None if b is None or d is None else max(b, d)


def _least(left: int | None, right: int | None) -> int | None:
    return min((bound for bound in (left, right) if bound is not None), default=None)
