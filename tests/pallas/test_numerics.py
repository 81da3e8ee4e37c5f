"""Generated kernels against float64 NumPy, in every mode, over layouts, epilogues and edges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product

import numpy as np
import pytest
from builders import ALPHA, BIAS, kernel, text

from kgen.execute.pallas import Outcome, Run, execute
from kgen.spec.kernel import Kernel, Operand
from kgen.verify.compare import compare
from kgen.verify.inputs import make_inputs
from kgen.verify.tolerance import expected

Sizes = Mapping[str, int]
EDGES = ((1, 1, 1), (127, 129, 128), (129, 127, 127), (7, 131, 257), (256, 128, 256), (0, 5, 3), (5, 3, 0))
RESIDUAL = Operand("residual", "bf16", "mn")
ROW = Operand("row", "bf16", "m")


def sizes_of(shape: Sequence[int]) -> Sizes:
    """(m, n, k) or (m, n, k, b) as sizes."""
    return dict(zip("mnkb", shape, strict=False))


def run(of: Kernel, cases: Iterable[tuple[Sequence[int], str, int]]) -> list[Outcome]:
    """Executes (shape, mode, seed) cases and checks every output against its bound."""
    cases = list(cases)
    source, signature = text(of), of.signature
    inputs = [make_inputs(signature, sizes_of(shape), "seed") for shape, _, _ in cases]
    runs = [
        Run(source, of.name, tuple(arrays.values()), mode, seed)
        for arrays, (_, mode, seed) in zip(inputs, cases, strict=True)
    ]
    outcomes = execute(runs)
    assert isinstance(outcomes, tuple)
    for outcome, arrays, (shape, mode, _) in zip(outcomes, inputs, cases, strict=True):
        assert not outcome.findings, (shape, mode, outcome.findings)
        want = expected(signature, sizes_of(shape), arrays, "pallas-interpret")
        for output, computed in zip(signature.outputs, outcome.outputs, strict=True):
            result = compare(output.name, computed, want[output.name])
            assert result.ok, (shape, mode, str(result))
    return list(outcomes)


def test_edges() -> None:
    of = kernel(extras=(), outputs=[("c", "f32", "acc")])
    run(of, [(shape, "hlo", 0) for shape in EDGES])


@pytest.mark.parametrize("layouts", list(product(("mk", "km"), ("nk", "kn"))))
def test_layouts(layouts: tuple[str, str]) -> None:
    of = kernel(dtype="f32", layouts=layouts, extras=(), outputs=[("c", "f32", "acc")])
    run(of, [((130, 7, 129), "hlo", 0)])


def test_epilogue_with_every_kind_of_input_and_several_outputs() -> None:
    of = kernel(
        extras=(BIAS, ALPHA, ROW, RESIDUAL, Operand("beta", "bf16", "")),
        outputs=[
            ("c", "bf16", "gelu_tanh(alpha * acc + bias) + beta * residual"),
            ("pre", "f32", "clamp(acc + row, -1, 1)"),
            ("copy", "bf16", "residual"),
        ],
        tile=(128, 128, 256),
    )
    run(of, [(shape, "hlo", 0) for shape in ((129, 130, 300), (31, 127, 0), (0, 2, 2))])


@pytest.mark.parametrize(
    ("layouts", "extras"),
    [
        (("bmk", "bnk"), (Operand("bias", "f32", "bn"), ALPHA)),
        (("bmk", "nk"), (BIAS, ALPHA)),
        (("km", "bkn"), (Operand("bias", "f32", "bmn"), ALPHA)),
        (("mk", "kn"), (Operand("bias", "f32", "bm"), ALPHA)),
    ],
)
def test_batches(layouts: tuple[str, str], extras: tuple[Operand, ...]) -> None:
    of = kernel(layouts=layouts, extras=extras)
    run(of, [(shape, "hlo", 0) for shape in ((130, 5, 129, 3), (2, 3, 0, 2))])


@pytest.mark.parametrize(("batched", "seeds"), [(False, 2), (True, 1)])
def test_simulated_tpu_gives_the_same_bits_in_any_order(batched: bool, seeds: int) -> None:
    of = kernel(layouts=("bmk", "nk") if batched else ("mk", "kn"), tile=(8, 128, 128))
    shape = (8, 129, 129, 2) if batched else (9, 130, 257)
    outcomes = run(of, [*((shape, "tpu", seed) for seed in range(seeds)), (shape, "eager", 0), (shape, "hlo", 0)])
    first = outcomes[0].outputs[0].tobytes()
    assert all(outcome.outputs[0].tobytes() == first for outcome in outcomes)


def test_a_k_that_needs_no_mask_by_contract() -> None:
    of = kernel(multiple_of={"k": 128})
    assert "k_tail" not in text(of)
    run(of, [((5, 6, 256), "hlo", 0), ((5, 6, 0), "hlo", 0)])


GOOD = {"a": np.zeros((4, 8), "f4"), "b": np.zeros((3, 8), "f4"), "bias": np.zeros(3, "f4"), "alpha": 0.5}


REFUSED: tuple[tuple[Mapping[str, object], str], ...] = (
    ({"a": np.zeros((4, 8), "f2")}, "dtype: a is float16; it must be float32"),
    ({"b": np.zeros((3, 16), "f4")}, "shape: k is 16 in b; it is 8 in an operand before it"),
    ({"bias": np.zeros((1, 3), "f4")}, "rank: bias has shape (1, 3); it must be [n]"),
    ({"alpha": np.zeros(1, "f4")}, "rank: alpha has shape (1,); it must be []"),
    (
        {"a": np.zeros((4, 9), "f4"), "b": np.zeros((3, 9), "f4")},
        "multiple_of: k is 9; it must be a multiple of 8",
    ),
)


def test_refusals_name_the_clause_and_its_numbers() -> None:
    of = kernel(dtype="f32", multiple_of={"k": 8})
    runs = [Run(text(of), of.name, tuple({**GOOD, **change}.values()), "hlo") for change, _ in REFUSED]  # type: ignore[arg-type]
    outcomes = execute(runs)
    assert isinstance(outcomes, tuple)
    messages = [[finding.message for finding in outcome.findings] for outcome in outcomes]
    assert messages == [[f"ValueError: {message}"] for _, message in REFUSED]
