"""Small functions that printed expressions call and a target's templates define, for each printed language.

A body calls exactly the helpers it `needs`, besides the language's own library, and computes the `semantics` as
written. Arguments and results are f32 unless the name says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kgen.expr.dtypes import DTYPES
from kgen.expr.functions import FUNCTIONS


@dataclass(frozen=True)
class Helper:
    """A function that a template defines."""

    name: str
    parameters: tuple[str, ...]
    semantics: str
    needs: tuple[str, ...] = ()


def _composite(name: str, *needs: str) -> Helper:
    function = FUNCTIONS[name]
    return Helper(name, function.parameters, function.definition, needs)


def _table(*helpers: Helper) -> Mapping[str, Helper]:
    return MappingProxyType({helper.name: helper for helper in helpers})


_TO_INTEGER = tuple(
    Helper(f"{name}_from_f32", ("x",), f"nearest {name}, ties to even, saturating; NaN gives 0")
    for name in ("i8", "i32")
)
_SMOOTH = tuple(_composite(name) for name in ("sigmoid", "silu", "gelu", "gelu_tanh"))
_C = _table(
    Helper("max_nan", ("x", "y"), "the larger; NaN if either is NaN; sign of a zero result is free"),
    Helper("min_nan", ("x", "y"), "the smaller; NaN if either is NaN; sign of a zero result is free"),
    _composite("relu", "max_nan"),
    _composite("clamp", "max_nan", "min_nan"),
    *_SMOOTH,
    *(Helper(f"{name}_from_f32", ("x",), f"nearest {name}, ties to even; inf beyond") for name in ("f16", "bf16")),
    *_TO_INTEGER,
    *(Helper(f"f32_from_{name}", ("x",), f"f32 nearest to the {name} x") for name in DTYPES if name != "f32"),
)
_JAX = _table(_composite("relu"), _composite("clamp"), *_SMOOTH, *_TO_INTEGER)
HELPERS: Mapping[str, Mapping[str, Helper]] = MappingProxyType({"c": _C, "jax": _JAX})
"""language -> name -> helper."""


def closure(language: str, names: Iterable[str]) -> tuple[str, ...]:
    """`names` and what they need, in the table's order: every helper stands after those it calls."""
    table = HELPERS[language]
    wanted = set(names)
    for helper in tuple(table.values())[::-1]:
        if helper.name in wanted:
            wanted.update(helper.needs)
    return tuple(name for name in table if name in wanted)
