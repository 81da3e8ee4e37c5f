"""CUTLASS's generator, from its wheel on the package index, measured like kgen's. Nothing of it is kept here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Figure, Missing, cpu_of, least, size_of
from kgen.toolchain import cache

WHEEL = "nvidia-cutlass==4.2.0.0"
SELECTIONS = (
    ("CUTLASS generator, sm_80 gemms, all kernels", ("--operations", "gemm", "--kernels", "all")),
    ("CUTLASS generator, sm_80, all operations, default kernels", ("--operations", "all")),
)


def figures(scratch: Path, runs: int) -> Iterator[Figure | Missing]:
    """The generator run on as much text, and on as many files, as kgen's sweep."""
    try:
        generator = _generator()
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode().strip().splitlines() or ["pip failed"]
        yield Missing("CUTLASS generator", lines[-1])
        return
    for what, selection in SELECTIONS:
        out = scratch / "cutlass"
        cpu = least(runs, lambda out=out, selection=selection: _generated(generator, out, selection))  # type: ignore[misc]
        files, size = size_of(out)
        yield Figure(what, cpu, "one short file a kernel: names and enumerations, no kernel text", files, size)


def _generator() -> Path:
    """The folder with the package `cutlass_library`, Python files only."""

    def make(folder: Path) -> None:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), WHEEL]
        subprocess.run(command, check=True, capture_output=True)
        (wheel,) = folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            wanted = [n for n in archive.namelist() if n.startswith("cutlass_library/") and n.count("/") == 1]
            archive.extractall(folder, wanted)
        wheel.unlink()

    return cache.folder("cutlass-generator", cache.key_of(WHEEL), make)


def _generated(generator: Path, out: Path, selection: tuple[str, ...]) -> float:
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    folders = ("--build-dir", str(out), "--curr-build-dir", str(out))
    options = ("--architectures", "80", "--cuda-version", "13.0", "--log-level", "ERROR")
    command = [sys.executable, "-m", "cutlass_library.generator", *selection, *folders, *options]
    return cpu_of(command, out, {**os.environ, "PYTHONPATH": str(generator)})
