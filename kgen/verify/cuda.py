"""The ladder of a CUDA kernel: compiled by nvcc; its PTX executed, launcher included; late copies and other orders."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kgen.plan import CudaPlan
from kgen.spec.kernel import Kernel
from kgen.toolchain import cache, nvcc
from kgen.toolchain.cc import CompilerError
from kgen.verify.compare import MOST_UNKNOWN, compare, first_difference
from kgen.verify.contract import OK, contract_of, judge_refusal
from kgen.verify.gpu_arguments import FAR, Arguments, arguments, call_of
from kgen.verify.inputs import TAME, make_inputs
from kgen.verify.record import Rung
from kgen.verify.shapes import Case, Edge, cases
from kgen.verify.tolerance import Expected, expected

if TYPE_CHECKING:
    from kgen.execute.gpu.harness import Crash, Outcome, Run
    from kgen.verify.arrays import Array

ORDERS: tuple[tuple[Literal["eager", "late"], int], ...] = (("eager", 0), ("late", 1), ("eager", 2))
"""Mode and seed of the runs of every shape; the first one is the `execute` rung."""
SECONDS = 120.0


@dataclass(frozen=True)
class Files:
    """The generated text of a kernel and of its interface."""

    source_name: str
    source: str
    header_name: str
    header: str


def ladder(
    kernel: Kernel, plan: CudaPlan, files: Files, seed: str, only: Sequence[Case] | None = None
) -> Iterator[Rung]:
    """The rungs of one kernel; those after a failed compilation are not run."""
    tool = nvcc.find()
    missing = f"no {tool.tool}: {tool.fix}" if isinstance(tool, nvcc.ToolMissing) else _no_engine()
    if isinstance(tool, nvcc.ToolMissing) or missing:
        yield from (Rung.skipped(name, missing) for name in ("compile", "execute", "hazards"))
    else:
        yield from _with_tool(kernel, plan, files, tool, seed, only)
    yield Rung.skipped("device", "no device asked for")


def _no_engine() -> str:
    """Why the executor cannot be built on this host; empty where it can."""
    from kgen.execute.gpu.ptx.library import engine_path

    try:
        engine_path()
    except CompilerError as error:
        return str(error).partition("\n")[0]
    return ""


def _with_tool(
    kernel: Kernel, plan: CudaPlan, files: Files, tool: nvcc.Nvcc, seed: str, only: Sequence[Case] | None
) -> Iterator[Rung]:
    with tempfile.TemporaryDirectory(prefix="kgen-") as folder:
        source = Path(folder) / files.source_name
        source.write_text(files.source)
        (Path(folder) / files.header_name).write_text(files.header)
        library = _library(source, tool, kernel.arch)
        assembled = (
            library if isinstance(library, nvcc.CompileError) else nvcc.assemble(tool, _ptx(library), kernel.arch)
        )
        yield _compile_rung(assembled, plan, tool)
        if isinstance(library, nvcc.CompileError) or isinstance(assembled, nvcc.CompileError):
            yield from (Rung.skipped(name, "the kernel does not compile") for name in ("execute", "hazards"))
            return
        yield from _executed(kernel, plan, library, seed, only)


def _library(source: Path, tool: nvcc.Nvcc, arch: str) -> Path | nvcc.CompileError:
    """The launcher as a library on the stand-in runtime, its PTX beside it; cached."""
    from kgen.execute.gpu.harness import BuildError, build_launcher
    from kgen.execute.gpu.ptx.library import engine_path

    strangers = _strangers(source)
    if strangers:
        return nvcc.CompileError("\n".join(strangers))
    headers = b"".join(path.read_bytes() for path in sorted(source.parent.glob("*.h")))
    flags = [*nvcc.gencode(arch), *nvcc.FLAGS]
    key = cache.key_of(source.name, source.read_bytes(), headers, tool.version, " ".join(flags), str(engine_path()))
    try:
        folder = cache.folder("launcher", key, lambda out: _discard(build_launcher(source, out, [tool.path], flags)))
    except BuildError as error:
        return nvcc.CompileError(str(error).partition("\n")[2].replace(f"{source.parent}/", ""))
    return next(folder.glob("*.so"))


def _strangers(source: Path) -> list[str]:
    """Includes that the digest of a result would not cover: all but system headers and those beside the source."""
    known = {f'"{path.name}"' for path in source.parent.glob("*.h")}
    found = []
    spliced = source.read_text().replace("\\\n", "")
    for words in re.findall(r"^[ \t]*(?:#|%:)[ \t]*(?:include|include_next|import)\b[ \t]*(.*)$", spliced, re.M):
        name = re.sub(r"\s*(//.*|/\*.*)?$", "", words)
        if name not in known and not re.fullmatch(r"<\w[\w./+-]*>", name):
            found.append(f"#include {name}: a kernel includes its own header and system headers only")
    return found


def _discard(_: object) -> None:
    """The build's result is the files it leaves."""


def _ptx(library: Path) -> Path:
    return library.with_suffix(".ptx")


def _compile_rung(assembled: nvcc.Assembled | nvcc.CompileError, plan: CudaPlan, tool: nvcc.Nvcc) -> Rung:
    tools = {"nvcc": tool.version}
    if isinstance(assembled, nvcc.CompileError):
        return Rung.judged("compile", "", [assembled.text], tools, [])
    used = assembled.resources
    failures = []
    if used.spill_stores or used.spill_loads:
        failures.append(f"spills: {used.spill_stores} bytes stored, {used.spill_loads} loaded")
    if assembled.hmma == 0:
        failures.append("no tensor-core instruction in the machine code")
    hmma = "HMMA not counted (no nvdisasm)" if assembled.hmma is None else f"{assembled.hmma} HMMA"
    spills = "spills" if failures else "0 spills"
    words = f"{used.registers} registers, {spills}, {plan.shared_bytes} bytes of shared memory, {hmma}"
    return Rung.judged("compile", words, failures, tools, [])


# ---- execution ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shot:
    """One shape, prepared: its arguments, inputs, what is expected, and the runs that are to give it."""

    case: Case
    call: Arguments
    inputs: Mapping[str, Array]
    runs: tuple[Run, ...]


def _executed(kernel: Kernel, plan: CudaPlan, library: Path, seed: str, only: Sequence[Case] | None) -> Iterator[Rung]:
    from kgen.execute.gpu.harness import execute

    shapes = list(only or cases(kernel.signature, plan.tile_sizes, kernel.verify, tuple(edges_of(plan))))
    align = plan.align
    shots = [shot_of(kernel, case, dict(align), seed) for case in shapes if not case.refused]
    shots.append(far_shot(kernel, dict(align), seed))
    contract = list(contract_of(kernel, dict(align), [case for case in shapes if case.refused]))
    runs = [run for shot in shots for run in shot.runs] + [refusal.run for refusal in contract]
    outcomes = iter(execute(library, _ptx(library), runs, timeout_s=SECONDS))
    execute_failures: list[str] = []
    hazard_failures: list[str] = []
    for shot in shots:
        results = [next(outcomes) for _ in shot.runs]
        execute_failures += _judge_first(kernel, shot, results[0])
        hazard_failures += _judge_others(kernel, shot, results)
    for refusal in contract:
        execute_failures += judge_refusal(refusal, next(outcomes))
    names = [str(shot.case) for shot in shots]
    detail = f"{len(shots)} shapes, {len(contract)} refusals"
    yield Rung.judged("execute", detail, execute_failures, {"executor": "ptx"}, names)
    orders = ", ".join(f"{mode} seed {number}" for mode, number in ORDERS[1:])
    yield Rung.judged("hazards", f"{len(shots)} shapes bit-equal under {orders}", hazard_failures, {}, names)


def edges_of(plan: CudaPlan) -> Iterator[Edge]:
    """Shapes at the edges of a plan's own structure: twice around the ring of stages, and past a group of tile rows."""
    tile, group = plan.tile_sizes, plan.constant("group")
    yield {"k": (2 * plan.constant("stages") + 1) * tile["k"] - 1}, "twice around the ring of stages"
    if group:
        yield {"m": (group + 1) * tile["m"] + 1, "n": tile["n"] + 1, "k": 1}, "more than a group of blocks"


def shot_of(kernel: Kernel, case: Case, align: dict[str, int], seed: str, far: int = 0) -> Shot:
    from kgen.execute.gpu.harness import Run

    sizes = dict(case.sizes)
    call = arguments(kernel.signature, {"b": 1, **sizes}, align, far)
    inputs = make_inputs(kernel.signature, {"b": 1, **sizes}, seed, case.draw)
    launch = call_of(kernel, call, inputs)
    runs = tuple(
        Run((launch,), call.buffers(inputs), tuple(call.reads()), mode=mode, seed=number, arch=kernel.arch)
        for mode, number in ORDERS
    )
    return Shot(case, call, inputs, runs)


def far_shot(kernel: Kernel, align: dict[str, int], seed: str) -> Shot:
    """Rows 2^31 elements apart: the last ones lie beyond 2^32 elements, where 32-bit offsets have wrapped."""
    multiples = kernel.signature.multiple_of
    least = {"m": 3, "n": 5, "k": 6}
    sizes = {dim: -(-size // multiples.get(dim, 1)) * multiples.get(dim, 1) for dim, size in least.items()}
    if kernel.signature.batched:
        sizes["b"] = 3
    return shot_of(kernel, Case(tuple(sizes.items()), "beyond 2^32 elements"), align, seed, FAR)


def _judge_first(kernel: Kernel, shot: Shot, result: Outcome | Crash) -> Iterator[str]:
    """The numbers of the eager run, its findings, and the padding it must not touch."""
    yield from (f"{shot.case}: {words}" for words in _problems(result, OK))
    outputs = outputs_of(kernel, shot, result)
    if outputs is None:
        return
    sizes = {"b": 1, **dict(shot.case.sizes)}
    wanted: Mapping[str, Expected] = expected(kernel.signature, sizes, shot.inputs, "cuda")
    for name, (values, clean) in outputs.items():
        comparison = compare(name, values, wanted[name], MOST_UNKNOWN if shot.case.draw == TAME else 1.0)
        if not comparison.ok:
            yield f"{shot.case}: {comparison}"
        if not clean:
            yield f"{shot.case}: {name}: elements between its rows were written"


def _judge_others(kernel: Kernel, shot: Shot, results: Sequence[Outcome | Crash]) -> Iterator[str]:
    """The other modes and orders give the same bits as the first."""
    first = outputs_of(kernel, shot, results[0])
    for (mode, seed), result in zip(ORDERS[1:], results[1:], strict=True):
        where = f"{shot.case} ({mode}, seed {seed})"
        yield from (f"{where}: {words}" for words in _problems(result, OK))
        other = outputs_of(kernel, shot, result)
        if first is None or other is None:
            continue
        for name, (values, _) in other.items():
            difference = first_difference(first[name][0], values)
            if difference is not None:
                yield f"{where}: {name}{list(difference)} differs from the eager run"


def outputs_of(kernel: Kernel, shot: Shot, result: Outcome | Crash) -> dict[str, tuple[Array, bool]] | None:
    from kgen.execute.gpu.harness import Outcome

    if not isinstance(result, Outcome):
        return None
    found: dict[str, tuple[Array, bool]] = {}
    names = [name for name, _, _ in shot.call.reads()]
    for output in kernel.signature.outputs:
        windows = [window for name, window in zip(names, result.reads, strict=True) if name == output.name]
        found[output.name] = shot.call.output(output, windows)
    return found


def _problems(result: Outcome | Crash, status: int) -> Iterator[str]:
    from kgen.execute.gpu.harness import Crash

    if isinstance(result, Crash):
        yield f"{result.kind}: {result.message}"
        return
    yield from (str(finding) for finding in result.findings)
    if result.returned[0] != status:
        yield f"returned {result.returned[0]}, expected {status}"
