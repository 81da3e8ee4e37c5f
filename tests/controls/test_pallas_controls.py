"""Broken Pallas kernels, each caught by the rung of the ladder that is meant to."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kgen.plan import PallasPlan, plan_kernel
from kgen.render.files import render, source_path
from kgen.spec.load import load_bytes
from kgen.toolchain.jax_env import MissingTool, compiler_versions
from kgen.verify.inputs import WILD, ZERO
from kgen.verify.ladder import Subject, verify
from kgen.verify.record import Record, Status
from kgen.verify.shapes import Case
from tests.controls.workbench import Edit, edited, swap

pytestmark = pytest.mark.skipif(isinstance(compiler_versions(), MissingTool), reason="libtpu is not installed")

SPEC = """\
kgen: 1
kernel: exact
op: gemm
inputs:
  a: {dtype: f32, layout: mk}
  b: {dtype: f32, layout: nk}
  bias: {dtype: f32, layout: n}
  alpha: {dtype: f32}
outputs:
  c: {dtype: f32, layout: mn, value: "max(alpha * acc, bias)"}
f32_mma: exact
targets:
  - {arch: tpu-v5e, tile: {m: 128, n: 128, k: 128}}
"""
WHOLE = (("m", 128), ("n", 128), ("k", 128))
CASES = tuple(Case(WHOLE, "one tile", draw=draw) for draw in ("tame", WILD, ZERO))


def climbed(edits: Sequence[Edit]) -> Record:
    """The record of the kernel with these edits."""
    loaded = load_bytes(SPEC.encode(), "specs/control.yaml")
    assert loaded.diagnostics == ()
    kernel = next(loaded.documents[0].kernels())
    plan = plan_kernel(kernel)
    assert isinstance(plan, PallasPlan), plan
    source = edited(render([plan])[source_path(plan)], edits)
    return verify(Subject(kernel, plan, source), only=CASES)


def test_the_unbroken_kernel_passes() -> None:
    record = climbed([])
    assert [rung.failures for rung in record.rungs] == [()] * 4


@pytest.mark.verify_all
@pytest.mark.parametrize(
    ("edit", "rung", "words"),
    [
        (swap("lax.Precision.HIGHEST", "lax.Precision.DEFAULT"), "compile", "all must be HIGHEST"),
        (swap("lax.Precision.HIGHEST", "None"), "compile", "all must be HIGHEST"),
        (swap("if array.dtype != dtype:", "if False:"), "execute", "not refused with ValueError: dtype"),
        (swap("if array.ndim != len(dims):", "if array.ndim < len(dims):"), "execute", "ValueError: rank"),
        (swap("!= size:", "> size:"), "execute", "not refused with ValueError: shape"),
        (swap("jnp.maximum(", "jnp.fmax("), "execute", "(wild)"),
    ],
    ids=["precision-default", "precision-none", "dtype", "rank", "shape", "maximum-drops-nan"],
)
def test_broken_kernels_fail_at_their_rung(edit: Edit, rung: str, words: str) -> None:
    record = climbed([edit])
    assert record.rung(rung).status is Status.FAILED
    assert any(words in failure for failure in record.rung(rung).failures)
