"""The statements of a tile program by the slot of a skeleton that they fill."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kgen.tile import Load, Loop, LoopKind, Mma, Program, Statement


@dataclass(frozen=True)
class Slots:
    """Statements before, inside and after the reduction loop; inside, loads are told from products."""

    prologue: tuple[Statement, ...]
    loads: tuple[Load, ...]
    products: tuple[Mma, ...]
    epilogue: tuple[Statement, ...]


def slots_of(program: Program) -> Slots:
    """The slots of a program with one reduction loop inside its parallel ones."""
    statements = list(_inside(program.body))
    at = next(i for i, s in enumerate(statements) if isinstance(s, Loop))
    reduction = statements[at]
    assert isinstance(reduction, Loop)
    return Slots(
        prologue=tuple(statements[:at]),
        loads=tuple(s for s in reduction.body if isinstance(s, Load)),
        products=tuple(s for s in reduction.body if isinstance(s, Mma)),
        epilogue=tuple(statements[at + 1 :]),
    )


def _inside(body: tuple[Statement, ...]) -> Iterator[Statement]:
    for statement in body:
        if isinstance(statement, Loop) and statement.kind is LoopKind.PARALLEL:
            yield from _inside(statement.body)
        else:
            yield statement
