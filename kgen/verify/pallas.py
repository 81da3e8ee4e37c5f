"""The ladder of a Pallas kernel: compiled by libtpu under its linter; interpreted for values, races and order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kgen.plan import PallasPlan
from kgen.spec.kernel import Kernel
from kgen.toolchain.child import ChildError
from kgen.toolchain.jax_env import MissingTool, compiler_versions, interpreter_versions
from kgen.verify.compare import compare, first_difference
from kgen.verify.inputs import make_inputs
from kgen.verify.record import Rung
from kgen.verify.shapes import Case, cases
from kgen.verify.tolerance import expected

if TYPE_CHECKING:
    from kgen.execute.pallas.run import Outcome, Run
    from kgen.toolchain.jax_aot import AotRequest, AotResult
    from kgen.verify.arrays import Array

SIMULATED = (("tpu", 0), ("tpu", 1), ("tpu", 2), ("eager", 0))
"""Mode and seed of the runs on a simulated TPU."""
MOST_STEPS = 12
"""A shape is run on the simulated TPU where its grid has no more steps than this: about 0.1 s each."""
Inputs = Mapping[str, "Array"]


def ladder(kernel: Kernel, plan: PallasPlan, text: str, seed: str, only: Sequence[Case] | None = None) -> Iterator[Rung]:
    """The rungs of one kernel."""
    shapes = tuple(only or cases(kernel.signature, plan.tile_sizes, kernel.verify))
    yield _compile_rung(kernel, plan, text)
    tools = interpreter_versions()
    if isinstance(tools, MissingTool):
        yield from (Rung.skipped(name, tools.message) for name in ("execute", "hazards"))
    else:
        inputs = {case: make_inputs(kernel.signature, _sizes(case), seed) for case in shapes}
        values = _run(kernel, text, [(case, "hlo", 0) for case in shapes], inputs)
        yield _execute_rung(kernel, shapes, inputs, values, tools)
        yield _hazards_rung(kernel, plan, text, shapes, inputs, tools)
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
    failures = [words for request, result in zip(requests, results, strict=True) for words in _judge(request, result)]
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


def _judge(request: AotRequest, result: AotResult | ChildError) -> Iterator[str]:
    shapes = ", ".join(str(list(argument.shape)) for argument in request.arguments)
    if isinstance(result, ChildError):
        yield f"{shapes}: {result.kind}: {result.message}"
        return
    if not result.compiled:
        yield f"{shapes}: {result.error}"
    yield from (f"{shapes}: linter: {finding}" for finding in result.lint)


def _vmem_words(results: Sequence[AotResult | ChildError]) -> str:
    used = [result.vmem_bytes or 0 for result in results if not isinstance(result, ChildError)]
    return f"{max(used, default=0) / 2**20:.1f} MiB of VMEM, linter silent"


# ---- execute --------------------------------------------------------------------------------------------------------


def _run(
    kernel: Kernel, text: str, wanted: Sequence[tuple[Case, str, int]], inputs: Mapping[Case, Inputs]
) -> list[Outcome]:
    from kgen.execute.pallas.run import execute

    runs = [_one(kernel, text, inputs[case], mode, seed) for case, mode, seed in wanted]
    outcomes = execute(runs)
    assert not isinstance(outcomes, MissingTool)
    return list(outcomes)


def _one(kernel: Kernel, text: str, inputs: Inputs, mode: str, seed: int) -> Run:
    from kgen.execute.pallas.run import Run

    arrays = tuple(inputs[operand.name] for operand in kernel.signature.inputs)
    return Run(text, kernel.name, arrays, mode, seed)


def _execute_rung(
    kernel: Kernel, shapes: Sequence[Case], inputs: Mapping[Case, Inputs], outcomes: Sequence[Outcome],
    tools: Mapping[str, str],
) -> Rung:  # fmt: skip
    failures: list[str] = []
    for case, outcome in zip(shapes, outcomes, strict=True):
        problems = _refusal(case, outcome) if case.refused else _values(kernel, case, inputs[case], outcome)
        failures += [f"{case}: {problem}" for problem in problems]
    refused = sum(bool(case.refused) for case in shapes)
    detail = f"{len(shapes) - refused} shapes, {refused} refusals"
    return Rung.judged("execute", detail, failures, tools, [str(case) for case in shapes])


def _values(kernel: Kernel, case: Case, inputs: Inputs, outcome: Outcome) -> Iterator[str]:
    yield from (f"{finding.kind}: {finding.message}" for finding in outcome.findings)
    if outcome.findings:
        return
    wanted = expected(kernel.signature, _sizes(case), inputs, "pallas-interpret")
    for output, values in zip(kernel.signature.outputs, outcome.outputs, strict=True):
        comparison = compare(output.name, values, wanted[output.name])
        if not comparison.ok:
            yield str(comparison)


def _refusal(case: Case, outcome: Outcome) -> Iterator[str]:
    messages = [finding.message for finding in outcome.findings]
    if not any("ValueError: multiple_of" in message for message in messages):
        yield f"not refused, although {case.why}: {messages}"


def _hazards_rung(
    kernel: Kernel, plan: PallasPlan, text: str, shapes: Sequence[Case], inputs: Mapping[Case, Inputs],
    tools: Mapping[str, str],
) -> Rung:  # fmt: skip
    """Two simulated cores in three orders, and copies at once: no race, and the same bits whatever the order."""
    chosen = _simulated(kernel, plan, shapes)
    wanted = [(case, mode, seed) for case in chosen for mode, seed in SIMULATED]
    outcomes = iter(_run(kernel, text, wanted, inputs))
    failures: list[str] = []
    for case in chosen:
        results = [next(outcomes) for _ in SIMULATED]
        failures += [f"{case} {words}" for words in _agreement(kernel, case, inputs[case], results)]
    modes = ", ".join(f"{mode} {seed}" for mode, seed in SIMULATED)
    names = [str(case) for case in chosen]
    return Rung.judged("hazards", f"{len(chosen)} shapes without races under {modes}", failures, tools, names)


def _simulated(kernel: Kernel, plan: PallasPlan, shapes: Sequence[Case]) -> list[Case]:
    """Shapes with a small grid, those with the most steps first; never none."""
    steps = {case: _steps(plan, dict(case.sizes)) for case in shapes if not case.refused}
    small = sorted((case for case in steps if 0 < steps[case] <= MOST_STEPS), key=lambda case: -steps[case])
    return small[:4] or [min(steps, key=lambda case: (steps[case] == 0, steps[case]))]


def _steps(plan: PallasPlan, sizes: Mapping[str, int]) -> int:
    steps = sizes.get("b", 1)
    for dim, extent in plan.tile_sizes.items():
        steps *= -(-sizes[dim] // extent)
    return steps


def _agreement(kernel: Kernel, case: Case, inputs: Inputs, results: Sequence[Outcome]) -> Iterator[str]:
    for (mode, seed), outcome in zip(SIMULATED, results, strict=True):
        problems = _values(kernel, case, inputs, outcome) if seed == 0 else _found(outcome)
        yield from (f"({mode}, seed {seed}): {problem}" for problem in problems)
        if outcome.findings or results[0].findings:
            continue
        for output, values, one in zip(kernel.signature.outputs, outcome.outputs, results[0].outputs, strict=True):
            difference = first_difference(one, values)
            if difference is not None:
                yield f"({mode}, seed {seed}): {output.name}{list(difference)} differs from the first order's"


def _found(outcome: Outcome) -> Iterator[str]:
    yield from (f"{finding.kind}: {finding.message}" for finding in outcome.findings)
