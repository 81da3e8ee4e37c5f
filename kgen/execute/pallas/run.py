"""Runs of generated Pallas kernels: what is run, how, and what comes of it.

What each mode is for (found by seeding bugs, jax 0.10.2):
- `hlo`: the kernel as one XLA program, steps in order. Values; memory that nothing wrote holds NaN.
- `tpu`: a simulated TPU with two cores, copies that complete only when waited for, and vector clocks on every buffer.
  Adds races between steps that are declared parallel, reads before a copy has been waited for, and accesses out of
  bounds. The order of parallel steps is drawn by `seed`: equal outputs for several seeds show that it does not matter.
- `eager`: the same with one core and copies that complete at once. A difference to `tpu` is a copy that nothing orders.
"""

from __future__ import annotations

import contextlib
import io
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgen.toolchain.child import ChildError, Limits, Retire, run
from kgen.toolchain.jax_env import INTERPRET_ENVIRONMENT, MissingTool, interpreter_versions, load_module

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

MODES = ("hlo", "tpu", "eager")
LIMITS = Limits(seconds=120.0, memory_bytes=6 << 30)


@dataclass(frozen=True, eq=False)
class Run:
    """One call of a generated file's entry point."""

    text: str
    entry: str
    inputs: tuple[Array | float, ...]
    """In the order of the entry point's parameters; bf16 arrays have ml_dtypes' dtype."""
    mode: str
    seed: int = 0
    """Draws the order of parallel steps in mode `tpu`."""


@dataclass(frozen=True)
class Finding:
    """Something wrong with a run. `kind`: `race`, `out-of-bounds`, `exception`, `crash`, `timeout` or `memory`."""

    kind: str
    message: str


@dataclass(frozen=True, eq=False)
class Outcome:
    """The outputs of a run, in the order of the entry point's results; none where it did not finish."""

    outputs: tuple[Array, ...]
    findings: tuple[Finding, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Finished, and nothing found."""
        return not self.findings


def execute(runs: Sequence[Run], *, limits: Limits = LIMITS) -> tuple[Outcome, ...] | MissingTool:
    """One outcome a run, in order. A run that raises or crashes takes its process with it, and no other run."""
    tools = interpreter_versions()
    if isinstance(tools, MissingTool):
        return tools
    results = run(f"{__name__}:run_one", runs, INTERPRET_ENVIRONMENT, limits)
    return tuple(_outcome(result) for result in results)


def _outcome(result: object) -> Outcome:
    if isinstance(result, ChildError):
        return Outcome((), (Finding(result.kind, result.message),), 0.0)
    assert isinstance(result, Outcome)
    return result


# ---- in the child ---------------------------------------------------------------------------------------------------


def run_one(item: Run) -> Outcome:
    """Runs one call in this process. An exception in a simulated TPU retires it: later calls would raise that again."""
    start = time.monotonic()
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            outputs = _call(item)
    except Exception as error:
        failed = Outcome((), (Finding(_kind(error), _words(error)),), time.monotonic() - start)
        if item.mode == "hlo":
            return failed
        raise Retire(failed) from error
    findings = tuple(_races(printed.getvalue())) if item.mode == "tpu" else ()
    return Outcome(outputs, findings, time.monotonic() - start)


def _call(item: Run) -> tuple[Array, ...]:
    import numpy as np
    from jax.experimental.pallas import tpu as pltpu

    pltpu.reset_tpu_interpret_mode_state()  # type: ignore[no-untyped-call]
    entry = getattr(load_module(item.text), item.entry)
    result = entry(*item.inputs, interpret=_interpret(item))
    return tuple(np.asarray(array) for array in (result if isinstance(result, tuple) else (result,)))


def _interpret(item: Run) -> Any:
    from jax.experimental.pallas import tpu as pltpu

    if item.mode == "hlo":
        return True
    if item.mode == "eager":
        return pltpu.InterpretParams(dma_execution_mode="eager")
    return pltpu.InterpretParams(detect_races=True, num_cores_or_threads=2, random_seed=item.seed)


def _races(printed: str) -> Iterator[Finding]:
    from jax._src.pallas.mosaic.interpret import interpret_pallas_call

    races = interpret_pallas_call.races  # None where no kernel was called
    if races is not None and races.races_found:
        yield Finding("race", printed.strip() or "race detected")


def _kind(error: Exception) -> str:
    words = str(error)
    return "out-of-bounds" if isinstance(error, IndexError) or "IndexError" in words else "exception"


def _words(error: Exception) -> str:
    """What was raised first: an error inside a callback comes wrapped in the traces of those it went through."""
    lines = f"{type(error).__name__}: {error}".splitlines()
    raised = [index for index, line in enumerate(lines) if re.match(r"\w+(Error|Exception): ", line)]
    return "\n".join(lines[raised[-1] :])[:2000]
