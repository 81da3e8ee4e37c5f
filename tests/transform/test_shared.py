"""Shared memory: conflicts counted as a bank-by-bank simulation does, swizzles found and proven, fragments covered."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgen.transform import (
    LOAD_A,
    LOAD_A_TRANSPOSED,
    LOAD_B,
    LOAD_B_TRANSPOSED,
    MMA_M16N8K8_TF32,
    MMA_M16N8K16,
    Fragments,
    LaneMap,
    MatrixLoad,
    Swizzle,
    WarpAccess,
    best_swizzle,
    evaluate,
    fills,
    swizzles,
    sym,
    to_c,
    wavefronts,
)


def _simulated(addresses: list[int], size: int) -> int:
    """Wavefronts of one warp: each phase repeats until every bank has served all its distinct words."""
    total, lanes = 0, 128 // size
    for phase in range(0, len(addresses), lanes):
        pending: dict[int, set[int]] = defaultdict(set)
        for address in addresses[phase : phase + lanes]:
            for byte in range(address, address + size, 4):
                pending[byte // 4 % 32].add(byte // 4)
        while any(pending.values()):
            total += 1
            for words in pending.values():
                if words:
                    words.pop()
    return total


@given(st.sampled_from([4, 8, 16]), st.lists(st.integers(0, 300), min_size=32, max_size=32))
def test_wavefronts_equal_a_simulation(size: int, units: list[int]) -> None:
    addresses = [unit * size for unit in units]
    assert wavefronts(addresses, size) == _simulated(addresses, size)


@pytest.mark.parametrize(
    ("stride", "size", "expected"),
    [(4, 4, 1), (8, 4, 2), (128, 4, 32), (0, 4, 1), (16, 16, 4), (128, 16, 32), (8, 8, 2)],
)
def test_known_patterns(stride: int, size: int, expected: int) -> None:
    assert wavefronts([lane * stride for lane in range(32)], size) == expected


def _copy(row_bytes: int, first: int) -> WarpAccess:
    """A warp writing chunks of consecutive rows."""
    chunks = row_bytes // 16
    return WarpAccess.of(lambda lane: _chunk_place(first + lane, chunks), 16)


def _chunk_place(number: int, chunks: int) -> tuple[int, int]:
    """(row, byte) of a chunk by its number."""
    return number // chunks, number % chunks * 16


@pytest.mark.parametrize("row_bytes", [32, 64, 96, 128, 160, 256, 512])
@pytest.mark.parametrize("load", [LOAD_A, LOAD_B, LOAD_A_TRANSPOSED, LOAD_B_TRANSPOSED])
def test_a_conflict_free_swizzle_is_found(row_bytes: int, load: MatrixLoad) -> None:
    chunks = row_bytes // 16
    reads = [load.access(row, chunk) for row in range(0, 64, 16) for chunk in range(0, chunks - 1, 2)]
    writes = [_copy(row_bytes, first) for first in range(0, 256, 32)] if 8 % chunks == 0 or chunks % 8 == 0 else []
    swizzle = best_swizzle(row_bytes, tuple(reads + writes))
    assert swizzle.conflict_free((*reads, *writes))
    plain = Swizzle(row_bytes, row_bytes)
    assert swizzle == plain or not plain.conflict_free((*reads, *writes))


@pytest.mark.parametrize("row_bytes", [16, 32, 48, 64, 96, 128, 256])
def test_swizzles_are_bijections_and_views_agree(row_bytes: int) -> None:
    rows, chunks = 24, row_bytes // 16
    row, chunk, element = sym("row", 0, rows), sym("chunk", 0, chunks), sym("element", 0, 8)
    for swizzle in swizzles(row_bytes):
        addresses = {swizzle.address(r, byte) for r in range(rows) for byte in range(row_bytes)}
        assert len(addresses) == rows * row_bytes
        assert max(addresses) < swizzle.bytes(rows)
        offset = swizzle.view(rows, 2).at(row=row, chunk=chunk, element=element).offset
        for r in range(rows):
            for c in range(chunks):
                env = {"row": r, "chunk": c, "element": 5}
                assert evaluate(offset, env) * 2 == swizzle.address(r, c * 16 + 10)


@pytest.mark.parametrize("row_bytes", [0, 8, 24])
def test_rows_are_whole_chunks(row_bytes: int) -> None:
    with pytest.raises(ValueError, match="whole number"):
        swizzles(row_bytes)


def test_the_least_bad_swizzle_where_none_is_free() -> None:
    """Lanes 0..7 of the first phase all in one bank group of rows that no member of the family tells apart."""
    access = WarpAccess.of(lambda lane: (lane % 8 * 64, 0), 16)
    swizzle = best_swizzle(64, (access,))
    assert not swizzle.conflict_free((access,))
    assert swizzle.wavefronts(access) == min(s.wavefronts(access) for s in swizzles(64))


@pytest.mark.parametrize("fragments", [MMA_M16N8K16, MMA_M16N8K8_TF32])
def test_fragment_maps_are_bijections(fragments: Fragments) -> None:
    lane, register = sym("lane", 0, 32), sym("register", 0, 8)
    for part in (fragments.a, fragments.b, fragments.c):
        assert part.bijective()
        first, second = part.element(lane, register)
        for at in range(32):
            for r in range(part.registers):
                env = {"lane": at, "register": r}
                assert (evaluate(first, env), evaluate(second, env)) == part.place(at, r)


def test_a_wrong_fragment_map_is_no_bijection() -> None:
    broken = LaneMap(("m", "k"), (16, 16), ((8, (1, 0)), (4, (0, 1))), ((2, (0, 8)), (2, (8, 0)), (2, (0, 1))))
    assert not broken.bijective()


def test_m16n8k16_is_the_table_of_the_isa() -> None:
    for lane in range(32):
        g, t = divmod(lane, 4)
        a = [(g, 2 * t), (g, 2 * t + 1), (g + 8, 2 * t), (g + 8, 2 * t + 1)]
        assert [MMA_M16N8K16.a.place(lane, r) for r in range(8)] == a + [(row, k + 8) for row, k in a]
        assert [MMA_M16N8K16.b.place(lane, r) for r in range(4)] == [(g, 2 * t + d) for d in (0, 1, 8, 9)]
        assert [MMA_M16N8K16.c.place(lane, r) for r in range(4)] == a
        assert [MMA_M16N8K8_TF32.a.place(lane, r) for r in range(4)] == [(g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4)]
        assert [MMA_M16N8K8_TF32.b.place(lane, r) for r in range(2)] == [(g, t), (g, t + 4)]


@pytest.mark.parametrize(
    ("load", "fragment", "size"),
    [
        (LOAD_A, MMA_M16N8K16.a, 2),
        (LOAD_B, MMA_M16N8K16.b, 2),
        (LOAD_A_TRANSPOSED, MMA_M16N8K16.a, 2),
        (LOAD_B_TRANSPOSED, MMA_M16N8K16.b, 2),
        (LOAD_A, MMA_M16N8K8_TF32.a, 4),
        (LOAD_B, MMA_M16N8K8_TF32.b, 4),
    ],
)
def test_ldmatrix_fills_the_fragments(load: MatrixLoad, fragment: LaneMap, size: int) -> None:
    assert fills(load, fragment, size)
    for other in (LOAD_A, LOAD_B, LOAD_A_TRANSPOSED, LOAD_B_TRANSPOSED):
        if other is not load and other.transposed == load.transposed:
            assert not fills(other, fragment, size)


def test_lanes_read_swizzled_rows() -> None:
    lane, i, k_step = sym("lane", 0, 32), sym("i", 0, 4), sym("k_step", 0, 2)
    row, chunk = LOAD_A.source(lane)
    place = Swizzle(64, 64, 1, 3).view(128).at(row=i * 16 + row, chunk=k_step * 2 + chunk, element=0)
    assert to_c(place.offset) == "i * 1024 + lane % 16 * 64 + ((lane / 2 % 4) ^ (k_step * 2 + lane / 16)) * 16"
