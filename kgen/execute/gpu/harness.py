"""Running a kernel and its host launcher on the CPU.

A *run* is a list of calls on fresh buffers. Calls go to the launcher's own C functions (built by nvcc against a
stand-in for the CUDA runtime), to a kernel by name, or to a program's ``main``. Runs execute in a child process; one
that crashes, hangs or takes too much memory gives a `Crash`, and the runs after it continue in a new child."""

from __future__ import annotations

import shutil
import struct
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from kgen.execute.gpu.buffers import BufferSpec
from kgen.execute.gpu.findings import Finding, errors
from kgen.toolchain import process

__all__ = [
    "BufferSpec", "BuildError", "Call", "Crash", "Field", "Finding", "KernelLaunch", "Main", "Outcome", "Pointer",
    "Run", "build_launcher", "emit_ptx", "errors", "execute", "pack_struct", "struct_size",
]  # fmt: skip

FieldKind = Literal["i64", "u64", "i32", "u32", "f32", "f64", "ptr", "bytes"]
_FORMATS = {"i64": "q", "u64": "Q", "i32": "i", "u32": "I", "f32": "f", "f64": "d", "ptr": "Q"}


@dataclass(frozen=True)
class Pointer:
    """The address of a buffer plus a byte offset."""

    buffer: str
    byte_offset: int = 0


@dataclass(frozen=True)
class Field:
    """A member of a C struct or a kernel parameter.

    ``ptr`` takes a `Pointer`, None (null) or an integer; ``bytes`` takes raw bytes, aligned to ``align``.
    """

    kind: FieldKind
    value: int | float | Pointer | bytes | None
    align: int = 8


@dataclass(frozen=True)
class Call:
    """A call of a C function of the launcher: a pointer to a struct of the fields, laid out with natural alignment.

    Attributes:
        symbol: the function.
        fields: members of the struct, in order.
        returns: its return type.
        clause: whether a second argument ``const char **`` is passed; what it points to is returned as text.
    """

    symbol: str
    fields: tuple[Field, ...]
    returns: Literal["i32", "u64"] = "i32"
    clause: bool = False


@dataclass(frozen=True)
class KernelLaunch:
    """A launch of a kernel by its name in the PTX, past any host code and its checks. Sizes in blocks, threads and
    bytes."""

    entry: str
    params: tuple[Field, ...]
    grid: tuple[int, ...]
    block: tuple[int, ...]
    dynamic_shared: int = 0


@dataclass(frozen=True)
class Main:
    """A call of a program's main function (built with ``-Dmain=<symbol>``)."""

    argv: tuple[str, ...] = ()
    symbol: str = "emu_main"


@dataclass(frozen=True)
class Run:
    """Calls on fresh buffers.

    Attributes:
        calls: executed in order.
        buffers: mapped before the first call.
        read: (buffer, byte offset, bytes) windows returned after the last call.
        mode: ``eager``, or ``late``: asynchronous copies land at the wait that covers them, or never.
        seed: permutes the order of blocks and warps; 0 is the natural order. Equal seeds give equal results.
        arch: the emulated device.
        shared_poison: byte that fills shared memory when a block starts.
        max_findings: distinct findings after which execution stops.
        record_copies: keep what ``cudaMemcpy`` moved between host and device (for programs that own their buffers).
    """

    calls: tuple[Call | KernelLaunch | Main, ...]
    buffers: tuple[BufferSpec, ...] = ()
    read: tuple[tuple[str, int, int], ...] = ()
    mode: Literal["eager", "late"] = "eager"
    seed: int = 0
    arch: str = "sm_80"
    shared_poison: int = 0xFF
    max_findings: int = 32
    record_copies: bool = False


@dataclass(frozen=True)
class Outcome:
    """A run that finished.

    Attributes:
        returned: return value of each call (0 for a `KernelLaunch`).
        clauses: text of each call's second argument, None where it has none or it stayed null.
        reads: the windows asked for, as uint8 arrays.
        findings: what went wrong; empty is good.
        counters: executed warp instructions by kind, ``launches``, and ``call.<runtime function>``.
        copies: (``to device`` or ``from device``, bytes) of each recorded copy.
        output: what the run wrote to its standard output and error.
        cpu_seconds: processor time of the calls.
    """

    returned: tuple[int, ...]
    clauses: tuple[str | None, ...]
    reads: tuple[npt.NDArray[np.uint8], ...]
    findings: tuple[Finding, ...]
    counters: Mapping[str, int]
    copies: tuple[tuple[str, bytes], ...] = ()
    output: str = ""
    cpu_seconds: float = 0.0

    @property
    def clean(self) -> bool:
        """No finding is an error."""
        return not errors(self.findings)


@dataclass(frozen=True)
class Crash:
    """A run that did not finish.

    ``kind`` is ``signal``, ``timeout``, ``memory``, ``exit`` or ``error`` (the run could not be set up: a missing
    symbol, an unknown kernel, an unsupported instruction)."""

    kind: Literal["signal", "timeout", "memory", "exit", "error"]
    message: str
    output: str = ""
    findings: tuple[Finding, ...] = field(default=())

    clean: bool = field(default=False, init=False)


def execute(
    library: Path | None,
    ptx: Path,
    runs: Sequence[Run],
    *,
    timeout_s: float = 60.0,
    memory_bytes: int = 4 << 30,
) -> tuple[Outcome | Crash, ...]:
    """Execute runs in child processes, one child for as many runs as survive.

    Args:
        library: the launcher (`build_launcher`); None when all calls are kernel launches.
        ptx: the device code.
        runs: the runs, each on its own buffers.
        timeout_s: wall-clock limit of one run.
        memory_bytes: limit of the child's resident memory.

    Returns:
        One result for each run, in order.
    """
    from kgen.execute.gpu.process import run_all

    return run_all(library, ptx, runs, timeout_s=timeout_s, memory_bytes=memory_bytes)


def pack_struct(fields: Sequence[Field], addresses: Mapping[str, int]) -> bytes:
    """Bytes of a C struct with natural alignment; ``addresses`` are those of the buffers.

    Raises:
        KeyError: a pointer names no buffer.
    """
    data, most = b"", 1
    for item in fields:
        value = _field_bytes(item, addresses)
        align = item.align if item.kind == "bytes" else len(value)
        most = max(most, align)
        data = data.ljust(-(-len(data) // align) * align, b"\0") + value
    return data.ljust(-(-len(data) // most) * most, b"\0")


def pack_params(fields: Sequence[Field], addresses: Mapping[str, int]) -> bytes:
    """Bytes of a kernel's parameter space: as a struct, without the padding at its end."""
    data = b""
    for item in fields:
        value = _field_bytes(item, addresses)
        align = item.align if item.kind == "bytes" else len(value)
        data = data.ljust(-(-len(data) // align) * align, b"\0") + value
    return data


def _field_bytes(item: Field, addresses: Mapping[str, int]) -> bytes:
    value = item.value
    if isinstance(value, bytes):
        return value
    if isinstance(value, Pointer):
        value = addresses[value.buffer] + value.byte_offset
    return struct.pack("<" + _FORMATS[item.kind], 0 if value is None else value)


def struct_size(fields: Sequence[Field]) -> int:
    """Size in bytes of a C struct of these fields."""
    named = {f.value.buffer: 0 for f in fields if isinstance(f.value, Pointer)}
    return len(pack_struct(fields, named))


class BuildError(RuntimeError):
    """nvcc rejected a source, or it calls what the stand-in for the CUDA runtime lacks; the message names it."""


def build_launcher(
    source: Path,
    out_dir: Path,
    nvcc: Sequence[str],
    arch_flags: Sequence[str],
    *,
    extra: Sequence[str] = (),
    device_properties: bool = False,
) -> Path:
    """Build a .cu file, host code included, as a shared library on the stand-in CUDA runtime.

    The PTX of the same compilation, with line information, is left beside it (``<stem>.ptx``).

    Args:
        source: the file. out_dir: where the library goes; created when missing. nvcc: the command, such as
        ``("nvcc",)``. arch_flags: such as ``("-gencode", "arch=compute_80,code=sm_80")``. extra: further flags
        (``-I...``, ``-Dmain=emu_main``). device_properties: also provide cudaGetDeviceProperties and
        cudaFuncGetAttributes, for programs that call them.

    Raises:
        BuildError: with the compiler's or linker's message.
    """
    from kgen.execute.gpu.ptx.library import engine_path

    out_dir.mkdir(parents=True, exist_ok=True)
    output = out_dir / f"{source.stem}.so"
    engine = engine_path()
    sources = [str(source)]
    if device_properties:
        sources.append(str(Path(__file__).parent / "ptx" / "native" / "properties.cpp"))
    with tempfile.TemporaryDirectory(prefix="kgen-nvcc-") as kept:
        command = [
            *nvcc, *arch_flags, *extra, "-lineinfo", "-shared", "-Xcompiler", "-fPIC", "-cudart", "none",
            "-Xlinker", "-z,defs", "--keep", "--keep-dir", kept, "-o", str(output), *sources,
            f"-L{engine.parent}", f"-l:{engine.name}",
        ]  # fmt: skip
        _run(command)
        ptx = Path(kept, f"{source.stem}.ptx")
        if not ptx.exists():
            raise BuildError(
                f"{source}: nvcc left no PTX; give one architecture, as -gencode arch=compute_XX,code=sm_XX"
            )
        shutil.copyfile(ptx, output.with_suffix(".ptx"))
    return output


def emit_ptx(
    source: Path, out_dir: Path, nvcc: Sequence[str], arch_flags: Sequence[str], *, extra: Sequence[str] = ()
) -> Path:
    """Compile a .cu file to PTX with line information.

    Raises:
        BuildError: with the compiler's message.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    output = out_dir / f"{source.stem}.ptx"
    _run([*nvcc, *arch_flags, *extra, "-ptx", "-lineinfo", "-o", str(output), str(source)])
    return output


def _run(command: Sequence[str]) -> None:
    done = process.run(command)
    if done.code:
        raise BuildError(f"{' '.join(command)}\n{done.words[:8000]}")
