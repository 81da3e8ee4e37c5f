"""Broken kernels, made by editing generated text, and the check that catches each."""

from __future__ import annotations

from dataclasses import dataclass

from builders import kernel, text

from kgen.execute.pallas import Outcome, Run, execute
from kgen.spec.kernel import Kernel
from kgen.verify.compare import compare
from kgen.verify.inputs import make_inputs
from kgen.verify.tolerance import expected

SIZES = {"m": 136, "n": 256, "k": 300}
VALUES = "values"
"""No finding of the interpreter's: the comparison with the reference fails."""


@dataclass(frozen=True)
class Control:
    """`old` -> `new` breaks the kernel, and `mode` has to report `caught`."""

    what: str
    old: str
    new: str
    mode: str
    caught: str


CONTROLS = (
    Control(
        "k edge not masked",
        "accumulate(functools.partial(load_below, limit=k_tail))",
        "accumulate(load)",
        "hlo",
        VALUES,
    ),
    Control("k edge of b not masked", "b_tile = load_k(b_ref, Config.B_K_AXIS)", "b_tile = load(b_ref)", "hlo", VALUES),
    Control("k edge one too long", "limit=k_tail)", "limit=k_tail + 1)", "hlo", VALUES),
    Control("accumulator not initialised", "fill(acc, 0.0)", "pass", "hlo", VALUES),
    Control("accumulator filled again", "pl.when(k_step == 0)", "pl.when(k_step <= 1)", "hlo", VALUES),
    Control("epilogue a step early", "@pl.when(k_step == k_last)", "@pl.when(k_step == k_last - 1)", "hlo", VALUES),
    Control("grid a step short", "pl.cdiv(k, Config.TILE_K))", "k // Config.TILE_K)", "hlo", VALUES),
    Control("index map of a transposed", "lambda m, n, k: (m, k)", "lambda m, n, k: (k, m)", "hlo", VALUES),
    Control("index map of bias", "lambda m, n, k: (0, n)", "lambda m, n, k: (0, 0)", "hlo", VALUES),
    Control("index map out of bounds", "lambda m, n, k: (n, k)", "lambda m, n, k: (n + 1, k)", "tpu", "out-of-bounds"),
    Control("grid a step long", "pl.cdiv(k, Config.TILE_K))", "pl.cdiv(k, Config.TILE_K) + 1)", "tpu", "out-of-bounds"),
    Control(
        "k declared parallel",
        '("parallel", "parallel", "arbitrary")',
        '("parallel", "parallel", "parallel")',
        "tpu",
        VALUES,
    ),
    Control("output block shared by a parallel dim", "lambda m, n, k: (m, n)", "lambda m, n, k: (m, 0)", "tpu", "race"),
    Control("wrong helper constant", "0.044715", "0.04715", "hlo", VALUES),
    Control("output cast too early", "acc[...] + bias_mn", "acc[...].astype(jnp.bfloat16) + bias_mn", "hlo", VALUES),
)


def of_layout() -> Kernel:
    return kernel(tile=(64, 128, 128))


def broken(control: Control) -> str:
    source = text(of_layout())
    assert source.count(control.old) == 1, control.what
    return source.replace(control.old, control.new)


def findings(outcome: Outcome) -> set[str]:
    """Kinds of what was found, a wrong value included."""
    found = {finding.kind for finding in outcome.findings}
    if outcome.outputs:
        signature = of_layout().signature
        inputs = make_inputs(signature, SIZES, "controls")
        want = expected(signature, SIZES, inputs, "pallas-interpret")["c"]
        found |= set() if compare("c", outcome.outputs[0], want).ok else {VALUES}
    return found


def test_every_control_is_caught() -> None:
    """In one test: all runs share one child process."""
    of = of_layout()
    inputs = tuple(make_inputs(of.signature, SIZES, "controls").values())
    runs = [Run(broken(control), of.name, inputs, control.mode) for control in CONTROLS]
    parallel = next(control for control in CONTROLS if control.what == "k declared parallel")
    *outcomes, hidden = execute([*runs, Run(broken(parallel), of.name, inputs, "hlo")])
    assert isinstance(hidden, Outcome)
    found = {control.what: findings(outcome) for control, outcome in zip(CONTROLS, outcomes, strict=True)}
    assert [control.what for control in CONTROLS if control.caught not in found[control.what]] == []
    # Why kernels are run on a simulated TPU as well: plain HLO does not see a wrong dimension semantics.
    assert not findings(hidden)

    by_name = dict(zip(found, outcomes, strict=True))
    bounds = by_name["index map out of bounds"].findings[0].message
    race = by_name["output block shared by a parallel dim"].findings[0].message
    assert bounds.startswith('IndexError: Out-of-bounds block index (2, 0) for input "b_ref"')
    assert race.startswith("RACE DETECTED\n  write of")
