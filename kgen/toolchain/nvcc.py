"""NVIDIA's compiler: find it, run it, read what ptxas says.

A system nvcc (PATH, CUDA_HOME) is used where there is one, else the one that `pip install 'kgen[cuda]'` brings.
`-gencode arch=compute_N,code=sm_N` is the form that works for every arch: `-arch=sm_90a` splits the two.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kgen.toolchain import cache

SECONDS = 300
"""Time limit of one compilation."""
WARNINGS = ("-Xcompiler", "-Wall,-Werror", "-Werror", "all-warnings")


@dataclass(frozen=True)
class ToolMissing:
    """A tool that is not there, and how to get it."""

    tool: str
    fix: str


@dataclass(frozen=True)
class Nvcc:
    """A CUDA compiler and the disassembler that goes with it (None: not installed)."""

    path: str
    version: str
    nvdisasm: str | None


@dataclass(frozen=True)
class Resources:
    """What `ptxas -v` reports for one kernel. Bytes, but for registers (32-bit, per thread)."""

    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    static_shared: int


@dataclass(frozen=True)
class Compiled:
    """The outcome of compiling one source file. `errors` is empty where it compiled."""

    ptx: Path
    cubin: Path
    resources: Resources
    hmma: int | None
    """Tensor-core instructions in the machine code; None without nvdisasm."""


@dataclass(frozen=True)
class CompileError:
    """What the compiler printed."""

    text: str


@lru_cache(maxsize=1)
def find() -> Nvcc | ToolMissing:
    """The nvcc to use."""
    for candidate in _candidates():
        if version := _version(candidate):
            return Nvcc(candidate, version, _nvdisasm(candidate))
    return ToolMissing("nvcc", "pip install 'kgen[cuda]', or put nvcc on PATH")


def _candidates() -> list[str]:
    found = [os.environ.get("KGEN_NVCC"), shutil.which("nvcc")]
    if home := os.environ.get("CUDA_HOME"):
        found.append(str(Path(home) / "bin" / "nvcc"))
    found.append(_packaged("nvcc"))
    return [path for path in found if path and Path(path).is_file()]


def _packaged(tool: str) -> str | None:
    """The tool of the nvidia-cuda-* wheels."""
    spec = importlib.util.find_spec("nvidia")
    for place in spec.submodule_search_locations or () if spec else ():
        path = Path(place) / "cu13" / "bin" / tool
        if path.is_file():
            return str(path)
    return None


def _version(nvcc: str) -> str | None:
    try:
        out = subprocess.run([nvcc, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return None
    match = re.search(r"release [\d.]+, V([\d.]+)", out.stdout)
    return match.group(1) if match else None


def _nvdisasm(nvcc: str) -> str | None:
    beside = Path(nvcc).resolve().parent / "nvdisasm"
    return str(beside) if beside.is_file() else _packaged("nvdisasm") or shutil.which("nvdisasm")


def gencode(arch: str) -> list[str]:
    """The flags that make machine code for `arch` (`sm_80`) and nothing else."""
    number = arch.removeprefix("sm_")
    return ["-gencode", f"arch=compute_{number},code=sm_{number}"]


def compile_source(nvcc: Nvcc, source: Path, arch: str) -> Compiled | CompileError:
    """PTX with source lines, a cubin, and its resources, from `source` and the headers beside it; cached."""
    flags = [*gencode(arch), "-std=c++17", "-lineinfo", *WARNINGS]
    headers = b"".join(path.read_bytes() for path in sorted(source.parent.glob("*.h")))
    key = cache.key_of(source.name, source.read_bytes(), headers, nvcc.version, nvcc.nvdisasm or "", " ".join(flags))
    try:
        folder = cache.folder("nvcc", key, lambda scratch: _compile(nvcc, source, flags, scratch))
    except subprocess.CalledProcessError as error:
        return CompileError(error.stderr.strip())
    except subprocess.TimeoutExpired:
        return CompileError(f"nvcc did not finish within {SECONDS} s")
    return _read(folder)


def _compile(nvcc: Nvcc, source: Path, flags: list[str], out: Path) -> None:
    _run([nvcc.path, *flags, "-ptx", "-o", str(out / "kernel.ptx"), str(source)])
    log = _run([nvcc.path, *flags, "-cubin", "-Xptxas", "-v", "-o", str(out / "kernel.cubin"), str(source)])
    (out / "ptxas.log").write_text(log)
    if nvcc.nvdisasm:
        (out / "kernel.sass").write_text(_run([nvcc.nvdisasm, "-c", str(out / "kernel.cubin")], stream="stdout"))


def _run(command: list[str], stream: str = "stderr") -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    return str(getattr(done, stream))


def _read(folder: Path) -> Compiled:
    sass = folder / "kernel.sass"
    hmma = len(re.findall(r"\bHMMA\.", sass.read_text())) if sass.is_file() else None
    return Compiled(
        folder / "kernel.ptx", folder / "kernel.cubin", parse_resources((folder / "ptxas.log").read_text()), hmma
    )


def parse_resources(log: str) -> Resources:
    """The figures in the output of `ptxas -v`, the largest of each where there are several kernels."""

    def largest(pattern: str) -> int:
        return max((int(number) for number in re.findall(pattern, log)), default=0)

    return Resources(
        registers=largest(r"Used (\d+) registers"),
        spill_stores=largest(r"(\d+) bytes spill stores"),
        spill_loads=largest(r"(\d+) bytes spill loads"),
        stack=largest(r"(\d+) bytes stack frame"),
        static_shared=largest(r"(\d+) bytes smem"),
    )
