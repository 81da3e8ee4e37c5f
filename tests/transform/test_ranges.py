"""Ranges against enumeration: no value an operation can give lies outside the range it states."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from kgen.transform import ranges

FAR = 60
"""Stands for an unbounded end."""
BOUNDED: list[ranges.Range] = [(lo, hi) for lo in (-9, -4, -1, 0, 1, 3) for hi in (-3, -1, 0, 2, 7) if lo <= hi]
RANGES: list[ranges.Range] = [*BOUNDED, (None, None), (None, -2), (None, 5), (-3, None), (0, None), (2, None)]
POSITIVE: list[ranges.Range] = [(1, 1), (1, 4), (3, 3), (2, 8), (1, None), (4, None)]


def _values(bounds: ranges.Range) -> range:
    lo, hi = bounds
    return range(-FAR if lo is None else lo, (FAR if hi is None else hi) + 1)


def _holds(bounds: ranges.Range, value: int) -> bool:
    lo, hi = bounds
    return (lo is None or lo <= value) and (hi is None or value <= hi)


@pytest.mark.parametrize(
    ("stated", "plain", "rights"),
    [
        (ranges.product, lambda a, b: a * b, RANGES),
        (ranges.xor, lambda a, b: a ^ b, RANGES),
        (ranges.minimum, min, RANGES),
        (ranges.maximum, max, RANGES),
        (ranges.floordiv, lambda a, b: a // b, POSITIVE),
        (ranges.mod, lambda a, b: a % b, POSITIVE),
        (lambda a, b: ranges.total([(a, 3), (b, -2)], 5), lambda a, b: 3 * a - 2 * b + 5, RANGES),
    ],
    ids=["product", "xor", "minimum", "maximum", "floordiv", "mod", "total"],
)
def test_ranges_hold_every_value(
    stated: Callable[[ranges.Range, ranges.Range], ranges.Range],
    plain: Callable[[int, int], int],
    rights: list[ranges.Range],
) -> None:
    for left, right in itertools.product(RANGES, rights):
        found = stated(left, right)
        assert all(_holds(found, plain(a, b)) for a in _values(left) for b in _values(right))


@pytest.mark.parametrize("stated", [ranges.minimum, ranges.maximum])
def test_extremes_are_tight(stated: Callable[[ranges.Range, ranges.Range], ranges.Range]) -> None:
    plain = min if stated is ranges.minimum else max
    for left, right in itertools.product(BOUNDED, BOUNDED):
        values = [plain(a, b) for a in _values(left) for b in _values(right)]
        assert stated(left, right) == (min(values), max(values))
