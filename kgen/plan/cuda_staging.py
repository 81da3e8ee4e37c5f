"""A tile of an operand in shared memory: its rows, the swizzle that makes it conflict-free, and how it is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from kgen.transform import (
    CHUNK,
    LOAD_A,
    LOAD_A_TRANSPOSED,
    LOAD_B,
    LOAD_B_TRANSPOSED,
    MMA_M16N8K8_TF32,
    MMA_M16N8K16,
    Fragments,
    IndexExpr,
    MatrixLoad,
    Swizzle,
    WarpAccess,
    best_swizzle,
    floordiv,
    mod,
)

BANK_LINE = 128
"""Bytes of one line across all banks: operand tiles begin on one."""

_LOADS = {
    ("a", True): LOAD_A,
    ("a", False): LOAD_A_TRANSPOSED,
    ("b", True): LOAD_B,
    ("b", False): LOAD_B_TRANSPOSED,
}


@dataclass(frozen=True)
class Staged:
    """A tile of operand `name` (`a` or `b`): `rows` along m or n, `k` along k, stored as in global memory."""

    name: str
    rows: int
    k: int
    k_fast: bool
    element_bytes: int

    @property
    def slow(self) -> int:
        """Rows as stored."""
        return self.rows if self.k_fast else self.k

    @property
    def fast(self) -> int:
        """Elements of a row as stored."""
        return self.k if self.k_fast else self.rows

    @property
    def load(self) -> MatrixLoad | None:
        """The ldmatrix that fills fragments; None where elements are read one by one (32-bit, transposed)."""
        load = _LOADS[self.name, self.k_fast]
        return None if load.transposed and self.element_bytes != 2 else load

    @cached_property
    def swizzle(self) -> Swizzle:
        """The arrangement under which copies and fragment loads meet no bank conflict."""
        return best_swizzle(self.fast * self.element_bytes, tuple(_accesses(self)))

    @property
    def bytes(self) -> int:
        """Shared memory of the tile, to the next bank line."""
        return -(-self.swizzle.bytes(self.slow) // BANK_LINE) * BANK_LINE

    def address(self, row: IndexExpr, k: IndexExpr) -> IndexExpr:
        """Byte offset of element (row, k) from the tile's base."""
        slow, fast = (row, k) if self.k_fast else (k, row)
        per_chunk = CHUNK // self.element_bytes
        view = self.swizzle.view(self.slow, self.element_bytes)
        place = view.at(row=slow, chunk=floordiv(fast, per_chunk), element=mod(fast, per_chunk))
        return place.offset * self.element_bytes


@lru_cache(maxsize=4096)
def staged(name: str, rows: int, k: int, k_fast: bool, element_bytes: int) -> Staged:
    """One object a tile: its swizzle is searched for once."""
    return Staged(name, rows, k, k_fast, element_bytes)


def _accesses(tile: Staged) -> Iterator[WarpAccess]:
    """How a warp touches the tile: ldmatrix or single elements; copies fill whole rows and cannot conflict worse."""
    if tile.load is not None:
        yield tile.load.access(0, 0)
        return
    fragment = fragments_of(tile.element_bytes)
    lanes = fragment.a if tile.name == "a" else fragment.b
    yield WarpAccess.of(lambda lane: _stored(lanes.place(lane, 0), tile.element_bytes), 4)


def _stored(element: tuple[int, int], element_bytes: int) -> tuple[int, int]:
    row, k = element
    return k, row * element_bytes


def fragments_of(element_bytes: int) -> Fragments:
    """Lane maps of the mma for elements of this size."""
    return MMA_M16N8K16 if element_bytes == 2 else MMA_M16N8K8_TF32
