"""The tile program: an operator as typed statements over tiles, the portable part of a kernel.

A program names no memory address, no thread and no copy instruction. It says which tiles are loaded, what is done to
whole tiles, and which loops are independent (`parallel`), ordered (`sequential`) or accumulate (`reduction`).
A target decides where a tile lives and when it moves; memory levels here are names only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from kgen.expr import Typed, Value, check, parse


class Level(Enum):
    """Where a tile lives, by role: a target maps each to its own memory."""

    STAGED = "staged"
    """On-chip memory that copies fill (shared memory, LDS, SBUF, VMEM)."""
    LOCAL = "local"
    """Operands and values close to the arithmetic units (registers, SBUF, VMEM)."""
    ACCUMULATOR = "accumulator"
    """The home of a matrix product (registers, AGPR, TMEM, PSUM, VMEM scratch)."""


class LoopKind(Enum):
    """How the iterations of a loop depend on each other."""

    PARALLEL = "parallel"
    SEQUENTIAL = "sequential"
    REDUCTION = "reduction"


@dataclass(frozen=True)
class Tensor:
    """A tensor in global memory. `layout` is its index order, slowest first; empty for a scalar."""

    name: str
    dtype: str
    layout: str


@dataclass(frozen=True)
class Tile:
    """A named value on chip. `axes` are the dims it spans, each by its tile extent; empty for a scalar."""

    name: str
    dtype: str
    axes: str
    level: Level = Level.LOCAL


@dataclass(frozen=True)
class Load:
    """dst = load tensor[origin of the enclosing loops]; outside the tensor the tile holds zeros."""

    dst: Tile
    src: Tensor


@dataclass(frozen=True)
class Fill:
    """dst = value everywhere."""

    dst: Tile
    value: float


@dataclass(frozen=True)
class Position:
    """dst = index in the tensor, along `dim`, of each element of an i32 tile."""

    dst: Tile
    dim: str


@dataclass(frozen=True)
class Size:
    """dst = size of `dim`, an i32 scalar."""

    dst: Tile
    dim: str


@dataclass(frozen=True)
class Mma:
    """acc += a @ b, summed over the axis that a and b share and acc lacks."""

    acc: Tile
    a: Tile
    b: Tile


@dataclass(frozen=True)
class Map:
    """dst = expression over tiles of dst's axes (or scalars), element by element.

    `inputs` are the tiles of the expression's variables, in the order of `value.names`.
    """

    dst: Tile
    value: Typed
    inputs: tuple[Tile, ...]

    @staticmethod
    def of(dst: Tile, text: str, *tiles: Tile) -> Map:
        """The map that `text` says, over tiles by their names. ValueError: the text is not an expression over them."""
        value = typed(text, tiles)
        return Map(dst, value, _named(value, tiles))


@dataclass(frozen=True)
class Reduce:
    """dst = op over one axis of src; `op` is `sum`, `max` or `min`. It spans the tile, zeros outside included."""

    dst: Tile
    src: Tile
    axis: str
    op: str


@dataclass(frozen=True)
class Broadcast:
    """dst = src repeated along the axes that dst has and src lacks."""

    dst: Tile
    src: Tile


@dataclass(frozen=True)
class Cast:
    """dst = src rounded to dst's dtype, to nearest even; a copy where the dtypes are equal."""

    dst: Tile
    src: Tile


@dataclass(frozen=True)
class Select:
    """dst = where(condition, then, otherwise); `inputs` are the tiles of the condition's variables, as in `Map`.

    What a condition says about places it says with `Position` and `Size` tiles.
    """

    dst: Tile
    condition: Typed
    inputs: tuple[Tile, ...]
    then: Tile
    otherwise: Tile | float

    @staticmethod
    def of(dst: Tile, text: str, tiles: tuple[Tile, ...], then: Tile, otherwise: Tile | float) -> Select:
        """The selection by the condition that `text` says, over tiles by their names. ValueError as for `Map.of`."""
        condition = typed(text, tiles, condition=True)
        return Select(dst, condition, _named(condition, tiles), then, otherwise)


@dataclass(frozen=True)
class Transpose:
    """dst = src with its two axes exchanged."""

    dst: Tile
    src: Tile


@dataclass(frozen=True)
class Store:
    """tensor[origin of the enclosing loops] = src, inside the tensor only."""

    dst: Tensor
    src: Tile


@dataclass(frozen=True)
class Loop:
    """`body` for each tile of `dim`, or for each single index of it where `unit`.

    `index` names the iteration. `carried` are tiles made before the loop that its body updates: none in a parallel
    loop; in a reduction loop the updates are sums, products, maxima or minima, whose order a target may change.
    With `segments`, a tensor of n + 1 ascending i32 over the dim of an enclosing unit loop, the loop covers
    [segments[i], segments[i + 1]) of `dim` in iteration i of that loop: ragged groups.
    """

    kind: LoopKind
    index: str
    dim: str
    body: tuple[Statement, ...]
    carried: tuple[Tile, ...] = ()
    unit: bool = False
    segments: Tensor | None = None


Plain = Load | Fill | Position | Size | Mma | Map | Reduce | Broadcast | Cast | Select | Transpose | Store
"""A statement that is not a loop."""
Statement = Plain | Loop


@dataclass(frozen=True)
class Program:
    """An operator: its tensors, and what is done, tile by tile. Tensors with an empty layout are read by their name."""

    name: str
    tensors: tuple[Tensor, ...]
    body: tuple[Statement, ...]

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The tensors that are stored to, in program order."""
        return tuple(dict.fromkeys(s.dst for s in statements(self.body) if isinstance(s, Store)))


def scalar(tensor: Tensor) -> Tile:
    """The tile that reads a scalar tensor."""
    return Tile(tensor.name, tensor.dtype, "")


def typed(text: str, tiles: tuple[Tile, ...], *, condition: bool = False) -> Typed:
    """The expression `text` over tiles by their names. ValueError: what is wrong with it."""
    parsed = parse(text)
    if isinstance(parsed, tuple):
        raise ValueError(f"{text}: {parsed[0].message}")
    env = {tile.name: Value(tile.dtype, tile.axes) for tile in tiles}
    checked = check(parsed, env, condition=condition)
    if isinstance(checked, tuple):
        raise ValueError(f"{text}: {checked[0].message}")
    return checked


def _named(value: Typed, tiles: tuple[Tile, ...]) -> tuple[Tile, ...]:
    by_name = {tile.name: tile for tile in tiles}
    return tuple(by_name[name] for name in value.names)


def statements(body: tuple[Statement, ...]) -> Iterator[Plain]:
    """Every statement that is not a loop, in program order, loop bodies once."""
    for statement in body:
        if isinstance(statement, Loop):
            yield from statements(statement.body)
        else:
            yield statement


def written(statement: Plain) -> Tile | None:
    """The tile a statement makes or updates; None for a store."""
    if isinstance(statement, Store):
        return None
    return statement.acc if isinstance(statement, Mma) else statement.dst


def read(statement: Plain) -> tuple[Tile, ...]:
    """The tiles a statement reads, operands in order."""
    if isinstance(statement, Mma):
        return statement.acc, statement.a, statement.b
    if isinstance(statement, Map):
        return statement.inputs
    if isinstance(statement, Select):
        otherwise = (statement.otherwise,) if isinstance(statement.otherwise, Tile) else ()
        return (*statement.inputs, statement.then, *otherwise)
    if isinstance(statement, Load | Fill | Position | Size):
        return ()
    return (statement.src,)
