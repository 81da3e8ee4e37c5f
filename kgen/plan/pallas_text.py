"""Python source as text: fitting calls and expressions to a line length."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

WIDTH = 110
"""Longest line that is not broken, its indent included; generated lines stay within 120."""


def fit(head: str, items: Sequence[str], tail: str = "", indent: int = 0) -> str:
    """`head(items)tail` on one line if it fits behind `indent` blanks, else one item a line."""
    line = f"{head}({', '.join(items)}){tail}"
    if indent + len(line) <= WIDTH:
        return line
    pad = " " * indent
    rows = "".join(f"{pad}    {item},\n" for item in items)
    return f"{head}(\n{rows}{pad}){tail}"


def assign(name: str, expression: str, indent: int) -> str:
    """`name = expression`, broken at blanks inside parentheses if it does not fit; the template indents it."""
    line = f"{name} = {expression}"
    if indent + len(line) <= WIDTH:
        return line
    rows = wrap(expression, WIDTH - indent - 4)
    return "\n".join([f"{name} = (", *(f"    {row}" for row in rows), ")"])


def wrap(text: str, width: int = WIDTH - 4) -> list[str]:
    """`text` broken at blanks only."""
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
