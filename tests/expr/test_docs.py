"""docs/expressions.md states what the tables state."""

from __future__ import annotations

from pathlib import Path

from kgen.expr import DTYPES, FUNCTIONS, MACHINES, Function
from kgen.expr.parser import MAX_DEPTH, MAX_LENGTH

DOCS = Path(__file__).parents[2] / "docs" / "expressions.md"
OPERATORS = (("`x + y`, `x - y`", "+"), ("`x * y`", "*"), ("`x / y`", "/"))


def cells(name: str) -> str:
    return " | ".join(f"{machine.ulps.get(name, 0.0):g}" for machine in MACHINES.values())


def row(function: Function) -> str:
    call = f"`{function.name}({', '.join(function.parameters)})`"
    if function.definition:
        return f"| {call} | {function.summary}: `{function.definition}` | | | |"
    return f"| {call} | {function.summary} | {cells(function.name)} |"


def test_function_table_is_current() -> None:
    expected = [f"| {text} | | {cells(operator)} |" for text, operator in OPERATORS]
    expected += [row(function) for function in FUNCTIONS.values()]
    table = DOCS.read_text().split("|---|---|---|---|---|\n")[1].split("<!-- end -->")[0]
    assert table.splitlines() == expected, "\n".join(["the table is to be:", *expected])


def test_limits_and_casts_are_current() -> None:
    text = DOCS.read_text()
    assert f"at most {MAX_LENGTH} characters\nand {MAX_DEPTH} levels" in text
    assert all(f"`{name}(x)`" in text for name in DTYPES)
