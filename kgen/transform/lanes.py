"""Which lane of a warp holds which element: fragments of tensor-core instructions and the loads that fill them.

A map is a list of digits: lane and register numbers are counted through extents, slowest first, and each digit moves
the element by a step along either axis. Facts: PTX ISA 9.7.14, "Matrix Fragments for mma.m16n8k16 / m16n8k8" and
"ldmatrix".
"""

from __future__ import annotations

from dataclasses import dataclass

from kgen.transform.banks import CHUNK, WarpAccess
from kgen.transform.coordinates import Embed, Merge
from kgen.transform.index import IndexExpr, as_expr
from kgen.transform.memo import memoized

Digit = tuple[int, tuple[int, int]]
"""(extent, (step along the first axis, step along the second))."""


@dataclass(frozen=True)
class LaneMap:
    """The elements of a matrix of `shape` that each lane holds, in register order."""

    axes: tuple[str, str]
    shape: tuple[int, int]
    lane: tuple[Digit, ...]
    register: tuple[Digit, ...]

    @property
    def lanes(self) -> int:
        """How many lanes share the matrix."""
        return _extent(self.lane)

    @property
    def registers(self) -> int:
        """How many elements a lane holds."""
        return _extent(self.register)

    def element(self, lane: IndexExpr | int, register: IndexExpr | int) -> tuple[IndexExpr, IndexExpr]:
        """The element, along both axes, that `lane` holds as its number `register`."""
        digits = (*_digits(self.lane, as_expr(lane)), *_digits(self.register, as_expr(register)))
        steps = [step for _, step in (*self.lane, *self.register)]
        along = [Embed(tuple(as_expr(step[axis]) for step in steps), as_expr(0)) for axis in (0, 1)]
        return along[0].lower(digits)[0], along[1].lower(digits)[0]

    def place(self, lane: int, register: int) -> tuple[int, int]:
        """`element` of known numbers."""
        first = second = 0
        for number, digits in ((lane, self.lane), (register, self.register)):
            rest = number
            for extent, step in reversed(digits):
                rest, digit = divmod(rest, extent)
                first, second = first + digit * step[0], second + digit * step[1]
        return first, second

    def bijective(self) -> bool:
        """Whether every element of the matrix is held exactly once."""
        held = sorted(self.place(lane, r) for lane in range(self.lanes) for r in range(self.registers))
        return held == [(i, j) for i in range(self.shape[0]) for j in range(self.shape[1])]


def _extent(digits: tuple[Digit, ...]) -> int:
    size = 1
    for extent, _ in digits:
        size *= extent
    return size


def _digits(digits: tuple[Digit, ...], value: IndexExpr) -> tuple[IndexExpr, ...]:
    return Merge(tuple(as_expr(extent) for extent, _ in digits)).lower((value,)) if digits else ()


@dataclass(frozen=True)
class Fragments:
    """The operand and result maps of one mma instruction of shape m x n x k. A is (m, k), B is (n, k), C is (m, n)."""

    shape: tuple[int, int, int]
    a: LaneMap
    b: LaneMap
    c: LaneMap


_C = LaneMap(("m", "n"), (16, 8), ((8, (1, 0)), (4, (0, 2))), ((2, (8, 0)), (2, (0, 1))))
"""c0, c1 at (l / 4, l % 4 * 2 + {0, 1}); c2, c3 eight rows below: the same for every m16n8 instruction."""

MMA_M16N8K16 = Fragments(
    (16, 8, 16),
    LaneMap(("m", "k"), (16, 16), ((8, (1, 0)), (4, (0, 2))), ((2, (0, 8)), (2, (8, 0)), (2, (0, 1)))),
    LaneMap(("n", "k"), (8, 16), ((8, (1, 0)), (4, (0, 2))), ((2, (0, 8)), (2, (0, 1)))),
    _C,
)
"""mma.m16n8k16 of 16-bit operands."""

MMA_M16N8K8_TF32 = Fragments(
    (16, 8, 8),
    LaneMap(("m", "k"), (16, 8), ((8, (1, 0)), (4, (0, 1))), ((2, (0, 4)), (2, (8, 0)))),
    LaneMap(("n", "k"), (8, 8), ((8, (1, 0)), (4, (0, 1))), ((2, (0, 4)),)),
    _C,
)
"""mma.m16n8k8 of tf32 operands."""


@dataclass(frozen=True)
class MatrixLoad:
    """ldmatrix.x4: lane l gives the address of row l % 8 of matrix l / 8, eight rows of 16 bytes a matrix.

    `rows` and `chunks` are the places of the four matrices, in rows and in 16-byte chunks of the tile as it is stored;
    `transposed` is ldmatrix's .trans (16-bit elements only).
    """

    rows: tuple[Digit, ...]
    """Digits of the lane: steps are (rows, chunks)."""
    transposed: bool = False

    def source(self, lane: IndexExpr | int) -> tuple[IndexExpr, IndexExpr]:
        """(row, chunk) whose address `lane` gives, from the origin of the block that is loaded."""
        return LaneMap(("row", "chunk"), (0, 0), self.rows, ()).element(lane, 0)

    def place(self, lane: int) -> tuple[int, int]:
        """`source` of a known lane."""
        return LaneMap(("row", "chunk"), (0, 0), self.rows, ()).place(lane, 0)

    def access(self, row: int, chunk: int) -> WarpAccess:
        """The warp's access with the block's origin at (row, chunk)."""
        return WarpAccess(tuple((row + r, (chunk + c) * CHUNK) for r, c in _places(self)), CHUNK)

    def received(self, lane: int, register: int, element_bytes: int) -> tuple[int, int]:
        """(row, element of the row) that `lane` gets as its element `register`, both as the tile is stored.

        Each of the four registers holds 4 bytes of one matrix: bytes 4 * (l % 4) of its row l / 4, or transposed.
        """
        per_register = 4 // element_bytes
        matrix, part = divmod(register, per_register)
        row, column = lane // 4, lane % 4 * per_register + part
        if self.transposed:
            row, column = column, row
        first, chunk = self.place(matrix * 8 + row)
        return first, chunk * (CHUNK // element_bytes) + column


@memoized
def _places(load: MatrixLoad) -> tuple[tuple[int, int], ...]:
    return tuple(load.place(lane) for lane in range(32))


_EIGHT: Digit = (8, (1, 0))

LOAD_A = MatrixLoad(((2, (0, 1)), (2, (8, 0)), _EIGHT))
"""A stored as (m, k): one 16 x 32-byte block, the A fragment of one mma."""

LOAD_B = MatrixLoad(((2, (8, 0)), (2, (0, 1)), _EIGHT))
"""B stored as (n, k): one 16 x 32-byte block, the B fragments of two mma side by side in n."""

LOAD_A_TRANSPOSED = MatrixLoad(((2, (8, 0)), (2, (0, 1)), _EIGHT), transposed=True)
"""A stored as (k, m), 16-bit: 16 rows of k, two chunks of 8 m."""

LOAD_B_TRANSPOSED = MatrixLoad(((2, (0, 1)), (2, (8, 0)), _EIGHT), transposed=True)
"""B stored as (k, n), 16-bit: 16 rows of k, two chunks of 8 n; the B fragments of two mma side by side in n."""


@memoized
def fills(load: MatrixLoad, fragment: LaneMap, element_bytes: int) -> bool:
    """Whether `load` gives every lane the elements that `fragment` asks for, fragment by fragment.

    A load of more elements than one fragment fills several, one after another along the fragment's first axis.
    """
    loaded = CHUNK // element_bytes
    for lane in range(32):
        for register in range(loaded):
            copy, own = divmod(register, fragment.registers)
            first, second = fragment.place(lane, own)
            wanted = first + copy * fragment.shape[0], second
            if load.received(lane, register, element_bytes) != (wanted[::-1] if load.transposed else wanted):
                return False
    return True
