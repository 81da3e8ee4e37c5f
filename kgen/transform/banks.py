"""Shared memory: bank conflicts counted, and the swizzle that avoids them found.

Shared memory has 32 banks of 4 bytes. A warp's access is served in phases: all 32 lanes for 4 bytes a lane, halves
for 8, quarters for 16 (CUDA C++ Best Practices Guide 10.2.3.1; ldmatrix reads one 8x8 matrix of eight 16-byte rows
a phase). Within a phase, each bank serves one 4-byte word a wavefront, to any number of lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kgen.transform.memo import memoized
from kgen.transform.view import View

BANKS, WORD, CHUNK = 32, 4, 16


@dataclass(frozen=True)
class WarpAccess:
    """One shared-memory access of a warp: for each lane (row, byte in the row), and the bytes a lane moves."""

    places: tuple[tuple[int, int], ...]
    bytes: int

    @staticmethod
    def of(place: Callable[[int], tuple[int, int]], size: int, lanes: int = 32) -> WarpAccess:
        """The access whose lane l goes to place(l) = (row, byte in the row)."""
        return WarpAccess(tuple(place(lane) for lane in range(lanes)), size)

    @property
    def phases(self) -> int:
        """The fewest wavefronts that can serve it."""
        return max(1, len(self.places) * self.bytes // (BANKS * WORD))


def wavefronts(addresses: Sequence[int], size: int) -> int:
    """Wavefronts that serve lanes reading or writing `size` bytes each at byte `addresses` (multiples of `size`)."""
    lanes = BANKS * WORD // size
    return sum(_phase(addresses[i : i + lanes], size, lanes) for i in range(0, len(addresses), lanes))


def _phase(addresses: Sequence[int], size: int, lanes: int) -> int:
    """Aligned accesses of one size fall on groups of banks: as many groups as the phase has lanes."""
    load = [0] * lanes
    for unit in {address // size for address in addresses}:
        load[unit % lanes] += 1
    return max(load)


@dataclass(frozen=True)
class Swizzle:
    """How rows of a tile lie in shared memory: 16-byte chunks permuted in each row, rows `pitch` bytes apart."""

    row_bytes: int
    pitch: int
    shift: int = 0
    mask: int = 0
    """Chunk c of row r is stored at c ^ (r >> shift & mask)."""

    def address(self, row: int, byte: int) -> int:
        """Byte offset of a byte of a row."""
        return row * self.pitch + ((byte // CHUNK) ^ (row >> self.shift & self.mask)) * CHUNK + byte % CHUNK

    def bytes(self, rows: int) -> int:
        """Size of a tile of `rows` rows."""
        return rows * self.pitch

    def view(self, rows: int, element_bytes: int = 1) -> View:
        """The tile with dims (row, chunk, element): offsets in elements of `element_bytes`."""
        per_chunk = CHUNK // element_bytes
        chunks = self.row_bytes // CHUNK
        strides = (self.pitch // element_bytes, per_chunk, 1)
        view = View.tensor({"row": rows, "chunk": chunks, "element": per_chunk}, strides)
        return view.xor("row", "chunk", self.shift, self.mask) if self.mask else view

    def wavefronts(self, access: WarpAccess) -> int:
        """Wavefronts that serve `access` in this arrangement."""
        return wavefronts([self.address(row, byte) for row, byte in access.places], access.bytes)

    def conflict_free(self, accesses: Iterable[WarpAccess]) -> bool:
        """Whether no access takes more wavefronts than its size makes necessary."""
        return all(self.wavefronts(access) == access.phases for access in accesses)


def swizzles(row_bytes: int) -> list[Swizzle]:
    """The family tried, simplest first: plain rows, xor of chunks, padded rows. Row size in bytes, whole chunks."""
    if row_bytes < CHUNK or row_bytes % CHUNK:
        raise ValueError(f"rows of {row_bytes} bytes are no whole number of {CHUNK}-byte chunks")
    chunks = row_bytes // CHUNK
    mask = min((chunks & -chunks) - 1, 7)
    shift = max(0, 3 - (chunks.bit_length() - 1))
    plain = Swizzle(row_bytes, row_bytes)
    padded = [Swizzle(row_bytes, row_bytes + pad) for pad in (CHUNK, 2 * CHUNK)]
    if not mask:
        return [plain, *padded]
    xors = [Swizzle(row_bytes, row_bytes, s, mask) for s in (shift, *(s for s in range(4) if s != shift))]
    return [plain, *xors, *padded]


@memoized
def best_swizzle(row_bytes: int, accesses: tuple[WarpAccess, ...]) -> Swizzle:
    """The first arrangement of the family without conflicts; where none is, the one with the fewest wavefronts."""
    family = swizzles(row_bytes)
    for swizzle in family:
        if swizzle.conflict_free(accesses):
            return swizzle
    return min(family, key=lambda s: sum(s.wavefronts(access) for access in accesses))
