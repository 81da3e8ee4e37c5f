"""Index expressions as C++ and Python text, with the fewest parentheses and the casts that 64 bits need.

C++ text is exact for every value in the symbols' ranges: wherever 32-bit arithmetic is not proven to hold a result,
the first operand is widened (`int64_t(row) * stride`), and quotients of values that may be negative are printed as
shifts and masks (they need a power of two).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kgen.transform.index import (
    INT32_MAX,
    INT32_MIN,
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
    const,
    linear,
    total,
)
from kgen.transform.memo import memoized
from kgen.transform.predicate import All, Negative, Predicate, Truth, Zero

_ATOM, _MULTIPLY, _ADD, _COMPARE, _BITS = 10, 8, 6, 4, 2
"""How tightly an operator binds. Bit operators and shifts count as loosest: their operands are always set apart."""


@dataclass(frozen=True, slots=True)
class _Text:
    """Printed text, how tightly its outermost operator binds, and whether its C++ type is 64-bit."""

    text: str
    binds: int
    wide: bool

    def at(self, binds: int) -> str:
        """The text as an operand of an operator that needs at least `binds`."""
        return self.text if self.binds >= binds else f"({self.text})"


@memoized
def to_c(value: IndexExpr | Predicate, *, wide: bool = False) -> str:
    """C++ text of an index expression or a condition. `wide`: the result is to be of type int64_t."""
    if isinstance(value, Predicate):
        return _condition(value, _CPP)
    printed = _CPP.expression(value)
    return f"int64_t({printed.text})" if wide and not printed.wide else printed.text


@memoized
def to_python(value: IndexExpr | Predicate) -> str:
    """Python text of an index expression or a condition."""
    return _condition(value, _PYTHON) if isinstance(value, Predicate) else _PYTHON.expression(value).text


def _fits(value: IndexExpr) -> bool:
    """Whether every value is proven to fit in 32 bits."""
    return value.lo is not None and value.hi is not None and value.lo >= INT32_MIN and value.hi <= INT32_MAX


def _widened(printed: _Text) -> _Text:
    return printed if printed.wide else _Text(f"int64_t({printed.text})", _ATOM, True)


class _Printer:
    """The operators both languages share; a subclass says what differs."""

    divide = "//"
    conjunction = "and"
    truth = ("False", "True")

    def expression(self, value: IndexExpr) -> _Text:
        """`value` printed."""
        if isinstance(value, Const):
            return _Text(str(value.value), _ATOM if value.value >= 0 else _ADD, not _fits(value))
        if isinstance(value, Sym):
            return _Text(value.name, _ATOM, value.wide)
        if isinstance(value, Gather):
            return _Text(f"{value.table}[{self.expression(value.index).text}]", _ATOM, not _fits(value))
        if isinstance(value, Sum):
            return self.sum(value)
        if isinstance(value, Product):
            return self.product(*value.factors)
        assert isinstance(value, Binary)
        return self.binary(value)

    def widen(self, printed: _Text, value: IndexExpr) -> _Text:
        """`printed` as the first operand of an operation whose result is `value`."""
        return printed

    def sum(self, value: Sum) -> _Text:
        """Terms with a plus sign first, so that the text does not start with a minus sign where it can be helped."""
        terms = sorted(value.terms, key=lambda term: term[1] < 0)
        printed = [self.term(atom, abs(coefficient)) for atom, coefficient in terms]
        if value.const:
            terms.append((const(abs(value.const)), 1 if value.const > 0 else -1))
            printed.append(self.expression(terms[-1][0]))
        prefix, wide = const(0) + 0, False
        for (atom, coefficient), operand in zip(terms, printed, strict=True):
            prefix, wide = prefix + atom * coefficient, wide or operand.wide
            if not wide:
                printed[0] = self.widen(printed[0], prefix)
                wide = printed[0].wide
        return _Text("".join(_signed(terms, printed)), _ADD, wide)

    def term(self, atom: IndexExpr, coefficient: int) -> _Text:
        """atom * coefficient; in a product with strides the coefficient comes second: `i * 64 * stride`."""
        if coefficient == 1:
            return self.expression(atom)
        first, *others = atom.factors if isinstance(atom, Product) else (atom,)
        return self.product(first, const(coefficient), *others)

    def product(self, *factors: IndexExpr) -> _Text:
        """Factors left to right."""
        printed = [self.expression(factor) for factor in factors]
        prefix, wide = factors[0], printed[0].wide
        for factor, text in zip(factors[1:], printed[1:], strict=True):
            prefix, wide = prefix * factor, wide or text.wide
            if not wide:
                printed[0] = self.widen(printed[0], prefix)
                wide = printed[0].wide
        first, *others = printed
        return _Text(" * ".join([first.at(_MULTIPLY), *(f.at(_MULTIPLY + 1) for f in others)]), _MULTIPLY, wide)

    def binary(self, value: Binary) -> _Text:
        """A quotient, remainder, exclusive or, minimum or maximum."""
        left, right = self.expression(value.left), self.expression(value.right)
        wide = left.wide or right.wide
        if isinstance(value, Min | Max):
            return self.extreme("min" if isinstance(value, Min) else "max", left, right)
        if isinstance(value, Xor):
            return _Text(f"{left.at(_ATOM)} ^ {right.at(_ATOM)}", _BITS, wide)
        return self.quotient(value, left, right)

    def extreme(self, name: str, left: _Text, right: _Text) -> _Text:
        """A call of `name`."""
        return _Text(f"{name}({left.text}, {right.text})", _ATOM, left.wide)

    def quotient(self, value: Binary, left: _Text, right: _Text) -> _Text:
        """left / right or left % right."""
        operator = "%" if isinstance(value, Mod) else self.divide
        text = f"{left.at(_MULTIPLY)} {operator} {right.at(_MULTIPLY + 1)}"
        return _Text(text, _MULTIPLY, left.wide or right.wide)


def _signed(terms: Sequence[tuple[IndexExpr, int]], printed: Sequence[_Text]) -> Iterator[str]:
    """The operands of a sum, each with its sign."""
    for place, ((_, coefficient), operand) in enumerate(zip(terms, printed, strict=True)):
        if coefficient < 0:
            yield f" - {operand.at(_MULTIPLY)}" if place else f"-{operand.at(_ATOM)}"
        else:
            yield f" + {operand.at(_ADD)}" if place else operand.at(_ADD)


class _Cpp(_Printer):
    divide = "/"
    conjunction = "&&"
    truth = ("false", "true")

    def widen(self, printed: _Text, value: IndexExpr) -> _Text:
        return printed if _fits(value) else _widened(printed)

    def extreme(self, name: str, left: _Text, right: _Text) -> _Text:
        if left.wide or right.wide:
            left, right = _widened(left), _widened(right)
        return super().extreme(name, left, right)

    def quotient(self, value: Binary, left: _Text, right: _Text) -> _Text:
        """C++ rounds towards zero, so what may be negative is shifted or masked."""
        if value.left.lo is not None and value.left.lo >= 0:
            return super().quotient(value, left, right)
        divisor = value.right.value if isinstance(value.right, Const) else 0
        if divisor <= 0 or divisor & (divisor - 1):
            raise ValueError(f"{value!r} may be negative and {divisor} is no power of two: no C++ text")
        if isinstance(value, FloorDiv):
            return _Text(f"{left.at(_ATOM)} >> {divisor.bit_length() - 1}", _BITS, left.wide)
        return _Text(f"{left.at(_ATOM)} & {divisor - 1}", _BITS, left.wide)


_CPP, _PYTHON = _Cpp(), _Printer()


def _condition(predicate: Predicate, printer: _Printer) -> str:
    if isinstance(predicate, Truth):
        return printer.truth[predicate.value]
    if isinstance(predicate, All):
        return f" {printer.conjunction} ".join(_condition(part, printer) for part in predicate.parts)
    assert isinstance(predicate, Negative | Zero)
    left, operator, right = _sides(predicate)
    # A bit operator binds more loosely than a comparison in C++.
    sides = [printer.expression(side).at(_COMPARE) for side in (left, right)]
    return f"{sides[0]} {operator} {sides[1]}"


def _sides(predicate: Negative | Zero) -> tuple[IndexExpr, str, IndexExpr]:
    """A comparison with positive terms on either side: `a + 4 <= b` for a - b + 3 < 0."""
    terms, offset = linear(predicate.diff)
    left = total(atom * c for atom, c in terms if c > 0)
    right = total(atom * -c for atom, c in terms if c < 0)
    if isinstance(predicate, Zero):
        return (left + max(offset, 0), "==", right + max(-offset, 0)) if left.multiple else (right, "==", left + offset)
    if not left.multiple:
        return (right, ">", left) if offset == 0 else (right, ">=", left + (offset + 1))
    if offset < -1 or not right.multiple:
        return left, "<", right + -offset
    return (left, "<", right) if offset == 0 else (left + (offset + 1), "<=", right)
