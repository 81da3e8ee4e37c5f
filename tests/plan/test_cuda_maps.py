"""The index maps that kernels print, as C, against what each must be: brute force over all threads and elements.

The texts themselves are evaluated, so that nothing of the machinery that made them is trusted. Fragment layouts are
written out from the PTX ISA (9.7.14, matrix fragments of mma.m16n8k16 and m16n8k8, and ldmatrix).
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from kgen.plan import CudaPlan
from kgen.plan.cuda_views import Operand
from kgen.spec.kernel import Kernel
from kgen.transform import wavefronts
from tests.plan.builders import cuda_kernels, kernel, planned

KERNELS = (
    *cuda_kernels(),
    kernel("tile: {m: 128, n: 256, k: 64}, warps: {m: 2, n: 4}, stages: 2"),
    kernel("tile: {m: 32, n: 48, k: 80}, warps: {m: 1, n: 3}, stages: 2, align: 8", a="km", b="kn"),
    kernel("tile: {m: 64, n: 32, k: 40}, warps: {m: 2, n: 2}, stages: 2, align: 16", dtype="f32", a="km", b="kn"),
)
IDS = [f"{number}-{one.name}" for number, one in enumerate(KERNELS)]
every_kernel = pytest.mark.parametrize("of", KERNELS, ids=IDS)

Function = Callable[..., int]


def python(text: str) -> str:
    """A C expression over integers that are not negative, as Python."""
    text = " ".join(text.split()).replace("/", "//").replace("&&", "and")
    text = re.sub(r"static_cast<int>|int64_t(?=\()", "", text)
    condition, question, rest = text.partition(" ? ")
    yes, _, no = rest.rpartition(" : ")
    return f"({yes}) if ({condition}) else ({no})" if question else text


def function(plan: CudaPlan, name: str) -> Function:
    """The index map called `name`."""
    (found,) = (one for one in plan.maps if one.name == name)
    names = [parameter.split()[-1].lstrip("&") for parameter in found.parameters.split(", ")]
    made: Function = eval(f"lambda {', '.join(names)}: {python(found.text)}", {"min": min, "max": max})
    return made


def constants(plan: CudaPlan) -> dict[str, int]:
    return {constant.name: constant.value for constant in plan.constants}


class Tile:
    """One operand's tile: its maps, its extents and how it lies in memory."""

    def __init__(self, of: Kernel, name: str) -> None:
        self.plan = planned(of)
        self.row = "m" if name == "a" else "n"
        self.view: Operand = next(o for o in self.plan.operands if o.name == name)
        self.name, self.bytes = name, self.view.bytes
        self.rows, self.k = self.plan.tile_sizes[self.row], self.plan.tile_sizes["k"]
        self.k_fast = of.signature.operand(name).layout[-1] == "k"
        self.shared = self.map("shared")

    def map(self, suffix: str) -> Function:
        return function(self.plan, f"{self.name}_{suffix}")

    def elements(self) -> Iterator[tuple[int, int]]:
        return itertools.product(range(self.rows), range(self.k))

    def along(self, row: int, k: int, step: int) -> tuple[int, int]:
        """The element `step` further along the fastest dim."""
        return (row, k + step) if self.k_fast else (row + step, k)


def tiles(of: Kernel) -> list[Tile]:
    return [Tile(of, "a"), Tile(of, "b")]


def copied(tile: Tile) -> Iterator[tuple[int, int, int, int]]:
    """(round, thread, row, k) of every chunk that is copied."""
    row, k = tile.map(f"copy_{tile.row}"), tile.map("copy_k")
    inside: Function = lambda thread, i: True  # noqa: E731
    if any(one.name == f"{tile.name}_copy_inside" for one in tile.plan.maps):
        inside = tile.map("copy_inside")
    rounds = constants(tile.plan)[f"{tile.name}_copies"]
    for i, thread in itertools.product(range(rounds), range(tile.plan.threads)):
        if inside(thread, i):
            yield i, thread, row(thread, i), k(thread, i)


@every_kernel
def test_copies_cover_every_element_once(of: Kernel) -> None:
    for tile in tiles(of):
        chunks = [(row, k) for _, _, row, k in copied(tile)]
        covered = sorted(tile.along(row, k, e) for row, k in chunks for e in range(tile.view.chunk))
        assert covered == sorted(tile.elements())


@every_kernel
def test_elements_lie_apart_in_a_stage_and_chunks_together(of: Kernel) -> None:
    used: set[int] = set()
    for tile in tiles(of):
        places = [tile.shared(row, k) for row, k in tile.elements()]
        assert len({*places}) == len(places)
        assert not used & {*places}
        used |= {*places}
        for _, _, row, k in copied(tile):
            first = tile.shared(row, k)
            assert first % tile.view.chunk_bytes == 0
            chunk = [tile.shared(*tile.along(row, k, e)) for e in range(tile.view.chunk)]
            assert chunk == [first + e * tile.bytes for e in range(tile.view.chunk)]
    assert max(used) + tile.bytes <= constants(planned(of))["stage_bytes"]


@every_kernel
def test_copies_meet_no_bank_conflict(of: Kernel) -> None:
    for tile in tiles(of):
        warps: dict[tuple[int, int], list[int]] = defaultdict(list)
        for i, thread, row, k in copied(tile):
            warps[i, thread // 32].append(tile.shared(row, k))
        size = tile.view.chunk_bytes
        for addresses in warps.values() if size >= 4 else ():
            assert wavefronts(addresses, size) <= max(1, size * 32 // 128)


def wanted(tile: Tile, lane: int, register: int) -> list[tuple[int, int]]:
    """The (row, k) that a lane holds in a register: A's fragment, or the fragments of two B side by side along n."""
    group, member = divmod(lane, 4)
    low, high = register % 2, register // 2
    row, k = (group + 8 * low, high) if tile.name == "a" else (group + 8 * high, low)
    if tile.bytes == 4:
        return [(row, member + 4 * k)]
    return [(row, 2 * member + 8 * k + e) for e in (0, 1)]


def received(tile: Tile, addresses: list[int], lane: int, register: int) -> list[int]:
    """Byte offsets of the elements that ldmatrix.x4 puts into a lane's register, in order."""
    rows = addresses[8 * register : 8 * register + 8]
    if not tile.view.transposed:
        return [rows[lane // 4] + lane % 4 * 4 + e for e in range(0, 4, tile.bytes)]
    return [rows[lane % 4 * 2 + e] + lane // 4 * 2 for e in (0, 1)]


def blocks(tile: Tile) -> Iterator[tuple[int, int, int, int, int]]:
    """(warp, block of 16 rows, k step) of every fragment load, and its first row and k."""
    fixed = constants(tile.plan)
    rows, deep = fixed[f"warp_{tile.row}"], 32 // tile.bytes
    for warp, i, step in itertools.product(range(tile.rows // rows), range(rows // 16), range(fixed["mma_k"])):
        yield warp, i, step, warp * rows + i * 16, step * deep


@every_kernel
def test_lanes_receive_their_fragments_without_bank_conflicts(of: Kernel) -> None:
    for tile in tiles(of):
        if tile.view.fragment_macro != "fragment.ldmatrix":
            continue
        place, where = tile.map("fragment"), {tile.shared(row, k): (row, k) for row, k in tile.elements()}
        for warp, i, step, first, first_k in blocks(tile):
            addresses = [place(lane, warp, i, step) for lane in range(32)]
            assert wavefronts(addresses, 16) == 4
            for lane, register in itertools.product(range(32), range(4)):
                got = [where[offset] for offset in received(tile, addresses, lane, register)]
                assert got == [(first + row, first_k + k) for row, k in wanted(tile, lane, register)]


@every_kernel
def test_elements_read_one_by_one_are_those_of_the_fragment(of: Kernel) -> None:
    for tile in tiles(of):
        if tile.view.fragment_macro != "fragment.elements":
            continue
        place = tile.map("element")
        for warp, i, step, first, first_k in blocks(tile):
            for register in range(4):
                addresses = [place(lane, warp, i, step, register) for lane in range(32)]
                expected = [wanted(tile, lane, register)[0] for lane in range(32)]
                assert addresses == [tile.shared(first + row, first_k + k) for row, k in expected]
                assert wavefronts(addresses, 4) == 1


def test_every_kind_of_fragment_load_is_among_the_kernels() -> None:
    kinds = {(o.name, o.fragment_macro, o.transposed, o.bytes) for of in KERNELS for o in planned(of).operands}
    for name in "ab":
        assert (name, "fragment.ldmatrix", "", 2) in kinds
        assert (name, "fragment.ldmatrix", ".trans", 2) in kinds
        assert (name, "fragment.ldmatrix", "", 4) in kinds
        assert (name, "fragment.elements", ".trans", 4) in kinds or (name, "fragment.elements", "", 4) in kinds


@every_kernel
def test_the_epilogue_turns_fragments_into_rows(of: Kernel) -> None:
    plan = planned(of)
    fixed = constants(plan)
    place, width = function(plan, "slice"), fixed["warp_n"]
    every = sorted(itertools.product(range(16), range(width)))
    offsets = [place(m, n) for m, n in every]
    assert len({*offsets}) == len(offsets)
    assert max(offsets) + 4 <= fixed["slice_bytes"]
    row, column = function(plan, "acc_m"), function(plan, "acc_n")
    pairs = [(row(lane, half), column(lane, j)) for lane in range(32) for half in (0, 1) for j in range(width // 8)]
    assert sorted((m, n + e) for m, n in pairs for e in (0, 1)) == every
    assert all(place(m, n) % 8 == 0 and place(m, n + 1) == place(m, n) + 4 for m, n in pairs)
    row, column = function(plan, "vector_m"), function(plan, "vector_n")
    vectors = [(row(lane, v), column(lane, v)) for lane in range(32) for v in range(fixed["vectors"])]
    assert sorted((m, n + e) for m, n in vectors for e in range(8)) == every
    assert all(place(m, n) % 16 == 0 and place(m, n + 7) == place(m, n) + 28 for m, n in vectors)


def parameters(of: Kernel, sizes: dict[str, int]) -> SimpleNamespace:
    """Params of a call: sizes, and strides that no two index vectors confuse."""
    made = SimpleNamespace(m=sizes["m"], n=sizes["n"], k=sizes["k"], batch=sizes["b"])
    for operand in (*of.signature.inputs, *of.signature.outputs):
        strides = [1_000_000, 1_000][-len(operand.layout) + 1 :] if len(operand.layout) > 1 else []
        setattr(made, f"{operand.name}_stride", strides)
    return made


@every_kernel
def test_offsets_are_strides_times_indices(of: Kernel) -> None:
    plan, p, at = planned(of), parameters(of, dict.fromkeys("mnkb", 9)), {"b": 3, "m": 5, "n": 7, "k": 2}
    for operand in (*of.signature.inputs, *of.signature.outputs):
        if operand.layout:
            strides = [*getattr(p, f"{operand.name}_stride"), 1]
            dims = {"a": "mk", "b": "nk"}.get(operand.name, "mn")
            offset = function(plan, f"{operand.name}_offset")(p, at["b"], *(at[dim] for dim in dims))
            assert offset == sum(at[dim] * s for dim, s in zip(operand.layout, strides, strict=True))


@every_kernel
def test_predicates_count_what_is_inside(of: Kernel) -> None:
    plan = planned(of)
    step = {dim: of.signature.multiple_of.get(dim, 1) for dim in "mnk"}
    checks = [(f"{o.name}_valid", o.name, o.chunk, "m" if o.name == "a" else "n", "k") for o in plan.operands]
    checks.append(("vector_valid", of.signature.outputs[0].name, plan.vector, "m", "n"))
    for name, operand, vector, one, other in checks:
        fast, counted = of.signature.operand(operand).layout[-1], function(plan, name)
        for first, second in itertools.product(range(0, 12, step[one]), range(0, 12, step[other])):
            p = parameters(of, {"m": 9, "n": 9, "k": 9, "b": 1} | {one: first, other: second})
            starts = [range(0, 16, vector if dim == fast else 1) for dim in (one, other)]
            for i, j in itertools.product(*starts):
                ends = [(i + e, j) if one == fast else (i, j + e) for e in range(vector)]
                valid = sum(x < first and y < second for x, y in ends)
                assert counted(p, i, j) == valid
