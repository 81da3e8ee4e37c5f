"""Sweeps: names, fields, laziness, places of problems."""

from __future__ import annotations

import itertools
import time

from kgen.spec.digest import kernel_digest
from kgen.spec.document import Document
from kgen.spec.problem import Problem
from kgen.spec.sweep import sweepable
from tests.spec.good_spec import GOOD, document, messages


def swept(sweep: str) -> Document:
    return document(f"{GOOD}sweep:\n{sweep}")


def names(sweep: str) -> list[str]:
    return [kernel.name for kernel in swept(sweep).kernels()]


def test_names_append_what_varies_and_other_targets_are_left_alone() -> None:
    assert names("  targets.0.tile.m: [64, 128]\n  targets.0.stages: [2, 3]\n") == [
        "gemm_sm_80_m64_s2", "gemm_sm_80_m64_s3", "gemm_sm_80_m128_s2", "gemm_sm_80_m128_s3", "gemm_tpu_v5e",
    ]  # fmt: skip


def test_a_list_of_one_varies_nothing() -> None:
    made = list(swept("  targets.0.stages: [4]\n").kernels())
    assert (made[0].name, made[0].algorithm["stages"]) == ("gemm_sm_80", 4)


def test_mappings_are_swept_whole() -> None:
    made = list(swept("  targets.0.tile: [{m: 64, n: 64, k: 32}, {m: 128, n: 64, k: 64}]\n").kernels())
    assert [kernel.name for kernel in made] == ["gemm_sm_80_m64_k32", "gemm_sm_80_m128_k64", "gemm_tpu_v5e"]
    assert made[0].algorithm["tile"] == (("k", 32), ("m", 64), ("n", 64))
    made = list(swept("  targets.0.tile: [{m: 64}, {m: 128}]\n").kernels())
    assert made[0].algorithm["tile"] == (("m", 64),), "a swept mapping replaces the entry's"


def test_words_and_alignments_in_names() -> None:
    orders = "  targets.0.block_order: [{kind: raster}, {kind: grouped, group: 4}]\n"
    assert names(orders)[:2] == ["gemm_sm_80_raster", "gemm_sm_80_grouped_g4"]
    assert names("  targets.0.align: [8, {a: 4, b: 2}]\n")[:2] == ["gemm_sm_80_al8", "gemm_sm_80_al_a4_al_b2"]


def test_one_field_of_a_mapping_keeps_the_others() -> None:
    made = list(swept("  targets.0.tile.k: [16, 64]\n").kernels())
    assert made[1].algorithm["tile"] == (("k", 64), ("m", 128), ("n", 128))


def test_a_problem_of_a_swept_kernel_points_to_its_value_and_names_it() -> None:
    made = swept("  targets.0.tile.m: [64, 128]\n")
    kernel = list(made.kernels())[1]
    problem = Problem(("targets", 0, "tile", "m"), "tile-m", "m = 128", "allowed: 64")
    assert [str(line) for line in made.diagnose([problem], kernel)] == [
        "s.yaml:16:26: tile-m: m = 128 (gemm_sm_80_m128); allowed: 64"
    ]
    other = Problem(("targets", 0, "stages"), "stages", "3")
    assert str(made.diagnose([other], kernel)[0]).startswith("s.yaml:11:58: ")


def test_kernels_are_made_one_at_a_time() -> None:
    values = ", ".join(str(16 * i) for i in range(1, 41))
    made = swept(f"  targets.0.tile.m: [{values}]\n  targets.0.tile.n: [{values}]\n  targets.0.tile.k: [{values}]\n")
    started = time.process_time()
    assert len(list(itertools.islice(made.kernels(), 10))) == 10
    assert time.process_time() - started < 0.1


def test_all_swept_kernels_differ() -> None:
    values = ", ".join(str(i) for i in range(1, 11))
    made = swept(f"  targets.0.tile.m: [{values}]\n  targets.0.tile.n: [{values}]\n  targets.0.stages: [{values}]\n")
    kernels = list(made.kernels())
    assert len({kernel.name for kernel in kernels}) == len({kernel_digest(kernel) for kernel in kernels}) == 1001


def test_only_how_is_swept_never_what() -> None:
    for target in ("cuda", "pallas"):
        assert not {"inputs", "outputs", "arch", "as", "f32_mma", "acc"} & set(sweepable(target))
    lines = messages(f"{GOOD}sweep: {{targets.0.f32_mma: [exact]}}\n")
    assert lines[0].startswith("s.yaml:15:9: sweep-path: cuda has no algorithm field f32_mma; allowed: tile,")


def test_values_are_checked_where_they_stand_whatever_the_entry_says() -> None:
    lines = messages(f"{GOOD}sweep:\n  targets.0.block_order: [{{kind: raster, group: 2}}]\n")
    assert lines == ["s.yaml:16:42: unknown-field: block order raster has no field group; allowed: kind"]


def test_names_of_swept_kernels_clash_too() -> None:
    lines = messages(f"{GOOD.replace('tpu-v5e', 'sm_80, as: gemm_sm_80_m64')}sweep: {{targets.0.tile.m: [64, 128]}}\n")
    assert [line.split(": ")[1] for line in lines] == ["name-clash"]
