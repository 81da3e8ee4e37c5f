"""Errors of expressions, as values that say where, what, and what would be right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class ExprError:
    """One broken rule. `offset` and `length` count characters of the expression's text."""

    offset: int
    length: int
    message: str
    fix: str = ""


def listed(names: Iterable[str]) -> str:
    """The names as prose: `a, b, c`, or `none`."""
    return ", ".join(names) or "none"


def suggestion(wrong: str, allowed: Iterable[str]) -> str:
    """`did you mean ...` for a near miss, else the allowed names."""
    allowed = tuple(allowed)
    close = difflib.get_close_matches(wrong, allowed, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"allowed: {listed(allowed)}"
