"""The Pallas TPU algorithm of a gemm: block sizes, legality, VMEM, and the cost model of what a spec leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

from kgen.arch.tpu import LANES, SUBLANES, TpuArch
from kgen.expr import DTYPES
from kgen.plan.base import Alternative, Decision
from kgen.spec.problem import Path, Problem

NOMINAL = 4096
"""The cost model weighs candidates on an m = n = k = 4096 product: a spec names no size."""
STEP_MICROSECONDS = 0.2
"""Fixed cost of a grid step: libtpu's static profiles of a 4096^3 product on v5e grow so with the number of steps."""
HIGHEST_PASSES = 6
"""Passes of the MXU that an exact f32 product takes: libtpu issues six times the vmatmul of one bf16 pass."""
CODE_LIMIT = 1 << 30
"""Multiply-adds of one grid step, over all passes, that a chosen tile may have: Mosaic unrolls the step, and libtpu
takes tens of seconds where there are more. A spec may ask for more."""
SPILL_BYTES = 1 << 17
"""Room for spilled registers that small tiles need too."""
_MIB = 1 << 20
_FIELDS = ("tile.m", "tile.n", "tile.k")
_CANDIDATES = (128, 256, 512, 1024)


@dataclass(frozen=True, order=True)
class Tile:
    """Extents of a block of the product."""

    m: int
    n: int
    k: int


@dataclass(frozen=True)
class Block:
    """The block of one tensor: its rows and columns as names of tile extents (`m`, `n`, `k` or ``1``)."""

    rows: str
    columns: str
    dtype: str

    def bytes(self, tile: Tile) -> int:
        """Size in VMEM, whole register tiles: 8 sublanes of 32 bits by 128 lanes."""
        size = DTYPES[self.dtype].bytes
        sublanes = SUBLANES * 4 // size
        return _up(extent(tile, self.rows), sublanes) * _up(extent(tile, self.columns), LANES) * size


@dataclass(frozen=True)
class Space:
    """What legality and cost depend on beside the tile: the machine and the blocks of every tensor in VMEM."""

    arch: TpuArch
    a: Block
    b: Block
    extras: tuple[Block, ...]
    outputs: tuple[Block, ...]
    vmem_limit_mib: int = 0
    """The limit that the spec gives, or 0."""

    @property
    def passes(self) -> int:
        """Passes of the MXU that a product takes."""
        return HIGHEST_PASSES if self.a.dtype == "f32" else 1


def extent(tile: Tile, name: str) -> int:
    """The extent of a tile by its name; `1` is one."""
    return {"m": tile.m, "n": tile.n, "k": tile.k, "1": 1}[name]


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


# ---- legality -------------------------------------------------------------------------------------------------------


def violations(tile: Tile, space: Space, target: Path) -> list[Problem]:
    """The clauses that `tile` breaks on `space`, each at the field that breaks it."""
    problems = list(_block_problems(tile, space, target))
    return problems or list(_vmem_problems(tile, space, target))


def _block_problems(tile: Tile, space: Space, target: Path) -> Iterator[Problem]:
    for dim in "mnk":
        size, (multiple, words) = extent(tile, dim), multiple_of(dim, space)
        if size <= 0 or size % multiple:
            nearest = max(multiple, (size + multiple // 2) // multiple * multiple)
            yield Problem(
                (*target, "tile", dim),
                f"tile-{dim}",
                f"tile.{dim} = {size} is not a positive multiple of {multiple} ({words})",
                f"nearest: {nearest}",
            )


def multiple_of(dim: str, space: Space) -> tuple[int, str]:
    """What the block size of `dim` must divide by, and why: the lowering wants whole (8, 128) tiles of every block."""
    blocks = (space.a, space.b, *space.extras, *space.outputs)
    if any(block.columns == dim for block in blocks):
        return LANES, f"{dim} is the last dim of a block: {LANES} lanes"
    return SUBLANES, f"{dim} is the last dim but one of a block: {SUBLANES} sublanes"


def _vmem_problems(tile: Tile, space: Space, target: Path) -> Iterator[Problem]:
    need, capacity = vmem_bytes(tile, space), space.arch.vmem_bytes
    asked = space.vmem_limit_mib * _MIB
    if asked > capacity:
        words = f"vmem_limit_mib asks for {asked} bytes, {asked - capacity} over the {capacity} of {space.arch.name}"
        yield Problem((*target, "vmem_limit_mib"), "vmem", words, f"allowed: at most {capacity // _MIB}")
    limit = min(asked or capacity, capacity)
    if need > limit:
        words = f"blocks of {tile.m} x {tile.n} x {tile.k} need {need} bytes of VMEM ({_vmem_words(tile, space)})"
        whose = "vmem_limit_mib allows" if asked else f"{space.arch.name} has"
        over = f"{words}, {need - limit} over the {limit} that {whose}"
        yield Problem((*target, "tile"), "vmem", over, "use a smaller tile")


def _vmem_words(tile: Tile, space: Space) -> str:
    blocks, acc = block_bytes(tile, space), accumulator_bytes(tile)
    return f"2 x {blocks} of blocks, {acc} of accumulator, {working_bytes(tile, space)} of values"


def block_bytes(tile: Tile, space: Space) -> int:
    """VMEM of one buffer of every block; the pipeline keeps two."""
    return sum(block.bytes(tile) for block in (space.a, space.b, *space.extras, *space.outputs))


def accumulator_bytes(tile: Tile) -> int:
    """VMEM of the f32 accumulator."""
    return Block("m", "n", "f32").bytes(tile)


def working_bytes(tile: Tile, space: Space) -> int:
    """VMEM for values between operations: no less than libtpu 0.0.52 allocated for gemms of any generation.

    While it multiplies: masked copies of a and b and their product; where f32, the operands in parts, of which v5e and
    v5p keep four of a, v6e more of b, v4 and tpu7x fewer. In the epilogue: two f32 tiles. Registers spill besides.
    """
    a, b, acc = space.a.bytes(tile), space.b.bytes(tile), accumulator_bytes(tile)
    product = 4 * max(a, b) + 2 * min(a, b) if space.passes > 1 else a + b + acc
    return max(product, 2 * acc) + acc // 8 + SPILL_BYTES


def vmem_bytes(tile: Tile, space: Space) -> int:
    """Bound of the VMEM that a kernel needs: double-buffered blocks, accumulator and values."""
    return 2 * block_bytes(tile, space) + accumulator_bytes(tile) + working_bytes(tile, space)


def vmem_limit_mib(tile: Tile, space: Space) -> int:
    """The limit to ask for: the bound, never less than a kernel gets unasked."""
    return min(max(_up(vmem_bytes(tile, space), _MIB), space.arch.scoped_vmem_bytes), space.arch.vmem_bytes) // _MIB


# ---- cost model -----------------------------------------------------------------------------------------------------


def microseconds(tile: Tile, space: Space) -> tuple[float, str]:
    """Estimated time of the nominal product on one device, grid steps included, and what bounds it: the MXU or HBM."""
    arch = space.arch
    mxu = space.passes * 2 * NOMINAL**3 / arch.bf16_tflops / 1e6
    hbm = _traffic(tile, space) / arch.hbm_gb_s / 1e3
    fill = block_bytes(tile, space) / arch.hbm_gb_s / 1e3
    steps = _tiles(tile.m) * _tiles(tile.n) * _tiles(tile.k)
    whole = max(mxu, hbm) + fill + steps * STEP_MICROSECONDS
    return whole / arch.megacore, "MXU" if mxu >= hbm else "HBM"


def _traffic(tile: Tile, space: Space) -> int:
    """Bytes that move over HBM: a block is fetched again whenever its index changes from step to step."""
    a = NOMINAL * NOMINAL * DTYPES[space.a.dtype].bytes * (_tiles(tile.n) if _tiles(tile.k) > 1 else 1)
    b = NOMINAL * NOMINAL * DTYPES[space.b.dtype].bytes * _tiles(tile.m)
    matrices = [block for block in (*space.extras, *space.outputs) if "1" not in (block.rows, block.columns)]
    return a + b + sum(NOMINAL * NOMINAL * DTYPES[block.dtype].bytes for block in matrices)


def _tiles(size: int) -> int:
    return -(-NOMINAL // size)


# ---- choice ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """The tile and limit taken, what was decided for the spec, and what it beat."""

    tile: Tile
    vmem_limit_mib: int
    decisions: tuple[Decision, ...]
    alternatives: tuple[Alternative, ...]

    @property
    def resolved(self) -> dict[str, int | str]:
        """Every algorithm field, dotted."""
        return {"schedule": "pipelined", **_fields(self.tile), "vmem_limit_mib": self.vmem_limit_mib}


def given_fields(algorithm: Mapping[str, object]) -> dict[str, int]:
    """The fields that the spec or the lock fixes, dotted."""
    tile = algorithm.get("tile", ())
    pairs = dict(tile) if isinstance(tile, tuple) else {}
    given = {f"tile.{dim}": pairs.get(dim) for dim in "mnk"} | {"vmem_limit_mib": algorithm.get("vmem_limit_mib")}
    return {field: value for field, value in given.items() if isinstance(value, int)}


def choose(given: Mapping[str, int], space: Space, target: Path) -> Choice | tuple[Problem, ...]:
    """The best legal tile that agrees with `given`, or the clauses that stop it."""
    return _choose(tuple(sorted(given.items())), space, target)


@lru_cache(maxsize=4096)
def _choose(given: tuple[tuple[str, int], ...], space: Space, target: Path) -> Choice | tuple[Problem, ...]:
    fixed = dict(given)
    space = replace(space, vmem_limit_mib=fixed.get("vmem_limit_mib", 0))
    domains = [(fixed[field],) if field in fixed else _CANDIDATES for field in _FIELDS]
    candidates = [Tile(*sizes) for sizes in product(*domains)]
    candidates = [tile for tile in candidates if space.passes * tile.m * tile.n * tile.k <= CODE_LIMIT] or candidates
    legal = [tile for tile in candidates if not violations(tile, space, target)]
    if not legal:
        nearest = min(candidates, key=lambda tile: (len(violations(tile, space, target)), tile))
        return tuple(violations(nearest, space, target))
    ranked = sorted(legal, key=lambda tile: (microseconds(tile, space)[0], vmem_bytes(tile, space), tile))
    best = ranked[0]
    limit = space.vmem_limit_mib or vmem_limit_mib(best, space)
    decisions = tuple(row for row in _decisions(best, limit, space) if row.field not in fixed)
    return Choice(best, limit, decisions, tuple(_alternative(tile, space) for tile in ranked[:6]))


def _fields(tile: Tile) -> dict[str, int | str]:
    return dict(zip(_FIELDS, (tile.m, tile.n, tile.k), strict=True))


def _decisions(best: Tile, limit: int, space: Space) -> Iterator[Decision]:
    time, bound = microseconds(best, space)
    reason = f"least estimated time, {time:.0f} us for m = n = k = {NOMINAL}, bound by {bound}"
    for field, value in _fields(best).items():
        yield Decision(field, value, reason)
    yield Decision("vmem_limit_mib", limit, f"the blocks need up to {vmem_bytes(best, space)} bytes")


def _alternative(tile: Tile, space: Space) -> Alternative:
    time, bound = microseconds(tile, space)
    return Alternative(tuple(_fields(tile).items()), time, bound)
