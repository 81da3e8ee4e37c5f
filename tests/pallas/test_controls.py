"""Broken kernels, made by editing generated text, and the check that catches each."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from builders import kernel, text

from kgen.execute.pallas import Outcome, Run, execute
from kgen.spec.kernel import Kernel
from kgen.verify.compare import compare
from kgen.verify.inputs import make_inputs
from kgen.verify.tolerance import expected

SIZES = {"m": 72, "n": 256, "k": 300}
VALUES = "values"
"""No finding of the interpreter's: the comparison with the reference fails."""


@dataclass(frozen=True)
class Control:
    """`old` -> `new` breaks the kernel; `mode` has to report `caught`, and for `seen_by_hlo` plain HLO sees it too."""

    what: str
    old: str
    new: str
    mode: str
    caught: str
    seen_by_hlo: bool


CONTROLS = (
    Control("k edge not masked", "accumulate(functools.partial(load_below, limit=k_tail))", "accumulate(load)", "hlo", VALUES, True),
    Control("k edge of b not masked", "b_tile = load_k(b_ref, Config.B_K_AXIS)", "b_tile = load(b_ref)", "hlo", VALUES, True),
    Control("k edge one too long", "limit=k_tail)", "limit=k_tail + 1)", "hlo", VALUES, True),
    Control("accumulator not initialised", "fill(acc, 0.0)", "pass", "hlo", VALUES, True),
    Control("accumulator filled again", "pl.when(k_step == 0)", "pl.when(k_step <= 1)", "hlo", VALUES, True),
    Control("epilogue a step early", "@pl.when(k_step == k_last)", "@pl.when(k_step == k_last - 1)", "hlo", VALUES, True),
    Control("grid a step short", "pl.cdiv(k, Config.TILE_K))", "k // Config.TILE_K)", "hlo", VALUES, True),
    Control("index map of a transposed", "lambda m, n, k: (m, k)", "lambda m, n, k: (k, m)", "hlo", VALUES, True),
    Control("index map of bias", "lambda m, n, k: (0, n)", "lambda m, n, k: (0, 0)", "hlo", VALUES, True),
    Control("index map out of bounds", "lambda m, n, k: (n, k)", "lambda m, n, k: (n + 1, k)", "tpu", "out-of-bounds", True),
    Control("grid a step long", "pl.cdiv(k, Config.TILE_K))", "pl.cdiv(k, Config.TILE_K) + 1)", "tpu", "out-of-bounds", True),
    Control("k declared parallel", '("parallel", "parallel", "arbitrary")', '("parallel", "parallel", "parallel")', "tpu", VALUES, False),
    Control("output block shared by a parallel dim", "lambda m, n, k: (m, n)", "lambda m, n, k: (m, 0)", "tpu", "race", True),
    Control("wrong helper constant", "0.044715", "0.04715", "hlo", VALUES, True),
    Control("output cast too early", "acc[...] + bias_mn", "acc[...].astype(jnp.bfloat16) + bias_mn", "hlo", VALUES, True),
)  # fmt: skip


def of_layout() -> Kernel:
    return kernel(tile=(64, 128, 128))


def broken(control: Control) -> str:
    source = text(of_layout())
    assert source.count(control.old) == 1, control.what
    return source.replace(control.old, control.new)


@pytest.fixture(scope="module")
def outcomes() -> dict[tuple[str, str], Outcome]:
    """(control, mode) -> outcome, for its own mode and plain HLO."""
    of = of_layout()
    inputs = tuple(make_inputs(of.signature, SIZES, "controls").values())
    wanted = list(dict.fromkeys((control, mode) for control in CONTROLS for mode in ("hlo", control.mode)))
    done = execute([Run(broken(control), of.name, inputs, mode) for control, mode in wanted])
    assert isinstance(done, tuple)
    return {(control.what, mode): outcome for (control, mode), outcome in zip(wanted, done, strict=True)}


def findings(outcome: Outcome) -> set[str]:
    """Kinds of what was found, a wrong value included."""
    found = {finding.kind for finding in outcome.findings}
    if outcome.outputs:
        signature = of_layout().signature
        inputs = make_inputs(signature, SIZES, "controls")
        want = expected(signature, SIZES, inputs, "pallas-interpret")["c"]
        found |= set() if compare("c", outcome.outputs[0], want).ok else {VALUES}
    return found


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.what)
def test_every_control_is_caught(control: Control, outcomes: dict[tuple[str, str], Outcome]) -> None:
    assert control.caught in findings(outcomes[control.what, control.mode])


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.what)
def test_what_plain_hlo_sees(control: Control, outcomes: dict[tuple[str, str], Outcome]) -> None:
    """Where it sees nothing, the simulated TPU is what stands between the kernel and a device."""
    assert bool(findings(outcomes[control.what, "hlo"])) is control.seen_by_hlo


def test_findings_say_where(outcomes: dict[tuple[str, str], Outcome]) -> None:
    bounds = outcomes["index map out of bounds", "tpu"].findings[0].message
    race = outcomes["output block shared by a parallel dim", "tpu"].findings[0].message
    assert bounds.startswith('IndexError: Out-of-bounds block index (2, 0) for input "b_ref"')
    assert race.startswith("RACE DETECTED\n  write of")
