"""Conditions over index expressions: comparisons in normal form, decided where ranges decide them.

`less` drops every part of a comparison that cannot change its outcome: where `column` and `k` are multiples of 8,
`column + 7 < k` becomes `column < k`. That is what makes the edge predicates of whole vectors cheap.
"""

from __future__ import annotations

from functools import reduce
from math import gcd

from kgen.transform.index import Const, IndexExpr, add, coarse_and_fine, grains, linear, mul, sum_of
from kgen.transform.memo import memoized


class Predicate:
    """A condition over index expressions; built by comparisons and `both`."""

    __slots__ = ("key",)
    key: str

    def __repr__(self) -> str:
        return self.key

    def __and__(self, other: Predicate) -> Predicate:
        return both(self, other)


class Truth(Predicate):
    """A condition that ranges decide."""

    __slots__ = ("value",)
    value: bool


class Negative(Predicate):
    """diff < 0: the normal form of every inequality."""

    __slots__ = ("diff",)
    diff: IndexExpr


class Zero(Predicate):
    """diff == 0: the normal form of every equation."""

    __slots__ = ("diff",)
    diff: IndexExpr


class All(Predicate):
    """Two or more conditions that must hold together, in the order they were given."""

    __slots__ = ("parts",)
    parts: tuple[Predicate, ...]


_interned: dict[tuple[object, ...], Predicate] = {}


def _below_zero(value: IndexExpr) -> bool:
    return value.hi is not None and value.hi < 0


def _truth(value: bool) -> Truth:
    node = Truth()
    node.value, node.key = value, str(value)
    return node


TRUE, FALSE = _truth(True), _truth(False)


@memoized
def less(left: IndexExpr | int, right: IndexExpr | int) -> Predicate:
    """left < right, decided where the ranges decide it, with parts that cannot change it dropped."""
    return _negative(add(left, mul(right, -1)))


def _negative(diff: IndexExpr) -> Predicate:
    if _below_zero(diff):
        return TRUE
    if diff.lo is not None and diff.lo >= 0:
        return FALSE
    for grain in grains(linear(diff)[0]):
        coarse, fine = coarse_and_fine(diff, grain)
        if fine.lo is not None and fine.hi is not None and fine.lo // grain == fine.hi // grain:
            rounded = add(coarse, fine.lo // grain * grain)
            if rounded is not diff:
                return _negative(rounded)
    terms, offset = linear(diff)
    common = reduce(gcd, (c for _, c in terms), offset)
    return _comparison(Negative, sum_of(tuple((a, c // common) for a, c in terms), offset // common))


def equal(left: IndexExpr | int, right: IndexExpr | int) -> Predicate:
    """left == right."""
    diff = add(left, mul(right, -1))
    if isinstance(diff, Const):
        return TRUE if diff.value == 0 else FALSE
    if (diff.lo is not None and diff.lo > 0) or _below_zero(diff):
        return FALSE
    return _comparison(Zero, diff)


def _comparison(kind: type[Negative] | type[Zero], diff: IndexExpr) -> Predicate:
    key = (kind, diff)
    found = _interned.get(key)
    if found is None:
        node = kind()
        node.diff, node.key = diff, f"{kind.__name__}({diff.key})"
        _interned[key] = found = node
    return found


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """The conditions that must hold together: none for true."""
    if isinstance(predicate, All):
        return predicate.parts
    return () if predicate is TRUE else (predicate,)


@memoized
def both(*predicates: Predicate) -> Predicate:
    """All of `predicates`, without those that another one implies."""
    parts = list(dict.fromkeys(part for p in predicates for part in conjuncts(p)))
    if FALSE in parts:
        return FALSE
    for part in tuple(parts):
        if any(implies(other, part) for other in parts if other is not part):
            parts.remove(part)
    if len(parts) < 2:
        return parts[0] if parts else TRUE
    key = (All, *parts)
    found = _interned.get(key)
    if found is None:
        found = All()
        found.parts, found.key = tuple(parts), f"All({','.join([p.key for p in parts])})"
        _interned[key] = found
    return found


@memoized
def implies(fact: Predicate, predicate: Predicate) -> bool:
    """Whether one comparison is seen to follow from another. False means: not proven."""
    if fact is predicate:
        return True
    if not isinstance(fact, Negative) or not isinstance(predicate, Negative):
        return False
    difference = predicate.diff - fact.diff
    return difference.hi is not None and difference.hi <= 0


def given(predicate: Predicate, *facts: Predicate) -> Predicate:
    """`predicate` without the conditions that the facts imply: what is left to test where the facts hold."""
    known = [part for fact in facts for part in conjuncts(fact)]
    return both(*(p for p in conjuncts(predicate) if not any(implies(fact, p) for fact in known)))
