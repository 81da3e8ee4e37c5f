"""Broken kernels on the bench: generated text edited, compiled and judged by the checks of `kgen.verify.cuda`.

Most edits touch device code only; those run under the launcher of the unbroken kernel, so that the host code is
compiled once for each base."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from kgen.execute.gpu.harness import Crash, Outcome, build_launcher, emit_ptx, errors, execute
from kgen.plan import CudaPlan, plan_kernel
from kgen.render.files import render, source_path
from kgen.spec.kernel import Kernel
from kgen.spec.load import load_bytes
from kgen.toolchain import nvcc
from kgen.verify import cuda
from kgen.verify.compare import MOST_UNKNOWN, compare, first_difference
from kgen.verify.contract import OK, contract_of, judge_refusal
from kgen.verify.inputs import TAME
from kgen.verify.shapes import Case, cases
from kgen.verify.tolerance import expected

Edit = Callable[[str], str]
"""A change of a source; raises AssertionError where its place is not there, or there twice."""
SEED = "controls"


@dataclass(frozen=True)
class Base:
    """An unbroken kernel, its text, and the folder of what is built from it."""

    kernel: Kernel
    plan: CudaPlan
    files: Mapping[str, str]
    folder: Path

    @property
    def source(self) -> str:
        """The generated text."""
        return self.files[source_path(self.plan)]

    @cached_property
    def launcher(self) -> Path:
        """The launcher of the unbroken kernel; its PTX lies beside it."""
        return self.build(self.source, "base")

    def build(self, source: str, name: str) -> Path:
        """The launcher of `source`."""
        return build_launcher(self._written(source, name), self.folder / name / "built", [_nvcc()], _FLAGS)

    def ptx(self, source: str, name: str) -> Path:
        """Device code of `source`, under the symbol that the unbroken launcher asks for."""
        ptx = emit_ptx(self._written(source, name), self.folder / name / "built", [_nvcc()], _FLAGS)
        wanted = _unit(self.launcher.with_suffix(".ptx").read_text())
        text = ptx.read_text()
        ptx.write_text(text.replace(_unit(text), wanted))
        return ptx

    def _written(self, source: str, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        for path, text in self.files.items():
            (folder / path).write_text(text)
        place = folder / source_path(self.plan)
        place.write_text(source)
        return place


_FLAGS = [*nvcc.gencode("sm_80"), "-std=c++17"]


def _nvcc() -> str:
    tool = nvcc.find()
    assert isinstance(tool, nvcc.Nvcc)
    return tool.path


def _unit(ptx: str) -> str:
    """nvcc's digest of the translation unit, in the names of what has internal linkage."""
    found = re.search(r"_GLOBAL__N__[0-9a-f]{8}_", ptx)
    assert found
    return found[0]


def base_of(spec: str, folder: Path) -> Base:
    """The one kernel of a spec."""
    loaded = load_bytes(spec.encode(), "specs/control.yaml")
    assert loaded.diagnostics == ()
    kernel = next(loaded.documents[0].kernels())
    plan = plan_kernel(kernel)
    assert isinstance(plan, CudaPlan), plan
    folder.mkdir()
    return Base(kernel, plan, render([plan]), folder)


def swap(old: str, new: str) -> Edit:
    """Replaces a text that stands in exactly one place."""

    def edit(text: str) -> str:
        assert text.count(old) == 1, f"{text.count(old)} places for {old!r}"
        return text.replace(old, new)

    return edit


def returns(function: str, new: str) -> Edit:
    """Changes what an index map of Config returns; `...` in `new` stands for what it returned."""

    def edit(text: str) -> str:
        parts = re.split(rf"( {function}\([^)]*\) {{\n    return )(.*?)(;\n  }})", text, flags=re.DOTALL)
        assert len(parts) == 5, f"{len(parts) // 4} places for {function}"
        before, head, old, tail, after = parts
        return before + head + new.replace("...", f"({old})") + tail + after

    return edit


def edited(text: str, edits: Sequence[Edit]) -> str:
    """`text` with every edit applied, each of which changes it."""
    for edit in edits:
        before, text = text, edit(text)
        assert text != before
    return text


# ---- judgement ------------------------------------------------------------------------------------------------------


def verdict(
    base: Base, library: Path, ptx: Path, shapes: Sequence[Mapping[str, int]], extra: Sequence[str]
) -> set[str]:
    """Everything that the checks find: words that name the check.

    `numbers`, `padding` (elements between rows written) and kinds of findings: the eager run. `late`, `order`: other
    bits, or findings, than the eager run's with late copies, or in another order. `refusal`: a call that breaks the
    contract is not refused as it should be. `extra` adds `far` (offsets beyond 2^32), `contract`,
    and `cases`, what `kgen verify` runs besides.
    """
    chosen = [case_of(shape) for shape in shapes] + (generated(base) if "cases" in extra else [])
    shots = [cuda.shot_of(base.kernel, case, dict(base.plan.align), SEED) for case in chosen]
    if "far" in extra:
        shots.append(cuda.far_shot(base.kernel, dict(base.plan.align), SEED))
    contract = list(contract_of(base.kernel, dict(base.plan.align), [])) if "contract" in extra else []
    runs = [run for shot in shots for run in shot.runs] + [refusal.run for refusal in contract]
    results = iter(execute(library, ptx, [replace(run, max_findings=4) for run in runs], timeout_s=20.0))
    words: set[str] = set()
    for shot in shots:
        words |= set(_judged(base, shot, [next(results) for _ in shot.runs]))
    for refusal in contract:
        words |= {"refusal" for _ in judge_refusal(refusal, next(results))}
    return words


def generated(base: Base) -> list[Case]:
    """The cases that the spec and the plan call for, without those to be refused."""
    kernel, plan = base.kernel, base.plan
    found = cases(kernel.signature, plan.tile_sizes, kernel.verify, tuple(cuda.edges_of(plan)))
    return [case for case in found if not case.refused]


def case_of(shape: Mapping[str, int]) -> Case:
    """The shape as kgen.verify names one."""
    return Case(tuple(shape.items()), "control")


def _judged(base: Base, shot: cuda.Shot, results: Sequence[Outcome | Crash]) -> Iterator[str]:
    eager, late, order = results
    yield from _numbers(base, shot, eager)
    own = set(_findings(eager))
    yield from own
    for word, other in (("late", late), ("order", order)):
        if set(_findings(other)) - own or _differs(base, shot, eager, other):
            yield word


def _numbers(base: Base, shot: cuda.Shot, result: Outcome | Crash) -> Iterator[str]:
    outputs = cuda.outputs_of(base.kernel, shot, result)
    wanted = expected(base.kernel.signature, {"b": 1, **dict(shot.case.sizes)}, shot.inputs, "cuda")
    for name, (values, clean) in (outputs or {}).items():
        if not compare(name, values, wanted[name], MOST_UNKNOWN if shot.case.draw == TAME else 1.0).ok:
            yield "numbers"
        if not clean:
            yield "padding"


def _findings(result: Outcome | Crash) -> Iterator[str]:
    if isinstance(result, Crash):
        yield result.kind
        return
    yield from (finding.kind for finding in errors(result.findings))
    if result.returned[0] != OK and not result.findings:
        yield "status"


def _differs(base: Base, shot: cuda.Shot, one: Outcome | Crash, other: Outcome | Crash) -> bool:
    first, second = cuda.outputs_of(base.kernel, shot, one), cuda.outputs_of(base.kernel, shot, other)
    if first is None or second is None:
        return False
    return any(first_difference(first[name][0], second[name][0]) is not None for name in first)
