"""Memory of pure functions: plans ask for the same few expressions thousands of times in a sweep."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def memoized(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, computed once for each set of (hashable) arguments; its types are kept."""
    return cache(function)  # type: ignore[return-value]
