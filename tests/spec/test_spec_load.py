"""Good specs become kernels; layers go on where they can; names are unique."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kgen.arch import TARGETS
from kgen.ops import OPS
from kgen.spec.kernel import Operand
from kgen.spec.load import collisions, load, load_all, load_bytes
from kgen.spec.models import ALGORITHMS, ENTRIES
from kgen.spec.problem import Problem
from kgen.spec.vocabulary import ALIASES, OP_DTYPES, TARGET_FACTS, all_archs
from tests.spec.good_spec import GOOD, changed, document, messages

PRODUCT = (("a: {dtype: bf16", "a: {dtype: f32"), ("b: {dtype: bf16", "b: {dtype: f32"))


def test_kernels_of_a_good_spec() -> None:
    sm_80, tpu = document(GOOD).kernels()
    assert (sm_80.name, sm_80.target, sm_80.arch, sm_80.path) == ("gemm_sm_80", "cuda", "sm_80", ("targets", 0))
    assert sm_80.algorithm == {"stages": 3, "tile": (("k", 32), ("m", 128), ("n", 128))}
    assert (tpu.name, tpu.target, tpu.algorithm) == ("gemm_tpu_v5e", "pallas", {})
    assert sm_80.signature is not None
    assert sm_80.signature.operand("bias") == Operand("bias", "f32", "n")
    assert sm_80.signature.outputs[0].value.names == ("acc", "bias")
    assert sm_80.verify == ({"m": 128, "n": 128, "k": 64},)
    assert (sm_80.spec, sm_80.swept, sm_80.header) == ("s.yaml", (), ())


def test_a_value_left_out_is_acc() -> None:
    made = document(changed((", value: acc + bias", ""), ("  bias: {dtype: f32, layout: n}\n", "")))
    assert [output.value.source for output in next(made.kernels()).signature.outputs] == ["acc"]


def test_overrides_are_one_targets_own() -> None:
    spec = changed(
        *PRODUCT,
        ("stages: 3}", "stages: 3, f32_mma: tf32, inputs: {b: {layout: kn}}}"),
        ("{arch: tpu-v5e}", '{arch: tpu-v5e, f32_mma: exact, outputs: {c: {dtype: f32, value: "acc - bias"}}}'),
    )
    sm_80, tpu = (kernel.signature for kernel in document(spec).kernels())
    assert (sm_80.f32_mma, tpu.f32_mma) == ("tf32", "exact")
    assert (sm_80.operand("b").layout, tpu.operand("b").layout) == ("kn", "nk")
    assert (sm_80.outputs[0].dtype, tpu.outputs[0].dtype) == ("bf16", "f32")
    assert (sm_80.outputs[0].value.source, tpu.outputs[0].value.source) == ("acc + bias", "acc - bias")


def test_f32_mma_of_the_document_serves_only_targets_with_f32() -> None:
    half = "inputs: {a: {dtype: bf16}, b: {dtype: bf16}}"
    spec = changed(*PRODUCT, ("stages: 3}", f"stages: 3, {half}}}"), ("op: gemm", "op: gemm\nf32_mma: exact"))
    assert [kernel.signature.f32_mma for kernel in document(spec).kernels()] == [None, "exact"]


def test_batched_kernels() -> None:
    spec = changed(("layout: mk", "layout: bmk"), ("layout: mn", "layout: bmn"), ("- {m: 128", "- {b: 2, m: 128"))
    assert next(document(spec).kernels()).signature.batched


def test_every_error_of_every_layer_in_one_run_in_order_of_place() -> None:
    spec = changed(
        ("kernel: gemm", "kernel: on"), ("acc + bias", "acc + bais"), ("stages: 3", "stages: 3, stages: 4, tyle: {}"),
        ("tpu-v5e", "tpu-v5x"), ("k: 64", "kk: 64"),
    )  # fmt: skip
    clauses = [line.split(": ")[1] for line in messages(spec)]
    assert clauses == [
        "yaml-trap",
        "expression",
        "duplicate-key",
        "unknown-field",
        "unknown-arch",
        "missing-dim",
        "unknown-dim",
    ]


def test_a_guess_after_a_reported_error_makes_no_further_errors() -> None:
    assert len(messages(changed(("layout: n}", "layout: no}")))) == 1
    assert len(messages(changed(("stages: 3", "stages: 1_0")))) == 1


def test_later_items_keep_their_places_when_earlier_ones_are_broken() -> None:
    spec = changed(("  - {m: 128, n: 128, k: 64}", "  - {m: x, n: 128, k: 64}\n  - {m: 128, n: 128}"))
    assert [line.split(": ")[0] for line in messages(spec)] == ["s.yaml:14:9", "s.yaml:15:5"]
    spec = changed(("arch: sm_80,", "arch: sm_81,"), ("tpu-v5e}", "tpu-v5e, as: while}"))
    assert [line.split(": ")[0] for line in messages(spec)] == ["s.yaml:11:12", "s.yaml:12:25"]


def test_problems_of_a_plan_are_placed_and_ordered() -> None:
    made = document(GOOD)
    problems = [
        Problem(("targets", 1, "tile", "m"), "late", "not in the file"),
        Problem(("targets", 0, "tile", "m"), "early", "in the file", "allowed: 64"),
        Problem(("targets", 0, "tile", "m"), "early", "in the file", "allowed: 64"),
    ]
    assert [str(line) for line in made.diagnose(problems)] == [
        "s.yaml:11:29: early: in the file; allowed: 64",
        "s.yaml:12:5: late: not in the file",
    ]
    assert made.diagnose(problems)[0].to_json() == {
        "file": "s.yaml", "line": 11, "col": 29, "clause": "early", "message": "in the file", "fix": "allowed: 64",
    }  # fmt: skip


def test_names_are_unique_over_documents() -> None:
    first, second = document(GOOD), load_bytes(GOOD.encode(), "t.yaml").documents[0]
    texts = [str(line) for line in collisions([first, second])]
    assert texts[0] == "t.yaml:2:9: name-clash: kernel gemm is already made by s.yaml:2; choose another name"
    assert texts[1] == "t.yaml:11:5: name-clash: gemm_sm_80 is already made by s.yaml:11; name one of them with as:"
    third = load_bytes(changed(("kernel: gemm", "kernel: other")).encode(), "u.yaml").documents[0]
    assert collisions([first, third]) == []


def test_load_all_reports_clashes_and_unreadable_files(tmp_path: Path) -> None:
    for name in ("x.yaml", "y.yaml"):
        (tmp_path / name).write_text(GOOD)
    result = load_all([tmp_path / "x.yaml", tmp_path / "y.yaml", tmp_path / "none.yaml"], tmp_path)
    clauses = [diagnostic.clause for diagnostic in result.diagnostics]
    assert clauses == ["unreadable", "name-clash", "name-clash", "name-clash"]
    assert load(tmp_path / "x.yaml", tmp_path).documents[0].file == "x.yaml"


@pytest.mark.parametrize("target", TARGETS)
def test_each_target_has_its_tables(target: str) -> None:
    assert target in ALGORITHMS
    assert target in ENTRIES
    assert set(TARGET_FACTS[target].f32_mma) == {"exact", "tf32", "bf16x3"}
    assert "" in TARGET_FACTS[target].f32_mma.values()


def test_tables_agree() -> None:
    assert OP_DTYPES.keys() == OPS.keys()
    words = {*all_archs(), *OPS, *TARGETS, *(dtype for op in OP_DTYPES.values() for dtype in op.every)}
    assert set(ALIASES.values()) <= words


def test_kernels_need_neither_pydantic_nor_yaml() -> None:
    code = "import sys, kgen.spec.kernel, kgen.spec.problem; sys.exit(bool({'pydantic', 'yaml'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=False).returncode == 0


def test_loading_needs_neither_numpy_nor_jax() -> None:
    code = "import sys, kgen.spec.load, kgen.spec.lock; sys.exit('numpy' in sys.modules or 'jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=False).returncode == 0
