"""From the statements of a tile program to the steps of a Pallas kernel: which macro prints each, and with what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kgen.expr import to_jax
from kgen.plan.base import Step
from kgen.plan.pallas_text import assign
from kgen.plan.pallas_views import BroadcastStep, CastStep, FillStep, LoadStep, MapStep, MmaStep, StoreStep
from kgen.plan.slots import Slots
from kgen.tile import Broadcast, Cast, Fill, Level, Load, Map, Mma, Statement, Store, Tile, statement_text

JNP = {"f32": "jnp.float32", "bf16": "jnp.bfloat16"}
"""dtype -> its JAX name."""
EXTENTS = {"m": "Config.TILE_M", "n": "Config.TILE_N", "k": "Config.TILE_K"}
"""Dim -> extent of its tile."""
OPERATORS = ("fill", "load", "load_below", "mma", "broadcast_row", "broadcast_column", "cast", "store")
"""Tile operators of layer 1, in the order in which files have them."""
_OPERATOR = {"load_k": "load"}
_BODY_INDENT = 8


@dataclass(frozen=True)
class Phases:
    """The steps of a kernel: before, in and after its loop along k."""

    prologue: tuple[Step, ...]
    steady: tuple[Step, ...]
    epilogue: tuple[Step, ...]
    helpers: tuple[str, ...]
    """Mathematical functions that the maps call."""

    @property
    def operators(self) -> frozenset[str]:
        """Tile operators that the steps call."""
        macros = (step.macro.partition(".")[2] for step in (*self.prologue, *self.steady, *self.epilogue))
        return frozenset(_OPERATOR.get(macro, macro) for macro in macros)


def phases(slots: Slots, has_tail: bool) -> Phases:
    """The steps of a program; the grid performs its loops. With `has_tail`, loads along k may have to mask."""
    maps = [statement for statement in slots.epilogue if isinstance(statement, Map)]
    helpers = dict.fromkeys(name for statement in maps for name in to_jax(statement.value, _names(statement)).helpers)
    parts: tuple[Sequence[Statement], ...] = (slots.prologue, (*slots.loads, *slots.products), slots.epilogue)
    prologue, steady, epilogue = (tuple(_step(statement, has_tail) for statement in part) for part in parts)
    return Phases(prologue, steady, epilogue, tuple(helpers))


def _step(statement: Statement, has_tail: bool) -> Step:
    text = statement_text(statement)
    match statement:
        case Fill(dst, value):
            return FillStep("fill", dst.name, text, "steps.fill", repr(float(value)))
        case Load(dst, src) if has_tail and "k" in dst.axes:
            return LoadStep("load", dst.name, text, "steps.load_k", f"{src.name}_ref", f"{src.name.upper()}_K_AXIS")
        case Load(dst, src):
            return LoadStep("load", dst.name, text, "steps.load", f"{src.name}_ref")
        case Mma(acc, a, b):
            return MmaStep("mma", acc.name, text, "steps.mma", a.name, b.name)
        case Map(dst, value, _):
            expression = to_jax(value, _names(statement)).text
            return MapStep("map", dst.name, text, "steps.map", assign(dst.name, expression, _BODY_INDENT))
        case Broadcast(dst, src):
            macro = "steps.broadcast_column" if src.axes == dst.axes[0] else "steps.broadcast_row"
            return BroadcastStep("broadcast", dst.name, text, macro, _value(src), _shape(dst))
        case Cast(dst, src):
            return CastStep("cast", dst.name, text, "steps.cast", _value(src), JNP[dst.dtype])
        case Store(dst, src):
            return StoreStep("store", dst.name, text, "steps.store", f"{dst.name}_ref", _value(src))
        case _:
            raise NotImplementedError(f"{type(statement).__name__} has no step on a TPU yet")


def _names(statement: Map) -> dict[str, str]:
    """Variable -> text of its value."""
    return {name: _value(tile) for name, tile in zip(statement.value.names, statement.inputs, strict=True)}


def _value(tile: Tile) -> str:
    """A tile as a value: the accumulator and scalars live in refs and are read where they are named."""
    if not tile.axes:
        return f"{tile.name}_ref[0]"
    return f"{tile.name}[...]" if tile.level is Level.ACCUMULATOR else tile.name


def _shape(tile: Tile) -> str:
    return f"({', '.join(EXTENTS[dim] for dim in tile.axes)})"
