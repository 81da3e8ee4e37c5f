"""The CUDA algorithm of a gemm: its fields, their legality, and the cost model that fills in what a spec leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from kgen.arch import CudaArch, MmaInstruction
from kgen.expr import DTYPES
from kgen.plan.base import Alternative, Decision
from kgen.plan.cuda_staging import Staged, staged
from kgen.spec.problem import Path, Problem

STAGES = (2, 3, 4, 5)
VECTOR = 8
"""Columns of one row that a lane handles in the epilogue."""
REGISTER_RESERVE = 56
"""Registers for addresses, loop state and the epilogue, beside accumulators and fragments (ptxas, sm_80 gemms)."""
NOMINAL = 4096
"""The cost model weighs candidates on an m = n = k = 4096 product: a spec names no size."""
LATENCY_CYCLES = 600
"""DRAM latency that the stages in flight have to cover (A100 micro-benchmarks report 450 to 650 cycles)."""

BARRIER_CYCLES = 40
"""Cost of the barrier of a K tile: the warps of a block arrive together and refill their pipelines."""


@dataclass(frozen=True, order=True)
class Algorithm:
    """How one block computes its tile. Extents count elements."""

    tile_m: int
    tile_n: int
    tile_k: int
    warps_m: int
    warps_n: int
    stages: int
    group: int
    """Tile rows of a block group; 0 is raster order."""
    shared_request: int
    """Least dynamic shared memory to ask for, in bytes."""

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps_m * self.warps_n

    @property
    def warp_m(self) -> int:
        """Rows of the tile that one warp computes."""
        return self.tile_m // self.warps_m

    @property
    def warp_n(self) -> int:
        """Columns of the tile that one warp computes."""
        return self.tile_n // self.warps_n


@dataclass(frozen=True)
class Space:
    """What legality and cost depend on beside the algorithm: the machine, the instruction and the staged tiles."""

    arch: CudaArch
    mma: MmaInstruction
    a_fast: str
    """The fastest dim of a: `k` or `m`."""
    b_fast: str

    @property
    def element_bytes(self) -> int:
        """Size of an element of a and b."""
        return DTYPES[self.mma.operand].bytes


_FIELDS: Mapping[str, tuple[str, ...]] = {
    "tile_m": ("tile", "m"),
    "tile_n": ("tile", "n"),
    "tile_k": ("tile", "k"),
    "warps_m": ("warps", "m"),
    "warps_n": ("warps", "n"),
    "stages": ("stages",),
    "group": ("block_order", "group"),
    "shared_request": ("shared_bytes",),
}
"""Field of Algorithm -> its place under a target of a spec."""


def place(field: str) -> tuple[str, ...]:
    """Where a spec gives `field`, relative to its target."""
    return _FIELDS[field]


def given_fields(algorithm: Mapping[str, object]) -> dict[str, int]:
    """The fields that the spec or the lock fixes, flattened."""
    flat = {}
    for field, path in _FIELDS.items():
        value = _dig(algorithm, path)
        if isinstance(value, int):
            flat[field] = value
    if _dig(algorithm, ("block_order", "kind")) == "raster":
        flat["group"] = 0
    return flat


def _dig(value: object, path: tuple[str, ...]) -> object:
    for key in path:
        entries = dict(value) if isinstance(value, tuple) else value
        if not isinstance(entries, Mapping):
            return None
        value = entries.get(key)
    return value


# ---- legality -------------------------------------------------------------------------------------------------------


def violations(algorithm: Algorithm, space: Space, target: Path) -> list[Problem]:
    """The clauses that `algorithm` breaks on `space`, each at the field that breaks it."""
    problems = [*_shape_problems(algorithm, space, target), *_count_problems(algorithm, space, target)]
    return problems or _resource_problems(algorithm, space, target)


def _shape_problems(algorithm: Algorithm, space: Space, target: Path) -> Iterator[Problem]:
    mma = space.mma
    yield from _multiple(target, "tile_m", algorithm.tile_m, mma.m * algorithm.warps_m, f"{mma.m} x warps.m")
    yield from _multiple(target, "tile_n", algorithm.tile_n, 2 * mma.n * algorithm.warps_n, f"{2 * mma.n} x warps.n")
    yield from _multiple(target, "tile_k", algorithm.tile_k, mma.k, f"k of {mma.name}")


def _multiple(target: Path, field: str, value: int, of: int, words: str) -> Iterator[Problem]:
    if value <= 0 or value % of:
        nearest = max(of, (value + of // 2) // of * of)
        name = ".".join(place(field))
        yield Problem(
            (*target, *place(field)),
            name.replace(".", "-"),
            f"{name} = {value} is not a positive multiple of {of} ({words})",
            f"nearest: {nearest}",
        )


def _count_problems(algorithm: Algorithm, space: Space, target: Path) -> Iterator[Problem]:
    limit = space.arch.threads_per_block
    if algorithm.threads > limit:
        words = f"{algorithm.warps_m} x {algorithm.warps_n} warps are {algorithm.threads} threads"
        yield Problem(
            (*target, "warps"),
            "threads",
            f"{words}, over the {limit} of a block",
            f"allowed: at most {limit // 32} warps",
        )
    if algorithm.stages not in STAGES:
        allowed = ", ".join(map(str, STAGES))
        yield Problem(
            (*target, "stages"), "stages", f"{algorithm.stages} stages; multistage has 2 to 5", f"allowed: {allowed}"
        )


def _resource_problems(algorithm: Algorithm, space: Space, target: Path) -> list[Problem]:
    problems = []
    arch, shared = space.arch, shared_bytes(algorithm, space)
    if shared > arch.shared_per_block:
        over = shared - arch.shared_per_block
        problems.append(
            Problem(
                (*target, *_largest_consumer(algorithm)),
                "shared-memory",
                f"{_shared_words(algorithm, space)} = {shared} bytes, {over} over the {arch.shared_per_block} "
                f"a block of {arch.name} may have",
                "use fewer stages or a smaller tile",
            )
        )
    registers = register_estimate(algorithm, space)
    if registers > arch.registers_per_thread:
        problems.append(
            Problem(
                (*target, "warps"),
                "registers",
                f"a warp tile of {algorithm.warp_m} x {algorithm.warp_n} needs about {registers} registers a thread, "
                f"over {arch.registers_per_thread}",
                "use more warps or a smaller tile",
            )
        )
    if registers * algorithm.threads > arch.registers_per_sm:
        problems.append(
            Problem(
                (*target, "warps"),
                "register-file",
                f"{algorithm.threads} threads x about {registers} registers are over the {arch.registers_per_sm} "
                f"of an SM",
                "use fewer warps or a smaller tile",
            )
        )
    return problems


def _largest_consumer(algorithm: Algorithm) -> tuple[str, ...]:
    return ("shared_bytes",) if algorithm.shared_request else ("tile",)


def _shared_words(algorithm: Algorithm, space: Space) -> str:
    if algorithm.shared_request == shared_bytes(algorithm, space):
        return "shared_bytes"
    staged = stage_bytes(algorithm, space)
    if algorithm.stages * staged >= staging_bytes(algorithm):
        return f"{algorithm.stages} stages x {staged} bytes"
    return f"{algorithm.warps_m * algorithm.warps_n} warps x {slice_bytes(algorithm)} bytes of epilogue slice"


def register_estimate(algorithm: Algorithm, space: Space) -> int:
    """About how many registers a thread needs: accumulators, two sets of fragments, and the reserve."""
    acc = algorithm.warp_m * algorithm.warp_n // 32
    fragments = algorithm.warp_m // space.mma.m * 4 + algorithm.warp_n // (2 * space.mma.n) * 4
    return acc + 2 * fragments + REGISTER_RESERVE


def stage_bytes(algorithm: Algorithm, space: Space) -> int:
    """Shared memory of one stage: a tile of a and a tile of b."""
    return staged_a(algorithm, space).bytes + staged_b(algorithm, space).bytes


def staged_a(algorithm: Algorithm, space: Space) -> Staged:
    """a's tile as it lies in shared memory."""
    return staged("a", algorithm.tile_m, algorithm.tile_k, space.a_fast == "k", space.element_bytes)


def staged_b(algorithm: Algorithm, space: Space) -> Staged:
    """b's tile as it lies in shared memory."""
    return staged("b", algorithm.tile_n, algorithm.tile_k, space.b_fast == "k", space.element_bytes)


def slice_pitch(algorithm: Algorithm) -> int:
    """Bytes between rows of an epilogue slice: 16 of padding spread the rows over the banks."""
    return algorithm.warp_n * 4 + 16


def slice_bytes(algorithm: Algorithm) -> int:
    """Shared memory of one warp's epilogue slice: 16 rows of f32."""
    return 16 * slice_pitch(algorithm)


def staging_bytes(algorithm: Algorithm) -> int:
    """Shared memory of all epilogue slices."""
    return algorithm.warps_m * algorithm.warps_n * slice_bytes(algorithm)


def shared_bytes(algorithm: Algorithm, space: Space) -> int:
    """Dynamic shared memory of a block: the ring of stages, reused by the epilogue; or more where asked for."""
    ring = algorithm.stages * stage_bytes(algorithm, space)
    return max(ring, staging_bytes(algorithm), algorithm.shared_request)


# ---- cost model -----------------------------------------------------------------------------------------------------


def microseconds(algorithm: Algorithm, space: Space) -> tuple[float, str]:
    """Estimated time of the nominal product, and what bounds it.

    A roofline per K tile and SM: tensor cores, shared memory (copies in, fragments out) and L2; the copies in flight
    must cover the latency, and each K tile pays a barrier that a second resident block hides half of.
    """
    arch, bytes_ = space.arch, space.element_bytes
    blocks = _blocks_per_sm(algorithm, space)
    tensor = algorithm.tile_m * algorithm.tile_n * algorithm.tile_k / (space.mma.m * space.mma.n * space.mma.k)
    copied = (algorithm.tile_m + algorithm.tile_n) * algorithm.tile_k * bytes_
    warps = algorithm.warps_m * algorithm.warps_n
    fragments = warps * (algorithm.warp_m + algorithm.warp_n) * algorithm.tile_k * bytes_
    latency = LATENCY_CYCLES / (blocks * (algorithm.stages - 1))
    cycles = {
        "tensor cores": tensor * space.mma.cycles / 4,
        "shared memory": (copied + fragments) / arch.shared_bytes_per_cycle,
        "L2": copied * arch.sm_count * arch.clock_ghz / arch.l2_gb_s,
        "latency": latency,
    }
    bound = max(cycles, key=lambda name: cycles[name])
    tiles = -(-NOMINAL // algorithm.tile_m) * -(-NOMINAL // algorithm.tile_n) / arch.sm_count
    k_tiles = -(-NOMINAL // algorithm.tile_k)
    return tiles * k_tiles * (cycles[bound] + BARRIER_CYCLES / blocks) / arch.clock_ghz / 1e3, bound


def _blocks_per_sm(algorithm: Algorithm, space: Space) -> int:
    arch = space.arch
    by_shared = arch.shared_per_sm // (shared_bytes(algorithm, space) + arch.shared_reserved_per_block)
    by_registers = arch.registers_per_sm // (register_estimate(algorithm, space) * algorithm.threads)
    return max(1, min(by_shared, by_registers, arch.threads_per_sm // algorithm.threads, 2))


# ---- choice ---------------------------------------------------------------------------------------------------------

_CHOICES: Mapping[str, tuple[int, ...]] = {
    "tile_m": (64, 128, 256),
    "tile_n": (64, 128, 256),
    "tile_k": (16, 32, 64),
    "warps_m": (1, 2, 4),
    "warps_n": (1, 2, 4),
    "stages": (3, 4, 5),
    "group": (8,),
    "shared_request": (0,),
}


@dataclass(frozen=True)
class Choice:
    """The algorithm taken, what was decided for the spec, and what it beat."""

    algorithm: Algorithm
    decisions: tuple[Decision, ...]
    alternatives: tuple[Alternative, ...]


def choose(given: Mapping[str, int], space: Space, target: Path) -> Choice | tuple[Problem, ...]:
    """The best legal algorithm that agrees with `given`, or the clauses that stop it."""
    return _choose(tuple(sorted(given.items())), space, target)


@lru_cache(maxsize=4096)
def _choose(given: tuple[tuple[str, int], ...], space: Space, target: Path) -> Choice | tuple[Problem, ...]:
    fixed = dict(given)
    domains = [(fixed[field],) if field in fixed else _CHOICES[field] for field in _CHOICES]
    candidates = [Algorithm(*values) for values in product(*domains)]
    legal = [candidate for candidate in candidates if not violations(candidate, space, target)]
    if not legal:
        return tuple(violations(_nearest(candidates, space, target), space, target))
    ranked = sorted(legal, key=lambda candidate: (microseconds(candidate, space)[0], _size(candidate, space)))
    best = ranked[0]
    return Choice(best, _decisions(best, fixed, space), tuple(_alternative(a, space) for a in ranked[:6]))


def _nearest(candidates: list[Algorithm], space: Space, target: Path) -> Algorithm:
    """The candidate with the fewest broken clauses: its problems are the ones that the spec itself causes."""
    return min(candidates, key=lambda candidate: (len(violations(candidate, space, target)), candidate))


def _size(algorithm: Algorithm, space: Space) -> tuple[int, int, Algorithm]:
    """Between equals: a thread count near 128, for the four schedulers of an SM; then little shared memory."""
    return (abs(algorithm.threads - 128), shared_bytes(algorithm, space), algorithm)


def _decisions(best: Algorithm, fixed: Mapping[str, int], space: Space) -> tuple[Decision, ...]:
    time, bound = microseconds(best, space)
    reason = f"least estimated time, {time:.0f} us for m = n = k = {NOMINAL}, bound by {bound}"
    rows = []
    for field in _CHOICES:
        if field not in fixed and field != "shared_request":
            words = "rows of tiles that share b in L2" if field == "group" else reason
            rows.append(Decision(".".join(place(field)), getattr(best, field), words))
    return tuple(rows)


def _alternative(algorithm: Algorithm, space: Space) -> Alternative:
    time, bound = microseconds(algorithm, space)
    names = ("tile_m", "tile_n", "tile_k", "warps_m", "warps_n", "stages")
    return Alternative(tuple((".".join(place(name)), getattr(algorithm, name)) for name in names), time, bound)
