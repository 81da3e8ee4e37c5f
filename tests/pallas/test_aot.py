"""Ahead-of-time compilation: every generation, the linter and its controls, VMEM, the cache, absent tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
from builders import ALPHA, BIAS, GELU, kernel, planned, text

from kgen.arch import TPU_ARCHS
from kgen.spec.kernel import Kernel, Operand
from kgen.toolchain import jax_aot, jax_env
from kgen.toolchain.child import ChildError
from kgen.toolchain.jax_aot import AotRequest, AotResult, Argument, compile_all
from kgen.toolchain.jax_env import MissingTool

ROW = Operand("row", "f32", "m")
RESIDUAL = Operand("residual", "bf16", "mn")


def full(arch: str, dtype: str = "bf16", layouts: tuple[str, str] = ("mk", "nk")) -> Kernel:
    """A kernel with every kind of operand and two outputs."""
    outputs = (GELU, ("wide", "f32", "erf(acc) * row + residual"))
    extras = (BIAS, ALPHA, replace(ROW, dtype=dtype), RESIDUAL)
    return kernel(arch, dtype, layouts, extras, outputs, (128, 128, 128))


def request(of: Kernel, sizes: tuple[int, int, int], ragged: bool, source: str | None = None) -> AotRequest:
    dims = dict(zip("mnk", sizes, strict=True))
    arguments = tuple(Argument(tuple(dims[dim] for dim in o.layout), o.dtype) for o in of.signature.inputs)
    return AotRequest(source or text(of), of.name, arguments, of.arch, ragged)


def compiled(requests: Sequence[AotRequest]) -> list[AotResult]:
    results = compile_all(requests)
    assert isinstance(results, tuple)
    assert all(isinstance(result, AotResult) for result in results), results
    return [result for result in results if isinstance(result, AotResult)]


def test_every_generation_compiles_and_the_linter_is_silent() -> None:
    kernels = [full(arch) for arch in TPU_ARCHS] + [full("tpu-v6e", "f32", ("km", "kn"))]
    shapes = (((256, 256, 384), False), ((200, 136, 300), True))
    asked = [(of, request(of, sizes, ragged)) for of in kernels for sizes, ragged in shapes]
    for (of, what), result in zip(asked, compiled([what for _, what in asked]), strict=True):
        assert result.ok, (of.arch, what.ragged, result.lint, result.error)
        assert ("vmem_poison_use" in result.lint_targets) is not what.ragged
        assert result.vmem_bytes is not None
        assert 0 < result.vmem_bytes <= planned(of).vmem_bytes


def test_controls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Broken kernels that only the compiler and its linter see before a device does."""
    monkeypatch.setenv("KGEN_CACHE", str(tmp_path))
    of = full("tpu-v5e")
    source = text(of)
    uninitialised = source.replace("fill(acc, 0.0)", "pass")
    small = source.replace("TILE_N: Final = 128", "TILE_N: Final = 64")
    greedy = source.replace(" << 20", " << 12")
    assert len({source, uninitialised, small, greedy}) == 4
    wide = kernel("tpu-v5e", tile=(128, 1024, 128))
    placed = text(wide).replace("array if interpret else pltpu.with_memory_space_constraint(array, pltpu.HBM)", "array")
    assert placed != text(wide)
    asked = [request(of, (256, 256, 256), False, each) for each in (uninitialised, small, greedy)]
    lint, block, vmem, bounds = compiled([*asked, request(wide, (129, 1025, 136), True, placed)])
    assert lint.compiled
    assert lint.lint[0].startswith("vmem_poison_use: Poisoned Vmem value use detected")
    assert bounds.lint[0].startswith("bounds_check: Memory access out of bounds")
    assert not block.compiled
    assert "last two dimensions of your block shape are divisible by 8 and 128" in block.error
    assert not vmem.compiled
    assert "RESOURCE_EXHAUSTED" in vmem.error


def test_results_are_cached_by_text_and_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KGEN_CACHE", str(tmp_path))
    of = kernel(extras=(), outputs=[("c", "bf16", "acc")])
    what = request(of, (128, 128, 128), False)
    (first,) = compiled([what])
    compiler = ChildError("crash", "asked the compiler")
    monkeypatch.setattr(jax_aot, "run", lambda function, items, *limits: [compiler for _ in items])
    others = (replace(what, text=what.text + "\n"), replace(what, arch="tpu-v5e"), replace(what, ragged=True))
    assert compile_all([what, *others]) == (first, compiler, compiler, compiler)
    assert compile_all([what], cached=False) == (compiler,)
    monkeypatch.setattr(jax_aot, "compiler_versions", lambda: {"jax": "another"})
    assert compile_all([what]) == (compiler,)


def test_absent_tools_are_an_error_that_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(package: str) -> str:
        if package == "libtpu":
            raise metadata.PackageNotFoundError(package)
        return "1"

    monkeypatch.setattr(jax_env.metadata, "version", version)
    missing = compile_all([])
    assert isinstance(missing, MissingTool)
    assert missing.message == "libtpu not installed; pip install 'kgen[pallas]'"
