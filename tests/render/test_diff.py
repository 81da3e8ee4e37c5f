"""Differences of generated files, layer by layer."""

from __future__ import annotations

from kgen.render.diff import LAYERS, diff, layers
from tests.render.outputs import outputs

TWO, THREE = outputs()["gemm_sweep_sm_80_s2.cu"], outputs()["gemm_sweep_sm_80_s3.cu"]


def test_every_generated_source_has_the_four_layers_and_a_header() -> None:
    for name, text in outputs().items():
        if not name.endswith(".h"):
            found = layers(text)
            assert tuple(found) == LAYERS
            assert all(found.values()), name


def test_layers_hold_every_line_but_the_headings() -> None:
    lines = [line for layer in layers(TWO).values() for line in layer]
    assert len(lines) == len(TWO.splitlines()) - 4


def test_another_number_of_stages_changes_constants_and_names_only() -> None:
    found = {part.layer: part for part in diff(TWO, THREE, "two", "three")}
    assert tuple(found) == LAYERS
    assert found["1. tile operators"].lines == ()
    assert found["2. kernel"].lines == ()
    changed = [line for line in found["3. instantiation"].lines if line.startswith(("+ ", "- "))]
    assert "-  static constexpr int stages = 2;  // K tiles in shared memory" in changed
    assert "+  static constexpr int stages = 3;  // K tiles in shared memory" in changed
    assert found["4. client API"].added == found["4. client API"].removed > 0


def test_equal_files_have_empty_layers() -> None:
    assert all(part.lines == () and part.added == part.removed == 0 for part in diff(TWO, TWO, "a", "b"))


def test_added_and_removed_lines_are_counted_without_the_names() -> None:
    text = "// ======== 2. kernel ========\na\nb\n"
    found = {part.layer: part for part in diff(text, text.replace("b\n", "++x\n--y\n"), "old", "new")}
    kernel = found["2. kernel"]
    assert (kernel.added, kernel.removed) == (2, 1)
    assert kernel.lines[:2] == ("--- old", "+++ new")


def test_layers_line_up_between_targets() -> None:
    cuda, pallas = outputs()["gemm_batch_sm_80.cu"], outputs()["gemm_batch_tpu_v4.py"]
    assert [part.layer for part in diff(cuda, pallas, "cuda", "pallas")] == list(LAYERS)


def test_text_that_looks_like_a_heading_is_none() -> None:
    text = '// ======== 5. other ========\nconst char *s = "// ======== 2. kernel ========";\n'
    assert layers(text)["header"] == text.splitlines()
