"""The ladder of a Pallas kernel: compiled by libtpu under its linter; interpreted for values, races and order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from kgen.plan import PallasPlan
from kgen.spec.kernel import Kernel
from kgen.toolchain.child import ChildError
from kgen.toolchain.jax_env import MissingTool, compiler_versions, interpreter_versions
from kgen.verify.arrays import to_dtype
from kgen.verify.compare import MOST_UNKNOWN, compare, first_difference
from kgen.verify.inputs import TAME, make_inputs
from kgen.verify.record import Rung
from kgen.verify.shapes import Case, cases
from kgen.verify.tolerance import Expected, expected

if TYPE_CHECKING:
    from kgen.execute.pallas.run import Outcome, Run
    from kgen.toolchain.jax_aot import AotRequest, AotResult
    from kgen.verify.arrays import Array

SIMULATED = (("tpu", 0), ("tpu", 1), ("tpu", 2), ("eager", 0))
"""Mode and seed of the runs on a simulated TPU."""
MOST_STEPS = 12
"""A shape is run on the simulated TPU where its grid has no more steps than this: about 0.1 s each."""


@dataclass(frozen=True, eq=False)
class Shot:
    """One shape with its inputs and what they have to give."""

    kernel: Kernel
    case: Case
    inputs: Mapping[str, Array]

    @cached_property
    def expected(self) -> Mapping[str, Expected]:
        """Every output by name."""
        return expected(self.kernel.signature, _sizes(self.case), self.inputs, "pallas-interpret")


def ladder(
    kernel: Kernel, plan: PallasPlan, text: str, seed: str, only: Sequence[Case] | None = None
) -> Iterator[Rung]:
    """The rungs of one kernel."""
    shapes = tuple(only or cases(kernel.signature, plan.tile_sizes, kernel.verify))
    yield _compile_rung(kernel, plan, text)
    tools = interpreter_versions()
    if isinstance(tools, MissingTool):
        yield from (Rung.skipped(name, tools.message) for name in ("execute", "hazards"))
    else:
        shots = [Shot(kernel, case, make_inputs(kernel.signature, _sizes(case), seed, case.draw)) for case in shapes]
        yield _execute_rung(shots, text, tools)
        yield _hazards_rung(plan, shots, text, tools)
    yield Rung.skipped("device", "no device asked for")


def _sizes(case: Case) -> dict[str, int]:
    return {"b": 1, **dict(case.sizes)}


# ---- compile --------------------------------------------------------------------------------------------------------


def _compile_rung(kernel: Kernel, plan: PallasPlan, text: str) -> Rung:
    from kgen.toolchain.jax_aot import compile_all

    whole, ragged = _compiled_sizes(kernel, plan)
    requests = [_request(kernel, text, whole, False), _request(kernel, text, ragged, True)]
    results = compile_all(requests)
    if isinstance(results, MissingTool):
        return Rung.skipped("compile", results.message)
    wanted = _precision(kernel)
    failures = [w for pair in zip(requests, results, strict=True) for w in _judge(*pair, wanted)]
    tools = compiler_versions()
    assert not isinstance(tools, MissingTool)
    names = [" ".join(f"{dim}={size}" for dim, size in sizes.items()) for sizes in (whole, ragged)]
    return Rung.judged("compile", _vmem_words(results), failures, tools, names)


def _compiled_sizes(kernel: Kernel, plan: PallasPlan) -> tuple[dict[str, int], dict[str, int]]:
    """Two whole tiles each way, and a shape that no tile divides (where the contract allows one)."""
    tile = plan.tile_sizes
    whole = {dim: 2 * size for dim, size in tile.items()}
    ragged = {dim: size + kernel.signature.multiple_of.get(dim, 1) for dim, size in tile.items()}
    batch = {"b": 2} if kernel.signature.batched else {}
    return {**whole, **batch}, {**ragged, **batch}


def _request(kernel: Kernel, text: str, sizes: Mapping[str, int], ragged: bool) -> AotRequest:
    from kgen.toolchain.jax_aot import AotRequest, Argument

    arguments = tuple(Argument(tuple(sizes[dim] for dim in o.layout), o.dtype) for o in kernel.signature.inputs)
    return AotRequest(text, kernel.name, arguments, kernel.arch, ragged)


def _precision(kernel: Kernel) -> str:
    """The precision that every product of the kernel has to ask for: exact f32 is several passes of bf16."""
    exact = kernel.signature.operand("a").dtype == "f32" and kernel.signature.f32_mma == "exact"
    return "HIGHEST" if exact else "DEFAULT"


def _judge(request: AotRequest, result: AotResult | ChildError, precision: str) -> Iterator[str]:
    shapes = ", ".join(str(list(argument.shape)) for argument in request.arguments)
    if isinstance(result, ChildError):
        yield f"{shapes}: {result.kind}: {result.message}"
        return
    if not result.compiled:
        yield f"{shapes}: {result.error}"
    yield from (f"{shapes}: linter: {finding}" for finding in result.lint)
    if result.compiled and set(result.precisions) != {precision}:
        found = ", ".join(result.precisions) or "none"
        yield f"{shapes}: precisions of the products: {found}; all must be {precision}"


def _vmem_words(results: Sequence[AotResult | ChildError]) -> str:
    used = [result.vmem_bytes or 0 for result in results if not isinstance(result, ChildError)]
    return f"{max(used, default=0) / 2**20:.1f} MiB of VMEM, linter silent"


# ---- execute --------------------------------------------------------------------------------------------------------


def _run(text: str, wanted: Sequence[tuple[Shot, str, int]]) -> list[Outcome]:
    return _run_all([_one(text, shot, mode, seed) for shot, mode, seed in wanted])


def _run_all(runs: Sequence[Run]) -> list[Outcome]:
    from kgen.execute.pallas.run import execute

    outcomes = execute(runs)
    assert not isinstance(outcomes, MissingTool)
    return list(outcomes)


def _one(text: str, shot: Shot, mode: str, seed: int) -> Run:
    from kgen.execute.pallas.run import Run

    arrays = tuple(shot.inputs[operand.name] for operand in shot.kernel.signature.inputs)
    return Run(text, shot.kernel.name, arrays, mode, seed)


def _execute_rung(shots: Sequence[Shot], text: str, tools: Mapping[str, str]) -> Rung:
    failures: list[str] = []
    outcomes = _run(text, [(shot, "hlo", 0) for shot in shots])
    for shot, outcome in zip(shots, outcomes, strict=True):
        problems = _refusal("multiple_of", outcome) if shot.case.refused else _values(shot, outcome)
        failures += [f"{shot.case}: {problem}" for problem in problems]
    wrong = list(_wrong_operands(next(shot for shot in shots if not shot.case.refused)))
    for bad, outcome in zip(wrong, _run_all([bad.run(text) for bad in wrong]), strict=True):
        failures += [f"{bad.words}: {problem}" for problem in _refusal(bad.clause, outcome)]
    refused = sum(bool(shot.case.refused) for shot in shots)
    detail = f"{len(shots) - refused} shapes, {refused + len(wrong)} refusals"
    return Rung.judged("execute", detail, failures, tools, [str(shot.case) for shot in shots])


def _values(shot: Shot, outcome: Outcome) -> Iterator[str]:
    yield from _found(outcome)
    if outcome.findings:
        return
    for output, values in zip(shot.kernel.signature.outputs, outcome.outputs, strict=True):
        most_unknown = MOST_UNKNOWN if shot.case.draw == TAME else 1.0
        comparison = compare(output.name, values, shot.expected[output.name], most_unknown)
        if not comparison.ok:
            yield str(comparison)


def _found(outcome: Outcome) -> Iterator[str]:
    yield from (f"{finding.kind}: {finding.message}" for finding in outcome.findings)


def _refusal(clause: str, outcome: Outcome) -> Iterator[str]:
    messages = [finding.message for finding in outcome.findings]
    if not any(f"ValueError: {clause}" in message for message in messages):
        yield f"not refused with ValueError: {clause}, but {messages}"


@dataclass(frozen=True, eq=False)
class _Wrong:
    """A call with one operand that the entry point has to refuse."""

    shot: Shot
    name: str
    array: Array
    clause: str

    @property
    def words(self) -> str:
        return f"{self.name}: {self.array.dtype}{list(self.array.shape)}"

    def run(self, text: str) -> Run:
        shot = Shot(self.shot.kernel, self.shot.case, {**self.shot.inputs, self.name: self.array})
        return _one(text, shot, "hlo", 0)


def _wrong_operands(shot: Shot) -> Iterator[_Wrong]:
    """Every operand with another dtype, with one more axis, and with each size it shares with an operand before it."""
    import numpy as np

    seen = ""
    for operand in shot.kernel.signature.inputs:
        array = shot.inputs[operand.name]
        other = "i32" if operand.dtype == "f32" else "f32"
        yield _Wrong(shot, operand.name, to_dtype(np.zeros(array.shape), other), "dtype: ")
        yield _Wrong(shot, operand.name, array[np.newaxis], "rank: ")
        for axis, dim in enumerate(operand.layout):
            if dim in seen:
                longer = np.concatenate([array, array], axis)
                yield _Wrong(shot, operand.name, longer, "shape: ")
        seen += operand.layout


# ---- hazards --------------------------------------------------------------------------------------------------------


def _hazards_rung(plan: PallasPlan, shots: Sequence[Shot], text: str, tools: Mapping[str, str]) -> Rung:
    """Two simulated cores in three orders, and copies at once: no race, and the same bits whatever the order."""
    chosen = _simulated(plan, shots)
    outcomes = iter(_run(text, [(shot, mode, seed) for shot in chosen for mode, seed in SIMULATED]))
    failures: list[str] = []
    for shot in chosen:
        results = [next(outcomes) for _ in SIMULATED]
        failures += [f"{shot.case} {words}" for words in _agreement(shot, results)]
    modes = ", ".join(f"{mode} {seed}" for mode, seed in SIMULATED)
    names = [str(shot.case) for shot in chosen]
    return Rung.judged("hazards", f"{len(chosen)} shapes without races under {modes}", failures, tools, names)


def _simulated(plan: PallasPlan, shots: Sequence[Shot]) -> list[Shot]:
    """The shape with the most steps, and the one with the most along k, of those whose grid is small; never none."""
    usual = [shot for shot in shots if not shot.case.refused and shot.case.draw == TAME]
    steps = {shot: _steps(plan, dict(shot.case.sizes)) for shot in usual}
    small = [shot for shot in steps if 0 < steps[shot] <= MOST_STEPS]
    if not small:
        return [min(steps, key=lambda shot: (steps[shot] == 0, steps[shot]))]
    deep = max(small, key=lambda shot: dict(shot.case.sizes)["k"] // plan.tile_sizes["k"])
    return list(dict.fromkeys((max(small, key=lambda shot: steps[shot]), deep)))


def _steps(plan: PallasPlan, sizes: Mapping[str, int]) -> int:
    steps = sizes.get("b", 1)
    for dim, extent in plan.tile_sizes.items():
        steps *= -(-sizes[dim] // extent)
    return steps


def _agreement(shot: Shot, results: Sequence[Outcome]) -> Iterator[str]:
    for (mode, seed), outcome in zip(SIMULATED, results, strict=True):
        where = f"({mode}, seed {seed})"
        problems = _values(shot, outcome) if outcome is results[0] else _found(outcome)
        yield from (f"{where}: {problem}" for problem in problems)
        if outcome.findings or results[0].findings:
            continue
        for output, values, one in zip(shot.kernel.signature.outputs, outcome.outputs, results[0].outputs, strict=True):
            difference = first_difference(one, values)
            if difference is not None:
                yield f"{where}: {output.name}{list(difference)} differs from the first order's"
