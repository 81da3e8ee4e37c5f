"""A tile program as text: what `kgen explain` shows, what steps of plans quote, what kernels' comments say."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.expr import Typed
from kgen.expr.nodes import Name, walk
from kgen.tile.program import (
    Broadcast,
    Cast,
    Fill,
    Load,
    Loop,
    Map,
    Mma,
    Plain,
    Position,
    Program,
    Reduce,
    Select,
    Size,
    Statement,
    Store,
    Tensor,
    Tile,
    Transpose,
    statements,
    written,
)

_INDENT = "    "


def program_text(program: Program) -> str:
    """The whole program, one statement a line; ends with a newline."""
    outputs = program.outputs
    inputs = ", ".join(_declared(t) for t in program.tensors if t not in outputs)
    head = f"{program.name}({inputs}) -> {', '.join(_declared(t) for t in outputs)}"
    return "\n".join([head, *_lines(program.body, "")]) + "\n"


def _declared(tensor: Tensor) -> str:
    layout = f"[{', '.join(tensor.layout)}]" if tensor.layout else ""
    return f"{tensor.name}{layout}: {tensor.dtype}"


def _lines(body: tuple[Statement, ...], indent: str) -> Iterator[str]:
    for statement in body:
        yield indent + statement_text(statement)
        if isinstance(statement, Loop):
            yield from _lines(statement.body, indent + _INDENT)


def statement_text(statement: Statement) -> str:
    """One statement, a loop by its head only: `acc = mma(acc, a_tile, b_tile)`."""
    if isinstance(statement, Loop):
        return _loop_text(statement)
    if isinstance(statement, Store):
        return f"store({statement.dst.name}, {statement.src.name})"
    made = written(statement)
    assert made is not None
    return f"{made.name} = {_right_side(statement)}"


def _loop_text(loop: Loop) -> str:
    where = loop.dim if loop.segments is None else f"{loop.dim}, {loop.segments.name}"
    domain = f"range({where})" if loop.unit else f"tiles({where})"
    carrying = f" carrying {', '.join(tile.name for tile in loop.carried)}" if loop.carried else ""
    return f"{loop.kind.value} {loop.index} in {domain}{carrying}:"


def _right_side(statement: Plain) -> str:
    match statement:
        case Load(src=src):
            return f"load({src.name})"
        case Fill(value=value):
            return f"fill({value:g})"
        case Position(dim=dim):
            return f"position({dim})"
        case Size(dim=dim):
            return f"size({dim})"
        case Mma(acc=acc, a=a, b=b):
            return f"mma({acc.name}, {a.name}, {b.name})"
        case Map(value=value, inputs=inputs):
            return _expression(value, inputs)
        case Reduce(src=src, axis=axis, op=op):
            return f"{op}({src.name}, {axis})"
        case Broadcast(src=src, dst=dst):
            return f"broadcast({src.name}, {dst.axes})"
        case Cast(src=src, dst=dst):
            return f"cast({src.name}, {dst.dtype})"
        case Transpose(src=src):
            return f"transpose({src.name})"
        case Select():
            return _select(statement)
        case Store(src=src):
            return src.name


def _select(statement: Select) -> str:
    otherwise = statement.otherwise
    other = otherwise.name if isinstance(otherwise, Tile) else f"{otherwise:g}"
    return f"select({_expression(statement.condition, statement.inputs)}, {statement.then.name}, {other})"


def _expression(value: Typed, inputs: tuple[Tile, ...]) -> str:
    """The expression as it was written, each variable by the name of its tile."""
    tiles = {name: tile.name for name, tile in zip(value.names, inputs, strict=False)}
    text = value.source
    names = [node for node in walk(value.root) if isinstance(node, Name)]
    for node in sorted(names, key=lambda n: n.span.offset, reverse=True):
        start, end = node.span.offset, node.span.offset + node.span.length
        text = text[:start] + tiles.get(node.name, node.name) + text[end:]
    return " ".join(text.split())


_NAMES: dict[type[Plain], str] = {
    kind: kind.__name__.lower()
    for kind in (Load, Fill, Position, Size, Mma, Map, Reduce, Broadcast, Cast, Select, Transpose, Store)
}


def operation(statement: Plain) -> tuple[str, str]:
    """(operation, name of what it makes): `("mma", "acc")`, `("store", "c")`."""
    made = written(statement)
    if made is None:
        assert isinstance(statement, Store)
        return "store", statement.dst.name
    return _NAMES[type(statement)], made.name


def operations(program: Program) -> tuple[tuple[str, str], ...]:
    """The tile operations in program order, loops left out: what every target's kernel performs."""
    return tuple(operation(statement) for statement in statements(program.body))
