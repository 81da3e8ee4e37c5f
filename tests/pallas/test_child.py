"""Children: results in order, one error an item, limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgen.toolchain.child import ChildError, Limits, run

HERE = {"PYTHONPATH": str(Path(__file__).resolve().parent) + ":" + str(Path(__file__).resolve().parents[2])}
ACT = "child_functions:act"


def results(*items: tuple[str, int], limits: Limits = Limits(20)) -> list[object]:  # noqa: B008 (frozen)
    return list(run(ACT, items, HERE, limits))


def test_one_child_serves_all_items() -> None:
    first, value, second = results(("pid", 0), ("value", 7), ("pid", 0))
    assert value == 7
    assert first == second


def test_a_retired_process_is_not_used_again() -> None:
    first, second, third = results(("retire", 0), ("pid", 0), ("pid", 0))
    assert isinstance(first, int)
    assert first != second == third


@pytest.mark.parametrize(
    ("item", "kind", "words"),
    [
        (("abort", 0), "crash", "SIGABRT"),
        (("exit", 3), "crash", "exit 3"),
        (("exit", 0), "crash", "exit 0"),
        (("raise", 5), "exception", "ValueError: bad 5"),
        (("allocate", 3 << 30), "memory", "memory"),
    ],
)
def test_a_failure_costs_its_own_item_only(item: tuple[str, int], kind: str, words: str) -> None:
    before, failed, after = results(("value", 1), item, ("value", 2), limits=Limits(20, 1 << 30))
    assert (before, after) == (1, 2)
    assert isinstance(failed, ChildError)
    assert failed.kind == kind
    assert words in failed.message


def test_time_is_limited() -> None:
    failed, after = results(("sleep", 60), ("value", 2), limits=Limits(2))
    assert isinstance(failed, ChildError)
    assert (failed.kind, after) == ("timeout", 2)


def test_output_is_kept_with_a_crash() -> None:
    (failed,) = results(("abort", 0))
    assert isinstance(failed, ChildError)
    assert "Fatal Python error: Aborted" in failed.output


def test_an_unknown_function_is_an_error() -> None:
    (failed,) = run("child_functions:missing", [1], HERE, Limits(20))
    assert isinstance(failed, ChildError)
    assert failed.kind == "crash"
    assert "has no attribute 'missing'" in failed.output
