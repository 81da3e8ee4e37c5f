"""A peer's kernel, unmodified, with its own host program: CUTLASS's CuTe tutorial GEMM for Ampere."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from kgen.execute.gpu.harness import Main, Outcome, Run, build_launcher, execute
from kgen.execute.gpu.ptx.library import engine_key
from kgen.toolchain import cache

WHEEL = "nvidia-cutlass==4.2.0.0"
PREFIX = "cutlass_library/source"
NEEDED = (f"{PREFIX}/include/", f"{PREFIX}/tools/util/include/", f"{PREFIX}/examples/cute/tutorial/sgemm_sm80.cu")
SM80 = ("-gencode", "arch=compute_80,code=sm_80")


def cutlass() -> Path:
    """CUTLASS's sources from its wheel on the package index, unpacked in the cache."""

    def make(folder: Path) -> None:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), WHEEL]
        subprocess.run(command, check=True)
        (wheel,) = folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if name.startswith(NEEDED)])
        wheel.unlink()

    return cache.folder("cutlass", cache.key_of(WHEEL), make) / PREFIX


@pytest.fixture(scope="module")
def program() -> tuple[Path, Path]:
    root = cutlass()
    extra = ("-std=c++17", "-w", f"-I{root}/include", f"-I{root}/tools/util/include", "--expt-relaxed-constexpr")
    source = root / "examples/cute/tutorial/sgemm_sm80.cu"

    def make(folder: Path) -> None:
        build_launcher(source, folder, ("nvcc",), SM80, extra=(*extra, "-Dmain=emu_main"), device_properties=True)

    built = cache.folder("cutlass-built", cache.key_of(WHEEL, engine_key()), make)
    return built / "sgemm_sm80.so", built / "sgemm_sm80.ptx"


@pytest.mark.verify_all
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("mode", ["eager", "late"])
@pytest.mark.parametrize(("m", "n", "k"), [(256, 128, 128), (128, 384, 192)])
def test_sgemm_sm80(program: tuple[Path, Path], m: int, n: int, k: int, mode: str) -> None:
    arguments = (str(m), str(n), str(k), "T", "N")  # the only layout it implements for f16
    run = Run((Main(arguments),), mode=mode, record_copies=True)  # type: ignore[arg-type]
    (result,) = execute(*program, [run], timeout_s=300)
    assert isinstance(result, Outcome), result
    assert result.returned == (0,) and result.findings == (), result.output
    halves = [np.frombuffer(data, np.float16).astype(np.float64) for _, data in result.copies]
    a, b, c = halves[0], halves[1], halves[-1]
    a, b = a.reshape(m, k), b.reshape(n, k)
    reference = a @ b.T
    bound = 2.0**-11 * (np.abs(a) @ np.abs(b).T) * (k / 16 + 2)  # f16 accumulators: one rounding each 16 products
    assert (np.abs(c.reshape(n, m).T - reference) <= bound).all()
