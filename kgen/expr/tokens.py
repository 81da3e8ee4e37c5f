"""Text to tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kgen.expr.errors import ExprError
from kgen.expr.literals import MAX_DIGITS, f32
from kgen.expr.nodes import Span

KEYWORDS = ("and", "or", "not")
_TOKEN = re.compile(
    r"(?P<space>[ \t\r\n]+)"
    r"|(?P<number>(?:[0-9]|\.[0-9])[0-9A-Za-z_.]*(?:(?<=[eE])[+-][0-9A-Za-z_.]*)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<op><=|>=|==|!=|[-+*/(),<>])"
)
_NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INSTEAD = {
    "=": "write == to compare",
    "!": "write `not x`, or != to compare",
    "&": "write `and`",
    "|": "write `or`",
    "^": "there is no power; write x * x",
    "?": "write where(condition, x, y)",
}


@dataclass(frozen=True)
class Token:
    """`kind` is `number`, `name` or `end`, or the operator or keyword itself."""

    kind: str
    text: str
    span: Span
    value: float = 0.0


def tokenize(text: str) -> tuple[Token, ...] | ExprError:
    """The tokens of `text` with an `end` token last, or the first character that starts none."""
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            return _stray(text[at], at)
        if match.lastgroup != "space":
            token = _token(str(match.lastgroup), match.group(), Span(at, match.end() - at))
            if isinstance(token, ExprError):
                return token
            tokens.append(token)
        at = match.end()
    return (*tokens, Token("end", "", Span(len(text), 0)))


def _stray(character: str, at: int) -> ExprError:
    fix = _INSTEAD.get(character, "allowed: numbers, names, + - * / ( ) , < <= > >= == !=")
    return ExprError(at, 1, f"unexpected character {character!r}", fix)


def _token(group: str, text: str, span: Span) -> Token | ExprError:
    if group == "number":
        return _number(text, span)
    return Token("name" if group == "name" and text not in KEYWORDS else text, text, span)


def _number(text: str, span: Span) -> Token | ExprError:
    if len(text) > MAX_DIGITS:
        return ExprError(span.offset, span.length, f"number of {len(text)} characters", f"allowed: {MAX_DIGITS}")
    if _NUMBER.fullmatch(text) is None:
        return ExprError(span.offset, span.length, f"{text!r} is no number", "write digits such as 2, 0.5 or 1e-5")
    value = f32(float(text))
    if value is None:
        return ExprError(span.offset, span.length, f"{text} is beyond f32", "largest: 3.4028235e38")
    if value == 0.0 and re.search("[1-9]", re.split("[eE]", text)[0]):
        return ExprError(span.offset, span.length, f"{text} rounds to 0 in f32", "smallest: 1e-45")
    return Token("number", text, span, value)
