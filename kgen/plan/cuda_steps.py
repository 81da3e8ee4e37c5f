"""The statements of a gemm's tile program as CUDA performs them: what a signature decides, the same for every tile."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kgen.expr import Printed, to_c, widened
from kgen.expr.helpers import closure
from kgen.ops import gemm
from kgen.plan.base import Step
from kgen.plan.cuda_algorithm import VECTOR
from kgen.plan.cuda_views import FillStep, VectorStep
from kgen.plan.slots import Slots, slots_of
from kgen.spec.kernel import Operand, Signature
from kgen.tile import Broadcast, Cast, Fill, Level, Load, Map, Statement, Store, Tile, statement_text
from kgen.transform.memo import memoized

_WIDTH = 96
"""Characters of an expression in one line; the indent and what it is assigned to come to that."""
C_TYPES: Mapping[str, str] = {"bf16": "__nv_bfloat16", "f16": "__half", "f32": "float"}


@dataclass(frozen=True)
class Body:
    """The steps of a kernel but for its copies, and the math helpers that they call."""

    loads: tuple[Load, ...]
    prologue: tuple[Step, ...]
    products: tuple[Step, ...]
    epilogue: tuple[Step, ...]
    helpers: tuple[str, ...]


@memoized
def body_of(signature: Signature, packets: tuple[tuple[str, int], ...]) -> Body:
    """The body of `signature`'s kernels; `packets` are the elements that one global access of each tensor moves."""
    slots = slots_of(gemm.program(signature))
    printed = {s.dst.name: _printed(s, signature) for s in slots.epilogue if isinstance(s, Map)}
    values = {name: "\n    ".join(textwrap.wrap(value.text, _WIDTH)) for name, value in printed.items()}
    widths = {name: min(packet, VECTOR) for name, packet in packets}
    return Body(
        loads=slots.loads,
        prologue=tuple(_prologue(slots)),
        products=tuple(Step("mma", s.acc.name, statement_text(s), "mma.mma") for s in slots.products),
        epilogue=tuple(_vector_step(statement, signature, widths, values) for statement in slots.epilogue),
        helpers=closure("c", (helper for value in printed.values() for helper in value.helpers)),
    )


def _prologue(slots: Slots) -> Iterator[Step]:
    for statement in slots.prologue:
        assert isinstance(statement, Fill)
        yield FillStep("fill", statement.dst.name, statement_text(statement), "mma.fill", f"{statement.value:.1f}f")


def _printed(statement: Map, signature: Signature) -> Printed:
    """A map over f32 variables in the loop over a lane's elements `e`: tiles are widened as they are loaded."""
    rows = {f"{o.name}_mn" for o in signature.extras if o.layout.endswith("m")}
    names = zip(statement.value.names, statement.inputs, strict=True)
    typed = widened(statement.value)
    printed = to_c(typed, {name: _element(tile, rows) for name, tile in names})
    if typed.dtype == "f32":
        return printed
    back = f"f32_from_{typed.dtype}"
    return Printed(f"{back}({printed.text})", (*printed.helpers, back))


def _element(tile: Tile, rows: set[str]) -> str:
    """Element `e` of a tile; a scalar is read from the parameters, a value of the row has no index."""
    if not tile.axes:
        return f"p.{tile.name}"
    if tile.level is Level.ACCUMULATOR:
        return f"{tile.name}_tile[e]"
    return tile.name if tile.name in rows else f"{tile.name}[e]"


def _vector_step(
    statement: Statement, signature: Signature, widths: Mapping[str, int], values: Mapping[str, str]
) -> VectorStep:
    text = statement_text(statement)
    if isinstance(statement, Load):
        name, tensor = statement.dst.name, statement.src.name
        macro = _load_macro(signature.operand(tensor))
        return VectorStep("load", name, text, macro, tensor, "", VECTOR, widths[tensor], "", "")
    if isinstance(statement, Broadcast):
        name, source = statement.dst.name, statement.src.name
        return VectorStep("broadcast", name, text, "epilogue.broadcast", "", source, VECTOR, 1, "", "")
    if isinstance(statement, Map):
        name = statement.dst.name
        return VectorStep("map", name, text, "epilogue.map", "", "", VECTOR, 1, values[name], "float")
    if isinstance(statement, Cast):
        c_type = C_TYPES[statement.dst.dtype]
        name, source = statement.dst.name, statement.src.name
        return VectorStep("cast", name, text, "epilogue.cast", "", source, VECTOR, 1, "", c_type)
    assert isinstance(statement, Store)
    tensor, source = statement.dst.name, statement.src.name
    return VectorStep("store", tensor, text, "epilogue.store", tensor, source, VECTOR, widths[tensor], "", "")


def _load_macro(operand: Operand) -> str:
    return "epilogue.load_vector" if "n" in operand.layout else "epilogue.load_row"
