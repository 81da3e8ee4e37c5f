"""Clauses at their limits, and the choice of what a spec leaves out."""

from __future__ import annotations

import pytest

from kgen.arch import CUDA_ARCHS
from kgen.plan.cuda_algorithm import Algorithm, Space, microseconds, register_estimate, violations
from kgen.spec.problem import Problem
from tests.plan.builders import chosen, kernel, planned, problems

ARCH = CUDA_ARCHS["sm_80"]
SPACE = Space(ARCH, ARCH.mma[0], "k", "k")
GOOD = {"tile_m": 128, "tile_n": 128, "tile_k": 32, "warps_m": 2, "warps_n": 2, "stages": 3, "group": 8}
TARGET = ("targets", 0)


def broken(**fields: int) -> dict[str, Problem]:
    """The clauses that a good algorithm with some fields changed breaks, by name."""
    algorithm = Algorithm(**{**GOOD, "shared_request": 0, **fields})
    return {problem.clause: problem for problem in violations(algorithm, SPACE, TARGET)}


def test_a_good_algorithm_breaks_nothing() -> None:
    assert broken() == {}


@pytest.mark.parametrize(
    ("clause", "legal", "illegal", "place", "numbers"),
    [
        ("tile-m", {"tile_m": 96}, {"tile_m": 80}, ("tile", "m"), ["80", "32", "nearest: 96"]),
        ("tile-n", {"tile_n": 96}, {"tile_n": 104}, ("tile", "n"), ["104", "32", "nearest: 96"]),
        ("tile-k", {"tile_k": 48}, {"tile_k": 40}, ("tile", "k"), ["40", "16", "nearest: 48"]),
        ("tile-m", {"tile_m": 32}, {"tile_m": 16}, ("tile", "m"), ["16", "32", "nearest: 32"]),
        ("stages", {"stages": 2}, {"stages": 1}, ("stages",), ["1", "2 to 5"]),
        ("stages", {"stages": 5}, {"stages": 6}, ("stages",), ["6", "2 to 5"]),
        ("threads", {"tile_m": 128, "warps_m": 8}, {"tile_m": 256, "warps_m": 16, "warps_n": 4}, ("warps",),
         ["16 x 4", "2048", "1024", "at most 32 warps"]),
        ("shared-memory", {"tile_k": 80, "stages": 4}, {"tile_k": 96, "stages": 4}, ("tile",),
         ["4 stages", "49152", "196608", "29696 over", "166912"]),
        ("registers", {"tile_m": 64, "tile_n": 64, "warps_m": 1, "warps_n": 1},
         {"tile_m": 128, "tile_n": 128, "warps_m": 1, "warps_n": 1}, ("warps",), ["128 x 128", "696", "255"]),
        ("register-file", {"tile_m": 256, "tile_n": 128, "warps_m": 4, "warps_n": 2},
         {"tile_m": 256, "tile_n": 256, "warps_m": 4, "warps_n": 8}, ("warps",), ["1024", "168", "65536"]),
    ],
)  # fmt: skip
def test_a_clause_and_the_value_next_to_it(
    clause: str, legal: dict[str, int], illegal: dict[str, int], place: tuple[str, ...], numbers: list[str]
) -> None:
    assert clause not in broken(**legal)
    problem = broken(**illegal)[clause]
    assert problem.path == (*TARGET, *place)
    for number in numbers:
        assert number in f"{problem.message}; {problem.fix}"


def test_shared_memory_to_the_byte() -> None:
    fields = "tile: {m: 128, n: 128, k: 32}, warps: {m: 2, n: 2}, stages: 3"
    full = planned(kernel(f"{fields}, shared_bytes: 166912"))
    assert full.shared_bytes == ARCH.shared_per_block == 166912
    (over,) = problems(kernel(f"{fields}, shared_bytes: 166928"))
    assert over.clause == "shared-memory"
    assert over.path == ("targets", 0, "shared_bytes")
    assert "shared_bytes = 166928 bytes, 16 over the 166912" in over.message


def test_shape_clauses_come_before_resources() -> None:
    assert set(broken(tile_m=1000, tile_n=1000)) == {"tile-m", "tile-n"}


def test_what_is_given_is_kept_and_what_is_left_out_is_decided() -> None:
    given = planned(kernel("tile: {m: 64, k: 32}, stages: 5, block_order: {kind: grouped, group: 3}"))
    fixed = {constant.name: constant.value for constant in given.constants}
    assert (given.tile[0], given.tile[2], fixed["stages"], fixed["group"]) == (64, 32, 5, 3)
    assert set(chosen(given.decisions)) == {"tile.n", "warps.m", "warps.n"}
    assert chosen(given.decisions)["tile.n"] == given.tile[1]
    for decision in given.decisions:
        assert decision.reason


def test_a_whole_algorithm_leaves_nothing_to_decide() -> None:
    fields = "tile: {m: 64, n: 64, k: 32}, warps: {m: 2, n: 2}, stages: 3, block_order: {kind: raster}"
    assert planned(kernel(fields)).decisions == ()


def test_choices_are_the_best_of_their_alternatives_and_the_same_again() -> None:
    first, second = planned(kernel()), planned(kernel())
    assert (first.decisions, first.alternatives) == (second.decisions, second.alternatives)
    times = [alternative.microseconds for alternative in first.alternatives]
    assert times == sorted(times)
    assert len(times) > 1
    best = dict(first.alternatives[0].fields)
    assert best.items() <= chosen(first.decisions).items()


@pytest.mark.parametrize(
    ("dtype", "a", "b"), [("bf16", "mk", "nk"), ("f16", "km", "kn"), ("f32", "mk", "nk"), ("f32", "km", "kn")]
)
def test_every_layout_has_a_legal_choice(dtype: str, a: str, b: str) -> None:
    plan = planned(kernel(dtype=dtype, a=a, b=b))
    assert plan.shared_bytes <= ARCH.shared_per_block
    assert plan.threads % 32 == 0


def test_the_model_knows_what_makes_a_kernel_slow() -> None:
    def time(**fields: int) -> float:
        return microseconds(Algorithm(**{**GOOD, "shared_request": 0, **fields}), SPACE)[0]

    assert time(tile_m=64, tile_n=64) > time(), "small tiles copy more for each product"
    assert time(stages=2) >= time(stages=4), "few stages leave latency open"
    assert time(shared_request=100_000) > time(), "one block an SM hides less than two"


def test_registers_grow_with_the_tile_of_a_warp() -> None:
    one = Algorithm(**GOOD, shared_request=0)
    other = Algorithm(**{**GOOD, "warps_m": 4}, shared_request=0)
    assert register_estimate(one, SPACE) > register_estimate(other, SPACE)


def test_a_tile_that_nothing_fits_is_refused_with_numbers() -> None:
    found = problems(kernel("tile: {m: 1024, n: 1024}"))
    assert {problem.clause for problem in found} == {"registers", "register-file", "shared-memory"}
    assert all(any(char.isdigit() for char in problem.message) and problem.fix for problem in found)
