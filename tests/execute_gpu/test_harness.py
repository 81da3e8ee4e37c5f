# ruff: noqa: E501 (PTX text)
"""Child processes, buffers, the host side of launches, and kernels built by nvcc."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from snippets import entry, write

from kgen.execute.gpu.harness import (
    BufferSpec,
    BuildError,
    Call,
    Crash,
    Field,
    KernelLaunch,
    Outcome,
    Pointer,
    Run,
    build_launcher,
    emit_ptx,
    execute,
    struct_size,
)

SM80 = ("-gencode", "arch=compute_80,code=sm_80")
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")

COPY = """.reg .b64 %m, %x; .reg .b32 %r; mul.wide.u32 %x, %t, 4; add.u64 %m, %q0, %x; ld.global.b32 %r, [%m];
add.u64 %m, %q1, %x; st.global.b32 [%m], %r;"""


def launch(*pointers: Pointer, block: int = 32) -> KernelLaunch:
    return KernelLaunch("k", tuple(Field("ptr", p) for p in pointers), (1,), (block,))


@pytest.fixture(scope="module")
def copy_ptx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spin = entry("spin", "TOP: bra TOP;")
    return write(tmp_path_factory.mktemp("ptx") / "copy.ptx", entry("k", COPY, 2) + spin)


def outcome(result: Outcome | Crash) -> Outcome:
    assert isinstance(result, Outcome), result
    return result


def test_a_far_window_of_a_sparse_buffer(copy_ptx: Path) -> None:
    far = (1 << 33) + (1 << 20)
    data = np.arange(32, dtype=np.uint32)
    buffers = (
        BufferSpec("a", far + 128, ((far, data),), background=None, writable=False),
        BufferSpec("b", far + 128, background=None),
    )
    run = Run((launch(Pointer("a", far), Pointer("b", far)),), buffers, (("b", far, 128), ("b", far - 64, 64)))
    result = outcome(execute(None, copy_ptx, [run], memory_bytes=1 << 29)[0])
    assert result.clean
    assert (result.reads[0].view(np.uint32) == data).all()
    assert not result.reads[1].any()


def test_bounds_alignment_and_read_only_buffers(copy_ptx: Path) -> None:
    data = np.arange(32, dtype=np.uint32)
    good = BufferSpec.of("a", data)
    cases = {
        "out-of-bounds": (good, BufferSpec("b", 124)),
        "misaligned": (good, BufferSpec("b", 128, offset=2)),
        "read-only": (good, BufferSpec("b", 128, writable=False)),
    }
    runs = [Run((launch(Pointer("a"), Pointer("b")),), buffers) for buffers in cases.values()]
    for kind, result in zip(cases, execute(None, copy_ptx, runs), strict=True):
        assert [f.kind for f in outcome(result).findings] == [kind]
        assert not result.clean


def test_a_hang_is_a_crash_and_later_runs_go_on(copy_ptx: Path) -> None:
    data = np.arange(32, dtype=np.uint32)
    good = Run(
        (launch(Pointer("a"), Pointer("b")),), (BufferSpec.of("a", data), BufferSpec("b", 128)), (("b", 0, 128),)
    )
    hang = Run((KernelLaunch("spin", (), (1,), (32,)),))
    unknown = Run((KernelLaunch("nothing", (), (1,), (32,)),))
    before, stuck, missing, after = execute(None, copy_ptx, [good, hang, unknown, good], timeout_s=1.5)
    assert isinstance(stuck, Crash) and stuck.kind == "timeout"
    assert isinstance(missing, Crash) and missing.kind == "error" and "no kernel 'nothing'" in missing.message
    for result in (before, after):
        assert (outcome(result).reads[0].view(np.uint32) == data).all()


def test_memory_limit(copy_ptx: Path) -> None:
    run = Run((KernelLaunch("spin", (), (1,), (32,)),), (BufferSpec("a", 1 << 30),))
    result = execute(None, copy_ptx, [run], memory_bytes=300 << 20)[0]
    assert isinstance(result, Crash) and result.kind == "memory"


def test_struct_layout() -> None:
    fields = (Field("u32", 1), Field("i64", 2), Field("f32", 1.0), Field("ptr", Pointer("a")), Field("u32", 1))
    assert struct_size(fields) == 40


# ---- the host side

SOURCE = r"""
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdlib>
struct args { uint32_t struct_size; int64_t n; const float *x; float *y; float alpha; int32_t grid, block, shared; int32_t mode; };
__constant__ float shift[2] = {0.5f, 0.25f};
__global__ void scale(const float *x, float *y, int64_t n, float alpha) {
  __shared__ float tile[128];
  extern __shared__ float more[];
  int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  tile[threadIdx.x] = i < n ? x[i] : 0.f;
  if (alpha == 7.f) more[threadIdx.x] = 1.f;
  __syncthreads();
  if (i < n) y[i] = alpha * tile[threadIdx.x] + shift[1];
}
__global__ void off_by_one(const float *x, float *y, int64_t n, float alpha) {
  int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i <= n)
    y[i] = alpha * x[i < n ? i : 0];
}
extern "C" int32_t run(const args *a) {
  if (a->mode == 1) { cudaError_t e = cudaFuncSetAttribute(scale, cudaFuncAttributeMaxDynamicSharedMemorySize, a->shared); if (e) return e; }
  if (a->mode == 2) off_by_one<<<a->grid, a->block, a->shared, nullptr>>>(a->x, a->y, a->n, a->alpha);
  else scale<<<a->grid, a->block, a->shared, nullptr>>>(a->x, a->y, a->n, a->alpha);
  return cudaGetLastError();
}
extern "C" int32_t check(const args *a, const char **clause) {
  int major = 0, odd = 0;
  if (a->mode == 5) return cudaDeviceGetAttribute(&odd, (cudaDeviceAttr)200, 0);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  if (major < 8) { *clause = "arch: compute capability 8.0 or newer"; return 3; }
  return 0;
}
extern "C" uint64_t workspace(const args *a) { return uint64_t(a->n) << 33; }
extern "C" int32_t crash(const args *a) { *(volatile int *)8 = 1; return 0; }
extern "C" int32_t leave(const args *a) { exit(3); }
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("cuda")
    source = folder / "scale.cu"
    source.write_text(SOURCE)
    library = build_launcher(source, folder, ("nvcc",), SM80)
    return library, library.with_suffix(".ptx")


N = 1000
X = np.random.default_rng(0).standard_normal(N).astype(np.float32)


def call(
    symbol: str = "run", *, grid: int = 8, block: int = 128, shared: int = 0, mode: int = 0, **keywords: object
) -> Call:
    fields = (
        Field("u32", 72), Field("i64", N), Field("ptr", Pointer("x")), Field("ptr", Pointer("y")), Field("f32", 3.0),
        Field("i32", grid), Field("i32", block), Field("i32", shared), Field("i32", mode),
    )  # fmt: skip
    return Call(symbol, fields, **keywords)  # type: ignore[arg-type]


def with_buffers(*calls: Call, arch: str = "sm_80") -> Run:
    buffers = (BufferSpec.of("x", X, writable=False), BufferSpec("y", X.nbytes))
    return Run(calls, buffers, (("y", 0, X.nbytes),), arch=arch)


@needs_nvcc
def test_the_launcher_runs(built: tuple[Path, Path]) -> None:
    run = with_buffers(call("check", clause=True), call(), call("workspace", returns="u64"))
    result = outcome(execute(*built, [run])[0])
    assert result.findings == ()
    assert result.returned == (0, 0, N << 33)
    assert result.clauses == (None, None, None)
    fused = (3 * X.astype(np.float64) + 0.25).astype(np.float32)
    assert (result.reads[0].view(np.float32) == fused).all()
    assert result.counters["launches"] == 1 and result.counters["call.cudaLaunchKernel"] == 1


@needs_nvcc
def test_ptx_alone(built: tuple[Path, Path], tmp_path: Path) -> None:
    source = built[0].with_suffix(".cu")
    assert emit_ptx(source, tmp_path, ("nvcc",), SM80).read_text() == built[1].read_text()


@needs_nvcc
def test_an_older_device_is_refused(built: tuple[Path, Path]) -> None:
    run = with_buffers(call("check", clause=True), call(), arch="sm_75")
    result = outcome(execute(*built, [run])[0])
    assert result.returned == (3, 209)
    assert result.clauses[0] == "arch: compute capability 8.0 or newer"
    assert [f.kind for f in result.findings] == ["no-kernel-image"]


@needs_nvcc
def test_launch_validation(built: tuple[Path, Path]) -> None:
    cases = [
        (call(grid=0), 9, "zero-launch"),
        (call(block=0), 9, "zero-launch"),
        (call(block=1025), 9, "launch-limit"),
        (call(shared=49152), 1, "shared-limit"),
        (call(mode=1, shared=163 * 1024), 1, "shared-limit"),
        (call("check", mode=5, clause=True), 1, "unknown-attribute"),
    ]
    results = execute(*built, [with_buffers(c) for c, _, _ in cases])
    for result, (_, code, kind) in zip(results, cases, strict=True):
        assert outcome(result).returned == (code,), kind
        assert [f.kind for f in result.findings] == [kind]
    good = outcome(execute(*built, [with_buffers(call(mode=1, shared=100 * 1024), call())])[0])
    assert good.returned == (0, 0) and good.findings == ()


@needs_nvcc
def test_findings_name_the_source_line(built: tuple[Path, Path]) -> None:
    result = outcome(execute(*built, [with_buffers(call(mode=2))])[0])
    (finding,) = result.findings
    line = next(i for i, text in enumerate(SOURCE.splitlines(), 1) if "y[i] = alpha * x" in text)
    assert finding.source is not None and finding.source.endswith(f"scale.cu:{line}")
    assert "y+4000 (y has 4000 bytes)" in finding.message
    assert (finding.block, finding.warp, finding.lane) == ((7, 0, 0), 3, 8)


@needs_nvcc
def test_crashes_are_isolated(built: tuple[Path, Path]) -> None:
    crash, leave, missing, good = execute(
        *built,
        [with_buffers(call("crash")), with_buffers(call("leave")), with_buffers(call("nothing")), with_buffers(call())],
    )
    assert isinstance(crash, Crash) and crash.kind == "signal" and "SIGSEGV" in crash.message
    assert isinstance(leave, Crash) and leave.kind == "exit" and "3" in leave.message
    assert isinstance(missing, Crash) and missing.kind == "error" and "nothing" in missing.message
    assert outcome(good).clean


@needs_nvcc
def test_what_the_stand_in_lacks_fails_at_link_time(tmp_path: Path) -> None:
    source = tmp_path / "graph.cu"
    source.write_text('#include <cuda_runtime.h>\nextern "C" int f() { return cudaDeviceReset(); }\n')
    with pytest.raises(BuildError, match="cudaDeviceReset"):
        build_launcher(source, tmp_path, ("nvcc",), SM80)
