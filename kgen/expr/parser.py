"""Recursive-descent parser with one binding power per operator. Reference: docs/expressions.md."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.expr.errors import ExprError
from kgen.expr.nodes import ARITHMETIC, COMPARISONS, Binary, Call, Name, Node, Number, Span, Unary, depth
from kgen.expr.tokens import Token, tokenize

MAX_LENGTH = 4096
"""Longest text, in characters."""
MAX_DEPTH = 100
"""Deepest tree; keeps every recursive reader of the tree far from Python's own limit."""

_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _NEGATE = range(1, 8)
_POWER = {
    "or": _OR, "and": _AND, **dict.fromkeys(COMPARISONS, _COMPARE),
    "+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT,
}  # fmt: skip


@dataclass(frozen=True)
class Expression:
    """A parsed expression: its text and its tree, not yet typed."""

    source: str
    root: Node


class _Stop(Exception):
    """Carries the first error out of the parser; never leaves `parse`."""

    def __init__(self, span: Span, message: str, fix: str) -> None:
        self.error = ExprError(span.offset, span.length, message, fix)


def parse(text: str) -> Expression | tuple[ExprError, ...]:
    """The tree of `text`, or its first syntax error."""
    if len(text) > MAX_LENGTH:
        return (ExprError(MAX_LENGTH, 1, f"expression of {len(text)} characters", f"allowed: {MAX_LENGTH}"),)
    tokens = tokenize(text)
    if isinstance(tokens, ExprError):
        return (tokens,)
    try:
        return Expression(text, _Parser(tokens).parse())
    except _Stop as stop:
        return (stop.error,)


class _Parser:
    def __init__(self, tokens: tuple[Token, ...]) -> None:
        self._tokens = tokens
        self._at = 0
        self._nesting = 0

    def parse(self) -> Node:
        if self._next.kind == "end":
            raise _Stop(self._next.span, "empty expression", "write a value, such as acc")
        root = self._expression(0)
        if self._next.kind == ")":
            raise _Stop(self._next.span, "')' without '('", "remove it, or open a parenthesis before it")
        if self._next.kind != "end":
            raise _Stop(self._next.span, f"unexpected {self._next.text!r}", "allowed here: an operator or the end")
        if (levels := depth(root)) > MAX_DEPTH:
            raise _Stop(root.span, f"{levels} levels of operators", _too_deep())
        return root

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._next
        self._at += 1
        return token

    def _expression(self, power: int) -> Node:
        """An expression whose operators all bind tighter than `power`."""
        self._nesting += 1
        if self._nesting > MAX_DEPTH:
            raise _Stop(self._next.span, f"nested deeper than {MAX_DEPTH} levels", _too_deep())
        left = self._prefix()
        while (found := _POWER.get(self._next.kind, 0)) > power:
            operator = self._take()
            right = self._expression(found)
            left = Binary(operator.kind, left, right, left.span.to(right.span))
            if found == _COMPARE and self._next.kind in COMPARISONS:
                raise _Stop(self._next.span, "comparisons do not chain", "write `a < b and b < c`")
        self._nesting -= 1
        return left

    def _prefix(self) -> Node:
        token = self._take()
        if token.kind == "number":
            return Number(token.value, token.span)
        if token.kind == "name":
            return self._call(token) if self._next.kind == "(" else Name(token.text, token.span)
        if token.kind in ("-", "not"):
            operand = self._expression(_NEGATE if token.kind == "-" else _NOT)
            return Unary(token.kind, operand, token.span.to(operand.span))
        if token.kind == "(":
            return self._parenthesis(token)
        raise self._no_value(token)

    def _parenthesis(self, opening: Token) -> Node:
        inner = self._expression(0)
        self._close(opening)
        return inner

    def _call(self, name: Token) -> Node:
        opening = self._take()
        arguments: list[Node] = []
        while self._next.kind != ")" or arguments:
            arguments.append(self._expression(0))
            if self._next.kind != ",":
                break
            self._take()
        closing = self._close(opening)
        return Call(name.text, tuple(arguments), name.span.to(closing.span), name.span)

    def _close(self, opening: Token) -> Token:
        if self._next.kind == ")":
            return self._take()
        if self._next.kind == "end":
            raise _Stop(opening.span, "'(' is never closed", "add ')'")
        raise _Stop(self._next.span, f"unexpected {self._next.text!r}", "allowed here: an operator, ',' or ')'")

    def _no_value(self, token: Token) -> _Stop:
        what = f"unexpected {token.text!r}" if token.text else "the expression ends early"
        if token.text in ARITHMETIC and self._at > 1 and self._tokens[self._at - 2].text == token.text:
            return _Stop(token.span, f"unexpected {token.text!r}", f"there is no operator {token.text * 2!r}")
        return _Stop(token.span, what, "expected here: a number, a name, a call or '('")


def _too_deep() -> str:
    return f"allowed: {MAX_DEPTH} levels; split the expression"
