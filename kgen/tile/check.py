"""Whether a tile program makes sense: names, axes, dtypes, and what loops may do to tiles. Errors are values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kgen.expr import Typed
from kgen.expr.nodes import Binary, Call, Name
from kgen.tile.program import (
    Broadcast,
    Cast,
    Fill,
    Load,
    Loop,
    LoopKind,
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
    read,
    scalar,
    statements,
    written,
)
from kgen.tile.text import statement_text

Messages = Iterator[str]


@dataclass(frozen=True)
class TileError:
    """A broken rule: the statement's text, and what is wrong with it."""

    statement: str
    message: str


def validate(program: Program) -> tuple[TileError, ...]:
    """All broken rules in program order; none for a well-formed program."""
    checker = _Checker(program)
    checker.body(program.body, _Scope({scalar(t).name: scalar(t) for t in program.tensors if not t.layout}))
    return (*_tensor_errors(program), *checker.errors)


def _tensor_errors(program: Program) -> Iterator[TileError]:
    names = [tensor.name for tensor in program.tensors]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield TileError(program.name, f"two tensors are called {name}")
    used = _used(program.body)
    for tensor in program.tensors:
        if tensor.name not in used:
            yield TileError(program.name, f"tensor {tensor.name} is neither read nor written")
        if len(set(tensor.layout)) < len(tensor.layout):
            yield TileError(program.name, f"tensor {tensor.name}: layout {tensor.layout} repeats a dim")


def _used(body: tuple[Statement, ...]) -> set[str]:
    names = {s.src.name for s in statements(body) if isinstance(s, Load)}
    names |= {s.dst.name for s in statements(body) if isinstance(s, Store)}
    names |= {tile.name for s in statements(body) for tile in read(s)}
    return names | {loop.segments.name for loop in _loops(body) if loop.segments is not None}


def _loops(body: tuple[Statement, ...]) -> Iterator[Loop]:
    for statement in body:
        if isinstance(statement, Loop):
            yield statement
            yield from _loops(statement.body)


@dataclass(frozen=True)
class _Scope:
    """What a statement sees: the tiles made so far, those it may update, and the loops around it."""

    tiles: dict[str, Tile]
    loops: tuple[Loop, ...] = ()
    own: set[str] = field(default_factory=set)
    """Tiles made in the innermost body, or carried into it."""

    def unit_dims(self) -> str:
        """Dims that the loops take one index at a time."""
        return "".join(loop.dim for loop in self.loops if loop.unit)


class _Checker:
    def __init__(self, program: Program) -> None:
        self._tensors = program.tensors
        self.errors: list[TileError] = []

    def _report(self, statement: Statement, messages: Messages) -> None:
        self.errors.extend(TileError(statement_text(statement), message) for message in messages)

    def body(self, body: tuple[Statement, ...], scope: _Scope) -> None:
        """Checks statements in order, adding what they make to the scope."""
        for statement in body:
            if isinstance(statement, Loop):
                self._report(statement, self._loop(statement, scope))
                carried = {tile.name for tile in statement.carried}
                self.body(statement.body, _Scope(dict(scope.tiles), (*scope.loops, statement), carried))
            else:
                self._report(statement, self._plain(statement, scope))
                made = written(statement)
                if made is not None:
                    scope.own.add(made.name)
                    scope.tiles[made.name] = made

    def _loop(self, loop: Loop, scope: _Scope) -> Messages:
        if any(outer.dim == loop.dim for outer in scope.loops):
            yield f"an enclosing loop already runs over {loop.dim}"
        if loop.kind is LoopKind.PARALLEL and loop.carried:
            yield f"a parallel loop carries nothing, not {loop.carried[0].name}"
        for tile in loop.carried:
            yield from self._carried(tile, loop, scope)
        if loop.segments is not None:
            yield from self._segments(loop.segments, scope)

    def _carried(self, tile: Tile, loop: Loop, scope: _Scope) -> Messages:
        if scope.tiles.get(tile.name) != tile:
            yield f"carried tile {tile.name} is not made before the loop"
        updates = [s for s in statements(loop.body) if written(s) == tile]
        if not updates:
            yield f"carried tile {tile.name} is not updated in the loop"
        if loop.kind is LoopKind.REDUCTION:
            for use in statements(loop.body):
                if (tile in read(use) or written(use) == tile) and not (written(use) == tile and _accumulates(use)):
                    yield f"a reduction loop may only accumulate into {tile.name}, not {statement_text(use)}"

    def _segments(self, segments: Tensor, scope: _Scope) -> Messages:
        if segments not in self._tensors:
            yield f"{segments.name} is not a tensor of the program"
        if segments.dtype != "i32" or segments.layout not in {loop.dim for loop in scope.loops if loop.unit}:
            yield f"segments {segments.name} must be i32 over the dim of an enclosing unit loop"

    def _plain(self, statement: Plain, scope: _Scope) -> Messages:
        for tile in dict.fromkeys(read(statement)):
            if scope.tiles.get(tile.name) != tile:
                yield f"{_shape(tile)} is read but not made before"
        yield from self._names(statement, scope)
        yield from _RULES[type(statement)](statement, scope)
        if isinstance(statement, Load | Store):
            tensor = statement.src if isinstance(statement, Load) else statement.dst
            if tensor not in self._tensors:
                yield f"{tensor.name} is not a tensor of the program"

    def _names(self, statement: Plain, scope: _Scope) -> Messages:
        made = written(statement)
        if made is None:
            return
        if made.name in {tensor.name for tensor in self._tensors}:
            yield f"tile {made.name} has the name of a tensor"
        before = scope.tiles.get(made.name)
        if before is not None and before != made:
            yield f"{made.name} is {_shape(before)} already"
        if before is not None and scope.loops and made.name not in scope.own:
            yield f"{made.name} is made outside the loop {scope.loops[-1].index} and not carried by it"


def _accumulates(statement: Plain) -> bool:
    """Whether a statement adds to its tile (or takes the larger or smaller of it and something else)."""
    if isinstance(statement, Mma):
        return True
    if not isinstance(statement, Map):
        return False
    names = dict(zip(statement.value.names, statement.inputs, strict=True))
    root = statement.value.root
    operands: tuple[object, ...] = ()
    if isinstance(root, Binary) and root.op in ("+", "*"):
        operands = (root.left, root.right)
    if isinstance(root, Call) and root.function in ("max", "min"):
        operands = root.arguments
    own = [operand for operand in operands if isinstance(operand, Name) and names[operand.name] == statement.dst]
    return len(own) == 1 and statement.inputs.count(statement.dst) == 1


def _shape(tile: Tile) -> str:
    return f"{tile.name}[{', '.join(tile.axes)}]: {tile.dtype}"


def _same_dtype(left: Tile | Tensor, right: Tile | Tensor) -> Messages:
    if left.dtype != right.dtype:
        yield f"{left.name} is {left.dtype} and {right.name} is {right.dtype}"


def _same_axes(left: Tile, right: Tile) -> Messages:
    if left.axes != right.axes:
        yield f"{left.name} has axes {left.axes!r} and {right.name} {right.axes!r}"


def _load(statement: Load, scope: _Scope) -> Messages:
    yield from _same_dtype(statement.dst, statement.src)
    unit = scope.unit_dims()
    expected = "".join(dim for dim in statement.src.layout if dim not in unit)
    if statement.dst.axes != expected:
        yield f"{statement.dst.name} has axes {statement.dst.axes!r}; {statement.src.name} gives {expected!r}"
    if not statement.src.layout:
        yield f"scalar {statement.src.name} is read by its name, not loaded"


def _store(statement: Store, scope: _Scope) -> Messages:
    yield from _same_dtype(statement.dst, statement.src)
    unit = scope.unit_dims()
    expected = {dim for dim in statement.dst.layout if dim not in unit}
    if set(statement.src.axes) != expected:
        yield f"{statement.src.name} has axes {statement.src.axes!r}; {statement.dst.name} takes {sorted(expected)}"
    ragged = {loop.segments.layout for loop in scope.loops if loop.segments is not None}
    for loop in scope.loops:
        if loop.dim not in statement.dst.layout and loop.dim not in ragged:
            yield f"iterations of {loop.index} store to the same elements of {statement.dst.name}"


def _fill(statement: Fill, scope: _Scope) -> Messages:
    if statement.value != statement.value:
        yield "the value is not a number"


def _position(statement: Position, scope: _Scope) -> Messages:
    if statement.dst.dtype != "i32" or statement.dim not in statement.dst.axes:
        yield f"{_shape(statement.dst)} must be i32 and have the axis {statement.dim}"


def _size(statement: Size, scope: _Scope) -> Messages:
    if statement.dst.dtype != "i32" or statement.dst.axes:
        yield f"{_shape(statement.dst)} must be an i32 scalar"


def _mma(statement: Mma, scope: _Scope) -> Messages:
    acc, a, b = statement.acc, statement.a, statement.b
    if acc.dtype not in ("f32", "i32"):
        yield f"{acc.name} is {acc.dtype}; products are summed in f32 or i32"
    summed = [axis for axis in a.axes if axis in b.axes and axis not in acc.axes]
    rest = {*a.axes, *b.axes} - set(summed)
    if len(summed) != 1 or rest != set(acc.axes) or len(a.axes) != 2 or len(b.axes) != 2:
        yield f"axes {a.axes!r} and {b.axes!r} do not multiply to {acc.axes!r}"
    for loop in scope.loops:
        if loop.dim in summed and acc not in loop.carried:
            yield f"the sum over {loop.dim} is cut: loop {loop.index} does not carry {acc.name}"


def _variables(dst: Tile, value: Typed, inputs: tuple[Tile, ...]) -> Messages:
    if len(inputs) != len(value.names):
        yield f"{len(inputs)} tiles for variables {', '.join(value.names)}"
        return
    for (name, variable), tile in zip(value.variables, inputs, strict=True):
        if variable.dtype != tile.dtype:
            yield f"variable {name} is {variable.dtype} and {tile.name} is {tile.dtype}"
        if tile.axes not in ("", dst.axes):
            yield f"{tile.name} has axes {tile.axes!r}; broadcast it to {dst.axes!r}"


def _map(statement: Map, scope: _Scope) -> Messages:
    yield from _variables(statement.dst, statement.value, statement.inputs)
    if statement.value.dtype != statement.dst.dtype:
        yield f"the expression is {statement.value.dtype} and {statement.dst.name} is {statement.dst.dtype}"


def _reduce(statement: Reduce, scope: _Scope) -> Messages:
    yield from _same_dtype(statement.dst, statement.src)
    if statement.op not in ("sum", "max", "min"):
        yield f"no reduction {statement.op!r}: sum, max or min"
    if statement.axis not in statement.src.axes or statement.dst.axes != statement.src.axes.replace(statement.axis, ""):
        yield f"{_shape(statement.src)} over {statement.axis} does not give {_shape(statement.dst)}"


def _broadcast(statement: Broadcast, scope: _Scope) -> Messages:
    yield from _same_dtype(statement.dst, statement.src)
    if not set(statement.src.axes) < set(statement.dst.axes):
        yield f"{_shape(statement.src)} does not spread to {_shape(statement.dst)}"


def _cast(statement: Cast, scope: _Scope) -> Messages:
    yield from _same_axes(statement.dst, statement.src)


def _select(statement: Select, scope: _Scope) -> Messages:
    yield from _variables(statement.dst, statement.condition, statement.inputs)
    if statement.condition.dtype != "bool":
        yield f"the condition is {statement.condition.dtype}, not bool"
    for tile in (statement.then, statement.otherwise):
        if isinstance(tile, Tile):
            yield from _same_axes(statement.dst, tile)
            yield from _same_dtype(statement.dst, tile)


def _transpose(statement: Transpose, scope: _Scope) -> Messages:
    yield from _same_dtype(statement.dst, statement.src)
    if len(statement.src.axes) != 2 or statement.dst.axes != statement.src.axes[::-1]:
        yield f"{_shape(statement.src)} transposed is not {_shape(statement.dst)}"


_RULES: dict[type[Plain], Callable[..., Messages]] = {
    Load: _load,
    Store: _store,
    Fill: _fill,
    Position: _position,
    Size: _size,
    Mma: _mma,
    Map: _map,
    Reduce: _reduce,
    Broadcast: _broadcast,
    Cast: _cast,
    Select: _select,
    Transpose: _transpose,
}
