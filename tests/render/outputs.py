"""What the repository's specs render to, made once for all tests."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from kgen.plan import Plan, plan_kernel
from kgen.render.files import render
from kgen.spec.load import load_all

ROOT = Path(__file__).parents[2]


@lru_cache(maxsize=1)
def plans() -> tuple[Plan, ...]:
    """The plans of every kernel of specs/, chosen anew: the lock is not asked."""
    loaded = load_all(sorted((ROOT / "specs").glob("*.yaml")), ROOT)
    assert loaded.diagnostics == ()
    made = [plan_kernel(kernel) for document in loaded.documents for kernel in document.kernels()]
    return tuple(plan for plan in made if not isinstance(plan, tuple))


@lru_cache(maxsize=1)
def outputs() -> dict[str, str]:
    """Their files."""
    return render(plans())
