"""NVIDIA's compiler: find it, run it, read what ptxas says.

A system nvcc (PATH, CUDA_HOME) is used where there is one, else the one that `pip install 'kgen[cuda]'` brings.
`-gencode arch=compute_N,code=sm_N` is the form that works for every arch: `-arch=sm_90a` splits the two.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kgen.toolchain import cache, process

FLAGS = ("-std=c++17", "-Xcompiler", "-Wall,-Werror", "-Werror", "all-warnings")
"""How generated files are compiled here: any warning is an error."""


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

    @property
    def ptxas(self) -> str:
        """The assembler beside it."""
        return str(Path(self.path).with_name("ptxas"))


@dataclass(frozen=True)
class Resources:
    """What `ptxas -v` reports for one kernel. Bytes, but for registers (32-bit, per thread)."""

    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    static_shared: int


@dataclass(frozen=True)
class Assembled:
    """What ptxas made of a kernel's PTX."""

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
        out = process.run([nvcc, "--version"], seconds=60.0)
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


def assemble(nvcc: Nvcc, ptx: Path, arch: str) -> Assembled | CompileError:
    """Machine code from PTX, as nvcc would go on, with `ptxas -v`'s figures; cached."""
    key = cache.key_of(ptx.read_bytes(), nvcc.version, nvcc.nvdisasm or "", arch)
    try:
        folder = cache.folder("ptxas", key, lambda scratch: _assemble(nvcc, ptx, arch, scratch))
    except _ToolError as error:
        return CompileError(str(error))
    sass = folder / "kernel.sass"
    hmma = len(re.findall(r"\bHMMA\.", sass.read_text())) if sass.is_file() else None
    return Assembled(parse_resources((folder / "ptxas.log").read_text()), hmma)


def _assemble(nvcc: Nvcc, ptx: Path, arch: str, out: Path) -> None:
    cubin = out / "kernel.cubin"
    log = _words([nvcc.ptxas, "-v", "--generate-line-info", f"--gpu-name={arch}", "-o", str(cubin), str(ptx)])
    (out / "ptxas.log").write_text(log)
    if nvcc.nvdisasm:
        (out / "kernel.sass").write_text(_words([nvcc.nvdisasm, "-c", str(cubin)]))


class _ToolError(Exception):
    """A tool failed, with what it said."""


def _words(command: list[str]) -> str:
    done = process.run(command)
    if done.code:
        raise _ToolError(done.words)
    return done.stdout + done.stderr


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
