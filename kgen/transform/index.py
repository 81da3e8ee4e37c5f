"""Symbolic integer arithmetic for addresses: interned expressions, kept in normal form, each with a proven range.

Every expression is built through the functions here (or the operators), which simplify as they build: sums are
collected and sorted, constants folded, divisions and remainders reduced with what the ranges (`lo`, `hi`) and the
known divisors (`multiple`) prove. Equal expressions are the same object, so `is` compares and dicts are cheap.
Division and remainder round towards minus infinity, as in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from math import gcd, inf

from kgen.transform import ranges
from kgen.transform.memo import memoized

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1


class IndexExpr:
    """An integer expression. `lo` and `hi` are inclusive bounds, None where unbounded."""

    __slots__ = ("hi", "key", "lo", "multiple")

    lo: int | None
    hi: int | None
    multiple: int
    """A number that divides every value (0 for the constant zero)."""
    key: str
    """Structural text: orders terms the same in every run."""

    def __repr__(self) -> str:
        return self.key

    def __add__(self, other: IndexExpr | int) -> IndexExpr:
        return add(self, other)

    def __radd__(self, other: int) -> IndexExpr:
        return add(other, self)

    def __sub__(self, other: IndexExpr | int) -> IndexExpr:
        return add(self, mul(other, -1))

    def __rsub__(self, other: int) -> IndexExpr:
        return add(other, mul(self, -1))

    def __neg__(self) -> IndexExpr:
        return mul(self, -1)

    def __mul__(self, other: IndexExpr | int) -> IndexExpr:
        return mul(self, other)

    def __rmul__(self, other: int) -> IndexExpr:
        return mul(other, self)

    def __floordiv__(self, other: IndexExpr | int) -> IndexExpr:
        return floordiv(self, other)

    def __mod__(self, other: IndexExpr | int) -> IndexExpr:
        return mod(self, other)

    def __xor__(self, other: IndexExpr | int) -> IndexExpr:
        return xor(self, other)


class Const(IndexExpr):
    """A known integer."""

    __slots__ = ("value",)
    value: int


class Sym(IndexExpr):
    """A named integer in [lo, hi], a multiple of `multiple`; `wide` ones are 64-bit variables, others 32-bit."""

    __slots__ = ("name", "wide")
    name: str
    wide: bool


class Sum(IndexExpr):
    """const + sum of coefficient * atom; at least one term, coefficients non-zero, atoms neither Sum nor Const."""

    __slots__ = ("const", "terms")
    const: int
    terms: tuple[tuple[IndexExpr, int], ...]


class Product(IndexExpr):
    """A product of two or more factors, none of them constant. Sums are not multiplied out: `(row + i) * stride`."""

    __slots__ = ("factors",)
    factors: tuple[IndexExpr, ...]


class Binary(IndexExpr):
    """An operation on two operands that has no simpler form."""

    __slots__ = ("left", "right")
    left: IndexExpr
    right: IndexExpr


class FloorDiv(Binary):
    """left // right, right >= 1."""

    __slots__ = ()


class Mod(Binary):
    """left - left // right * right, right >= 1."""

    __slots__ = ()


class Xor(Binary):
    """Bitwise exclusive or, of two's complement numbers where negative."""

    __slots__ = ()


class Min(Binary):
    """The smaller operand."""

    __slots__ = ()


class Max(Binary):
    """The larger operand."""

    __slots__ = ()


class Gather(IndexExpr):
    """An element of an integer table in memory: `table[index]`."""

    __slots__ = ("index", "table")
    table: str
    index: IndexExpr


_interned: dict[tuple[object, ...], IndexExpr] = {}


# --------------------------------------------------------------------------------------------- leaves


def const(value: int) -> Const:
    """The constant `value`."""
    found = _interned.get((Const, value))
    if found is None:
        found = Const()
        found.value = found.lo = found.hi = value
        found.multiple, found.key = abs(value), str(value)
        _interned[Const, value] = found
    assert isinstance(found, Const)
    return found


def sym(name: str, lo: int = 0, hi: int | None = None, *, multiple_of: int = 1, wide: bool = False) -> Sym:
    """The variable `name` with lo <= name < hi, known to be a multiple of `multiple_of`.

    `hi` is exclusive; left out, it is what the variable's type holds (32 bits) or unbounded (`wide`, 64 bits).
    """
    if multiple_of < 1 or (hi is not None and hi <= lo):
        raise ValueError(f"{name}: empty range [{lo}, {hi}) or multiple_of {multiple_of} < 1")
    last = (None if wide else INT32_MAX) if hi is None else hi - 1
    key = (Sym, name, lo, last, multiple_of, wide)
    found = _interned.get(key)
    if found is None:
        found = Sym()
        found.name, found.wide, found.multiple, found.key = name, wide, multiple_of, name
        found.lo = -(-lo // multiple_of) * multiple_of
        found.hi = None if last is None else last // multiple_of * multiple_of
        if found.hi is not None and found.lo > found.hi:
            raise ValueError(f"{name}: no multiple of {multiple_of} in [{lo}, {hi})")
        _interned[key] = found
    assert isinstance(found, Sym)
    return found


def gather(table: str, index: IndexExpr | int, lo: int, hi: int, *, multiple_of: int = 1) -> IndexExpr:
    """`table[index]`, whose entries are multiples of `multiple_of` in [lo, hi)."""
    where = as_expr(index)
    key = (Gather, table, where, lo, hi, multiple_of)
    found = _interned.get(key)
    if found is None:
        found = Gather()
        found.table, found.index = table, where
        found.lo, found.hi, found.multiple, found.key = lo, hi - 1, multiple_of, f"{table}[{where.key}]"
        _interned[key] = found
    return found


def as_expr(value: IndexExpr | int) -> IndexExpr:
    """`value` as an expression."""
    return value if isinstance(value, IndexExpr) else const(value)


def constant(value: IndexExpr | int) -> int | None:
    """The integer `value` is known to be, else None."""
    if isinstance(value, int):
        return value
    return value.value if isinstance(value, Const) else None


def linear(value: IndexExpr | int) -> tuple[tuple[tuple[IndexExpr, int], ...], int]:
    """(terms, constant) of `value` as a sum of coefficient * atom."""
    if isinstance(value, int):
        return (), value
    if isinstance(value, Const):
        return (), value.value
    if isinstance(value, Sum):
        return value.terms, value.const
    return ((value, 1),), 0


# --------------------------------------------------------------------------------------------- sums and products


@memoized
def add(left: IndexExpr | int, right: IndexExpr | int) -> IndexExpr:
    """left + right."""
    left_terms, left_const = linear(left)
    right_terms, right_const = linear(right)
    return _collect((*left_terms, *right_terms), left_const + right_const)


def total(values: Iterable[IndexExpr | int]) -> IndexExpr:
    """The sum of `values`."""
    return _total(tuple(values))


@memoized
def _total(values: tuple[IndexExpr | int, ...]) -> IndexExpr:
    parts = [linear(value) for value in values]
    return _collect((term for terms, _ in parts for term in terms), sum(offset for _, offset in parts))


def _collect(terms: Iterable[tuple[IndexExpr, int]], offset: int) -> IndexExpr:
    """The sum in normal form: like terms joined, digits of one number put back together, coarsest term first."""
    table: dict[IndexExpr, int] = {}
    for atom, coefficient in terms:
        table[atom] = table.get(atom, 0) + coefficient
    while (joined := _join_digits(table)) is not None:
        (atom, coefficient), digits = joined
        for digit in digits:
            del table[digit]
        for part, factor in linear(atom)[0]:
            table[part] = table.get(part, 0) + factor * coefficient
        offset += linear(atom)[1] * coefficient
    return sum_of(tuple(item for item in table.items() if item[1]), offset)


def _join_digits(table: Mapping[IndexExpr, int]) -> tuple[tuple[IndexExpr, int], tuple[IndexExpr, ...]] | None:
    """The first two digits of one number side by side in `table`, as ((number, coefficient), digits to remove).

    x // c * c + x % c is x, and x // c % d * c + x % c is x % (c * d).
    """
    remainders = [(a, a.right.value, c) for a, c in table.items() if isinstance(a, Mod) and isinstance(a.right, Const)]
    for atom, modulus, coefficient in remainders:
        quotient = floordiv(atom.left, modulus)
        if coefficient and table.get(quotient) == coefficient * modulus:
            return (atom.left, coefficient), (atom, quotient)
        for other, more, factor in remainders:
            if other.left is quotient and factor == coefficient * modulus:
                return (mod(atom.left, modulus * more), coefficient), (atom, other)
    return None


def sum_of(terms: tuple[tuple[IndexExpr, int], ...], offset: int) -> IndexExpr:
    """The sum of terms that are already collected: distinct atoms, coefficients not zero."""
    if not terms:
        return const(offset)
    if len(terms) == 1 and offset == 0 and terms[0][1] == 1:
        return terms[0][0]
    terms = tuple(sorted(terms, key=_term_order))
    key = (Sum, offset, terms)
    found = _interned.get(key)
    if found is None:
        found = Sum()
        found.terms, found.const = terms, offset
        found.lo, found.hi = ranges.total((((a.lo, a.hi), c) for a, c in terms), offset)
        found.multiple = reduce(gcd, (c * a.multiple for a, c in terms), offset)
        found.key = f"({'+'.join([f'{c}*{a.key}' for a, c in terms])}+{offset})"
        _interned[key] = found
    return found


def _term_order(term: tuple[IndexExpr, int]) -> tuple[bool, float, str]:
    """Products with run-time strides first, then by how far a term reaches, then by text."""
    atom, coefficient = term
    reach = -inf if atom.hi is None or atom.lo is None else -abs(coefficient) * max(abs(atom.lo), abs(atom.hi))
    return not isinstance(atom, Product), reach, atom.key


@memoized
def mul(left: IndexExpr | int, right: IndexExpr | int) -> IndexExpr:
    """left * right. A constant is multiplied into a sum; other products keep their factors."""
    left_value, right_value = constant(left), constant(right)
    if left_value is not None:
        terms, offset = linear(right)
        return _collect(((a, c * left_value) for a, c in terms), offset * left_value)
    if right_value is not None:
        return mul(right_value, left)
    scale = 1
    factors: list[IndexExpr] = []
    for side in (as_expr(left), as_expr(right)):
        terms, offset = linear(side)
        single = len(terms) == 1 and offset == 0
        atom = terms[0][0] if single else side
        scale *= terms[0][1] if single else 1
        factors.extend(atom.factors if isinstance(atom, Product) else (atom,))
    return mul(scale, _product(tuple(sorted(factors, key=_factor_order))))


def _factor_order(factor: IndexExpr) -> tuple[bool, bool, str]:
    """Sums before variables and 64-bit variables last: `(row + i) * stride`."""
    wide = isinstance(factor, Sym) and factor.wide
    return wide, not isinstance(factor, Sum), factor.key


def _product(factors: tuple[IndexExpr, ...]) -> IndexExpr:
    key = (Product, factors)
    found = _interned.get(key)
    if found is None:
        found = Product()
        found.factors = factors
        found.lo, found.hi = reduce(ranges.product, ((f.lo, f.hi) for f in factors))
        found.multiple = reduce(lambda product, f: product * f.multiple, factors, 1)
        found.key = f"({'*'.join([f.key for f in factors])})"
        _interned[key] = found
    return found


# --------------------------------------------------------------------------------------------- division


@memoized
def floordiv(left: IndexExpr | int, right: IndexExpr | int) -> IndexExpr:
    """left // right, rounded towards minus infinity. `right` must be proven positive."""
    left = as_expr(left)
    divisor = _positive(right)
    if divisor is None:
        return _floordiv_symbolic(left, as_expr(right))
    if divisor == 1:
        return left
    terms, offset = linear(left)
    whole = [(a, c // divisor) for a, c in terms if c % divisor == 0]
    rest = sum_of(tuple((a, c) for a, c in terms if c % divisor), offset % divisor)
    quotient = _collect(whole, offset // divisor)
    if rest.lo is not None and rest.hi is not None and rest.lo // divisor == rest.hi // divisor:
        return add(quotient, rest.lo // divisor)
    return add(quotient, _floordiv_rest(rest, divisor))


def _positive(divisor: IndexExpr | int) -> int | None:
    """The divisor where it is a constant, None where it is symbolic; ValueError unless proven >= 1."""
    value = constant(divisor)
    low = value if value is not None else as_expr(divisor).lo
    if low is None or low < 1:
        raise ValueError(f"divisor {divisor!r} is not proven positive")
    return value


def _floordiv_symbolic(left: IndexExpr, right: IndexExpr) -> IndexExpr:
    """(q * s + r) // s is q where 0 <= r < s is proven."""
    quotient, rest = _split_multiple(left, right)
    if rest.lo is not None and rest.lo >= 0 and _below_zero(rest - right):
        return quotient
    return add(quotient, _binary(FloorDiv, rest, right))


def _below_zero(value: IndexExpr) -> bool:
    return value.hi is not None and value.hi < 0


def _split_multiple(value: IndexExpr, factor: IndexExpr) -> tuple[IndexExpr, IndexExpr]:
    """(q, r) with value = q * factor + r, taking the terms that hold `factor` as a factor."""
    terms, offset = linear(value)
    quotient: list[IndexExpr] = []
    rest: list[tuple[IndexExpr, int]] = []
    for atom, coefficient in terms:
        factors = list(atom.factors) if isinstance(atom, Product) else [atom]
        if factor in factors:
            factors.remove(factor)
            quotient.append(reduce(mul, factors, as_expr(coefficient)))
        else:
            rest.append((atom, coefficient))
    return total(quotient), _collect(rest, offset)


def grains(terms: Sequence[tuple[IndexExpr, int]]) -> list[int]:
    """Candidate grains of a sum, coarsest first: the steps of its terms and their running common divisors."""
    steps = sorted({abs(c) * a.multiple for a, c in terms if a.multiple}, reverse=True)
    running = {reduce(gcd, steps[: i + 1]) for i in range(len(steps))}
    return sorted({*steps, *running} - {1}, reverse=True)


def coarse_and_fine(value: IndexExpr, grain: int) -> tuple[IndexExpr, IndexExpr]:
    """(x, y): value = x + y, every value of x a multiple of `grain`; y holds the other terms and the constant."""
    terms, offset = linear(value)
    coarse = tuple((a, c) for a, c in terms if c * a.multiple % grain == 0)
    fine = tuple((a, c) for a, c in terms if c * a.multiple % grain)
    return sum_of(coarse, offset // grain * grain), sum_of(fine, offset % grain)


def _within(value: IndexExpr, size: int) -> bool:
    return value.lo is not None and value.hi is not None and value.lo >= 0 and value.hi < size


def _divided(value: IndexExpr, divisor: int) -> IndexExpr | None:
    """value / divisor where the divisor divides every coefficient, else None."""
    terms, offset = linear(value)
    if offset % divisor or any(c % divisor for _, c in terms):
        return None
    return _collect(((a, c // divisor) for a, c in terms), offset // divisor)


def _floordiv_rest(rest: IndexExpr, divisor: int) -> IndexExpr:
    """rest // divisor where no coefficient is a multiple of the divisor."""
    for grain in {gcd(divisor, g): None for g in grains(linear(rest)[0])}:
        coarse, fine = coarse_and_fine(rest, grain)
        if grain > 1 and _within(fine, grain):
            reduced = _divided(coarse, grain)
            if reduced is not None:
                return floordiv(reduced, divisor // grain)
            if coarse is not rest:
                return floordiv(coarse, divisor)
    if isinstance(rest, FloorDiv) and isinstance(rest.right, Const):
        return floordiv(rest.left, rest.right.value * divisor)
    if isinstance(rest, Mod) and isinstance(rest.right, Const) and rest.right.value % divisor == 0:
        return mod(floordiv(rest.left, divisor), rest.right.value // divisor)
    if isinstance(rest, Xor) and _power_of_two(divisor):
        return xor(floordiv(rest.left, divisor), floordiv(rest.right, divisor))
    return _binary(FloorDiv, rest, const(divisor))


@memoized
def mod(left: IndexExpr | int, right: IndexExpr | int) -> IndexExpr:
    """left % right, in [0, right). `right` must be proven positive."""
    left = as_expr(left)
    divisor = _positive(right)
    if divisor is None:
        rest = _split_multiple(left, as_expr(right))[1]
        small = rest.lo is not None and rest.lo >= 0 and _below_zero(rest - right)
        return rest if small else _binary(Mod, rest, as_expr(right))
    terms, offset = linear(left)
    kept = tuple((a, c % divisor if abs(c) >= divisor else c) for a, c in terms if c * a.multiple % divisor)
    rest = _collect(kept, offset % divisor)
    if rest.lo is not None and rest.hi is not None and rest.lo // divisor == rest.hi // divisor:
        return add(rest, -(rest.lo // divisor * divisor))
    return _mod_rest(rest, divisor)


def _mod_rest(rest: IndexExpr, divisor: int) -> IndexExpr:
    """rest % divisor where the range does not decide it."""
    opened = _open_mods(rest, divisor)
    if opened is not rest:
        return mod(opened, divisor)
    for grain in {gcd(divisor, g): None for g in grains(linear(rest)[0])}:
        coarse, fine = coarse_and_fine(rest, grain)
        reduced = _divided(coarse, grain)
        if grain > 1 and reduced is not None and _within(fine, grain):
            return add(mul(mod(reduced, divisor // grain), grain), fine)
    if isinstance(rest, Xor) and _power_of_two(divisor):
        return xor(mod(rest.left, divisor), mod(rest.right, divisor))
    return _binary(Mod, rest, const(divisor))


def _open_mods(value: IndexExpr, divisor: int) -> IndexExpr:
    """`value` with x % d replaced by x wherever that changes it by multiples of `divisor` only."""
    terms, offset = linear(value)
    parts: list[IndexExpr | int] = [offset]
    for atom, coefficient in terms:
        opens = isinstance(atom, Mod) and coefficient * atom.right.multiple % divisor == 0
        parts.append(mul(atom.left if opens and isinstance(atom, Mod) else atom, coefficient))
    return total(parts)


# --------------------------------------------------------------------------------------------- bits and extremes


def _power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


@memoized
def xor(left: IndexExpr | int, right: IndexExpr | int) -> IndexExpr:
    """left ^ right, of two's complement numbers where negative. A common power of two is taken out."""
    left, right = sorted((as_expr(left), as_expr(right)), key=lambda e: (isinstance(e, Const), len(e.key), e.key))
    if left is right:
        return const(0)
    if isinstance(right, Const) and (isinstance(left, Const) or right.value == 0):
        return const(left.value ^ right.value) if isinstance(left, Const) else left
    step = reduce(gcd, (*(c for e in (left, right) for _, c in linear(e)[0]), linear(left)[1], linear(right)[1]))
    scale = step & -step
    reduced = (_divided(left, scale), _divided(right, scale)) if scale > 1 else (None, None)
    if reduced[0] is not None and reduced[1] is not None:
        return mul(xor(reduced[0], reduced[1]), scale)
    return _binary(Xor, left, right)


@memoized
def minimum(left: IndexExpr | int, right: IndexExpr | int) -> IndexExpr:
    """The smaller of two expressions."""
    left, right = as_expr(left), as_expr(right)
    difference = left - right
    if difference.hi is not None and difference.hi <= 0:
        return left
    if difference.lo is not None and difference.lo >= 0:
        return right
    return _binary(Min, left, right)


@memoized
def maximum(left: IndexExpr | int, right: IndexExpr | int) -> IndexExpr:
    """The larger of two expressions."""
    left, right = as_expr(left), as_expr(right)
    difference = left - right
    if difference.lo is not None and difference.lo >= 0:
        return left
    if difference.hi is not None and difference.hi <= 0:
        return right
    return _binary(Max, left, right)


def ceildiv(left: IndexExpr | int, right: IndexExpr | int) -> IndexExpr:
    """left / right rounded up."""
    return floordiv(add(left, add(right, -1)), right)


def _binary(kind: type[Binary], left: IndexExpr, right: IndexExpr) -> IndexExpr:
    key = (kind, left, right)
    found = _interned.get(key)
    if found is None:
        node = kind()
        node.left, node.right = left, right
        node.lo, node.hi = _BINARY_RANGES[kind]((left.lo, left.hi), (right.lo, right.hi))
        node.multiple = _binary_multiple(kind, left, right)
        node.key = f"{kind.__name__}({left.key},{right.key})"
        _interned[key] = found = node
    return found


_BINARY_RANGES: dict[type[Binary], Callable[[ranges.Range, ranges.Range], ranges.Range]] = {
    FloorDiv: ranges.floordiv,
    Mod: ranges.mod,
    Xor: ranges.xor,
    Min: ranges.minimum,
    Max: ranges.maximum,
}


def _binary_multiple(kind: type[Binary], left: IndexExpr, right: IndexExpr) -> int:
    common = gcd(left.multiple, right.multiple)
    if kind is FloorDiv:
        exact = isinstance(right, Const) and left.multiple % right.value == 0
        return left.multiple // right.multiple if exact else 1
    return common & -common if kind is Xor else common
