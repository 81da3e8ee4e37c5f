"""What is done to whole index expressions: evaluate, substitute, list symbols, split into parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from kgen.transform.index import (
    Binary,
    Const,
    FloorDiv,
    Gather,
    IndexExpr,
    Max,
    Min,
    Mod,
    Product,
    Sum,
    Sym,
    Xor,
    floordiv,
    gather,
    linear,
    maximum,
    minimum,
    mod,
    mul,
    total,
    xor,
)
from kgen.transform.predicate import All, Negative, Predicate, Truth, Zero, both, conjuncts, equal, less

Tables = Mapping[str, Sequence[int]]

_COMPUTE: dict[type[Binary], Callable[[int, int], int]] = {
    FloorDiv: lambda a, b: a // b,
    Mod: lambda a, b: a % b,
    Xor: lambda a, b: a ^ b,
    Min: min,
    Max: max,
}
_BUILD: dict[type[Binary], Callable[[IndexExpr, IndexExpr], IndexExpr]] = {
    FloorDiv: floordiv,
    Mod: mod,
    Xor: xor,
    Min: minimum,
    Max: maximum,
}


def evaluate(value: IndexExpr, env: Mapping[str, int], tables: Tables | None = None) -> int:
    """The integer that `value` is where each symbol has the value `env` gives its name. KeyError: a name is missing."""
    if isinstance(value, Const):
        return value.value
    if isinstance(value, Sym):
        return env[value.name]
    if isinstance(value, Sum):
        return value.const + sum(c * evaluate(atom, env, tables) for atom, c in value.terms)
    if isinstance(value, Product):
        return reduce(lambda product, factor: product * evaluate(factor, env, tables), value.factors, 1)
    if isinstance(value, Gather):
        return (tables or {})[value.table][evaluate(value.index, env, tables)]
    assert isinstance(value, Binary)
    return _COMPUTE[type(value)](evaluate(value.left, env, tables), evaluate(value.right, env, tables))


def holds(predicate: Predicate, env: Mapping[str, int], tables: Tables | None = None) -> bool:
    """Whether the condition is met where each symbol has the value `env` gives its name."""
    if isinstance(predicate, Truth):
        return predicate.value
    if isinstance(predicate, All):
        return all(holds(part, env, tables) for part in predicate.parts)
    assert isinstance(predicate, Negative | Zero)
    value = evaluate(predicate.diff, env, tables)
    return value < 0 if isinstance(predicate, Negative) else value == 0


def substitute(value: IndexExpr, replacements: Mapping[IndexExpr, IndexExpr | int]) -> IndexExpr:
    """`value` with symbols (or any subexpressions) replaced, simplified anew."""
    if value in replacements:
        return total((replacements[value],))
    if isinstance(value, Sum):
        return total((value.const, *(substitute(atom, replacements) * c for atom, c in value.terms)))
    if isinstance(value, Product):
        return reduce(mul, (substitute(factor, replacements) for factor in value.factors))
    if isinstance(value, Gather):
        assert value.lo is not None and value.hi is not None
        index = substitute(value.index, replacements)
        return gather(value.table, index, value.lo, value.hi + 1, multiple_of=value.multiple)
    if isinstance(value, Binary):
        return _BUILD[type(value)](substitute(value.left, replacements), substitute(value.right, replacements))
    return value


def substitute_in(predicate: Predicate, replacements: Mapping[IndexExpr, IndexExpr | int]) -> Predicate:
    """The condition with symbols replaced, simplified anew."""
    if isinstance(predicate, All):
        return both(*(substitute_in(part, replacements) for part in predicate.parts))
    if isinstance(predicate, Negative):
        return less(substitute(predicate.diff, replacements), 0)
    if isinstance(predicate, Zero):
        return equal(substitute(predicate.diff, replacements), 0)
    return predicate


def symbols(value: IndexExpr | Predicate) -> tuple[Sym, ...]:
    """The symbols in `value`, in order of first appearance."""
    return tuple(dict.fromkeys(_symbols(value)))


def _symbols(value: IndexExpr | Predicate) -> list[Sym]:
    if isinstance(value, Sym):
        return [value]
    return [found for child in _children(value) for found in _symbols(child)]


def _children(value: IndexExpr | Predicate) -> tuple[IndexExpr | Predicate, ...]:
    if isinstance(value, Sum):
        return tuple(atom for atom, _ in value.terms)
    if isinstance(value, Product):
        return value.factors
    if isinstance(value, Binary):
        return value.left, value.right
    if isinstance(value, Gather):
        return (value.index,)
    if isinstance(value, All):
        return value.parts
    return (value.diff,) if isinstance(value, Negative | Zero) else ()


def split(value: IndexExpr, *varying: Sym) -> tuple[IndexExpr, IndexExpr]:
    """(base, step): value = base + step, where no term of `base` holds a varying symbol.

    Products are multiplied out where that separates more: `(row + i) * stride` gives `row * stride` and
    `i * stride`. What is left in `step` may still hold other symbols too (an exclusive or, a quotient).
    """
    base: list[IndexExpr | int] = []
    step: list[IndexExpr | int] = []
    terms, offset = linear(value)
    for atom, coefficient in terms:
        for part in _multiplied_out(atom, varying):
            target = step if any(symbol in varying for symbol in symbols(part)) else base
            target.append(part * coefficient)
    return total((*base, offset)), total(step)


def _multiplied_out(atom: IndexExpr, varying: tuple[Sym, ...]) -> tuple[IndexExpr, ...]:
    """Summands of `atom`, its sums split into the parts with and without a varying symbol."""
    if not isinstance(atom, Product):
        return (atom,)
    parts: tuple[IndexExpr, ...] = (total((1,)),)
    for factor in atom.factors:
        halves = split(factor, *varying) if isinstance(factor, Sum) else (factor,)
        parts = tuple(mul(part, half) for part in parts for half in halves)
    return tuple(part for part in parts if part.multiple)


def split_condition(predicate: Predicate, *varying: Sym) -> tuple[Predicate, Predicate]:
    """(fixed, moving): the condition as two that must both hold, with no varying symbol in the first."""
    parts = conjuncts(predicate)
    moving = [part for part in parts if any(symbol in varying for symbol in symbols(part))]
    return both(*(part for part in parts if part not in moving)), both(*moving)
