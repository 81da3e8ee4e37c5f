"""The repository's own specs load, and between them cover the format."""

from __future__ import annotations

from pathlib import Path

from kgen.spec.kernel import Kernel
from kgen.spec.load import load_all
from kgen.spec.project import find_specs

ROOT = Path(__file__).parents[2]


def kernels() -> list[Kernel]:
    selection = find_specs([ROOT / "specs"], ROOT)
    result = load_all(selection.files, ROOT)
    assert (*selection.diagnostics, *result.diagnostics) == ()
    return [kernel for document in result.documents for kernel in document.kernels() if kernel.signature.op == "gemm"]


def test_they_cover_what_a_gemm_can_be() -> None:
    made = kernels()
    signatures = {kernel.signature.kernel: kernel.signature for kernel in made}
    assert len(signatures) >= 14
    layouts = {(s.operand("a").layout[-2:], s.operand("b").layout[-2:]) for s in signatures.values()}
    assert layouts == {(a, b) for a in ("mk", "km") for b in ("nk", "kn")}
    assert {kernel.signature.operand("a").dtype for kernel in made} == {"bf16", "f16", "f32"}
    assert {kernel.arch for kernel in made} >= {"sm_80", "tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu7x"}
    assert {len(s.outputs) for s in signatures.values()} >= {1, 2}
    assert {extra.layout for s in signatures.values() for extra in s.extras} >= {"", "m", "n", "mn", "bn", "bmn"}
    assert {s.f32_mma for s in signatures.values()} >= {None, "tf32", "exact"}


def test_shapes_are_small_and_aligned_as_promised() -> None:
    for kernel in kernels():
        assert 2 <= len(kernel.verify) <= 4, kernel.name
        for shape in kernel.verify:
            assert max(shape.values()) <= 300, kernel.name
