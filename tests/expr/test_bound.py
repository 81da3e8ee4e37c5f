"""The (value, bound) interpreter: never too small (random expressions run in f32), not absurdly large; NaN, edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgen.expr import DTYPES, FUNCTIONS, MACHINES, Bounded, Expression, Typed, Value, check, evaluate, parse, to_numpy
from kgen.expr.machines import Machine
from kgen.expr.numpy_library import library
from kgen.expr.ranges import around, bound_of
from kgen.expr.rounding import round_to

ENV = {"x": Value("f32", "n"), "y": Value("f32", "n")}


def typed(text: str, env: dict[str, Value] | None = None) -> Typed:
    expression = parse(text)
    assert isinstance(expression, Expression), expression
    result = check(expression, env or ENV)
    assert isinstance(result, Typed), result
    return result


def bounds(text: str, x: Any, y: Any = 0.0, error: float = 0.0, machine: str = "cuda") -> tuple[Any, Any]:
    """Value and bound of f32(text) at the f32 numbers x and y, each known to within `error` of itself."""
    expression = typed(f"f32({text})")
    numbers = {"x": np.atleast_1d(np.asarray(x, np.float64)), "y": np.atleast_1d(np.asarray(y, np.float64))}
    # a shaken subnormal moves by a whole unit of 2^-149
    radius = {
        name: np.where(np.isfinite(v), np.abs(v), 0.0) * error + 1.5e-45 * (error > 0) for name, v in numbers.items()
    }
    env = {name: Bounded(numbers[name], radius[name]) for name in expression.names}
    result = evaluate(expression, env, machine)
    return result.value, result.bound


def run(text: str, x: Any, y: Any) -> Any:
    """`text` computed in f32."""
    printed = to_numpy(typed(text), {"x": "x", "y": "y"})
    with np.errstate(all="ignore"):
        computed = eval(printed.text, {**library(), "np": np, "x": x, "y": y})
    return np.broadcast_to(np.asarray(computed, np.float32), x.shape)


def within(computed: Any, value: Any, bound: Any) -> Any:
    """Where the computed value is one that (value, bound) admits."""
    computed = computed.astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = np.abs(computed - value) <= bound
    same = (computed == value) | (np.isnan(computed) & np.isnan(value))
    return same | near | np.isinf(bound)


def _unary(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    names = [n for n, f in FUNCTIONS.items() if len(f.parameters) == 1] + list(DTYPES)
    return st.builds("{}({})".format, st.sampled_from([*names, "-"]), inner)


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    comparison = st.builds("{} {} {}".format, inner, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), inner)
    logical = st.builds("({}) {} not ({})".format, comparison, st.sampled_from(["and", "or"]), comparison)
    return st.one_of(
        _unary(inner),
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*/"), inner),
        st.builds("{}({}, {})".format, st.sampled_from(["max", "min"]), inner, inner),
        st.builds("clamp({}, {}, {})".format, inner, inner, inner),
        st.builds("where({}, {}, {})".format, comparison | logical, inner, inner),
    )


LEAVES = st.sampled_from(["x", "y", "x", "y", "0.5", "1", "3", "0", "100", "1e-3", "1e20"])
EXPRESSIONS = st.recursive(LEAVES, _grown, max_leaves=8)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(EXPRESSIONS, st.integers(0, 2**32 - 1))
def test_f32_results_lie_within_the_bound(text: str, seed: int) -> None:
    """Inputs are perturbed by up to their bound; results are computed in f32 with rounded operations."""
    rng = np.random.default_rng(seed)
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 3e38, 1e-40]
    x, y = (np.concatenate([rng.normal(scale=s, size=20) for s in (0.1, 1, 30)] + [special]) for _ in range(2))
    x, y = x.astype(np.float32), rng.permutation(y).astype(np.float32)
    shaken = [(v.astype(np.float64) * (1 + 1e-5 * rng.uniform(-1, 1, v.size))).astype(np.float32) for v in (x, y)]
    value, bound = bounds(text, x, y, 1.01e-5)
    assert np.all(bound >= 0)
    assert np.all(within(run(text, *shaken), value, bound))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(EXPRESSIONS, st.integers(0, 2**32 - 1))
def test_exact_inputs(text: str, seed: int) -> None:
    """Without input error, NaN and infinite results have to agree too where they are certain."""
    rng = np.random.default_rng(seed)
    pool = np.array([0.0, -0.0, 1.0, -2.0, 0.5, np.inf, -np.inf, np.nan, 1e38, 7.25, -1e-3], np.float32)
    x, y = rng.choice(pool, 60), rng.choice(pool, 60)
    value, bound = bounds(text, x, y)
    assert np.all(within(run(text, x, y), value, bound))


@pytest.mark.parametrize(
    ("text", "relative"),
    [
        ("x * y + 1", 4e-7), ("relu(x) * y", 2e-7), ("gelu_tanh(x * y + 0.5)", 4e-6), ("gelu(x)", 4e-6),
        ("silu(x) * y", 3e-6), ("sigmoid(x)", 2e-6), ("clamp(x, -1, 1)", 0.0), ("bf16(x)", 0.0), ("exp(x)", 4e-7),
        ("x * rsqrt(y * y + 1)", 1e-6), ("tanh(x / 30) * 30", 1e-6), ("where(x > 0, x, 0.01 * x)", 2e-7),
    ],
)  # fmt: skip
def test_bound_is_tight_on_epilogues(text: str, relative: float) -> None:
    """Exact inputs of size 1: the bound is a few f32 roundings of the largest value, no more."""
    rng = np.random.default_rng(3)
    x, y = (rng.normal(size=500).astype(np.float32) for _ in range(2))
    value, bound = bounds(text, x, y)
    assert np.max(bound) <= relative * max(1.0, float(np.max(np.abs(value))))
    assert np.all(within(run(text, x, y), value, bound))


def test_input_error_is_passed_on_with_the_slope() -> None:
    """Around 1, exp has slope e; the bound is between once and twice that."""
    _, bound = bounds("exp(x)", 1.0, error=1e-3)
    assert 1e-3 * np.e <= bound[0] <= 2e-3 * np.e


def test_cancellation_is_seen() -> None:
    value, bound = bounds("(x + 1e8) - 1e8", 1.0)
    assert value[0] == 1.0 and bound[0] >= 1.0


def test_uncertain_condition_covers_both_branches() -> None:
    value, bound = bounds("where(x > 1, 10, 0)", [1.0 + 1e-7, 2.0], error=1e-6)
    assert list(value) == [10.0, 10.0] and bound[0] == 10.0 and bound[1] == 0.0


def test_division_near_zero_admits_anything_and_far_from_zero_does_not() -> None:
    _, bound = bounds("1 / (x - y)", [1.0, 2.0], 1.0, error=1e-6)
    assert np.isinf(bound[0]) and bound[1] < 1e-5


def test_overflow_that_may_happen_is_followed() -> None:
    """exp(-x) may be finite or infinite just where it overflows; x / (1 + exp(-x)) is tiny either way."""
    value, bound = bounds("silu(x)", [-88.72284, -300.0], error=1e-6)
    assert np.all(np.abs(value) < 1e-36) and np.all(bound < 1e-36)


SPECIAL = [
    ("max(x, 1)", np.nan, np.nan), ("min(1, x)", np.nan, np.nan), ("relu(x)", np.nan, np.nan),
    ("clamp(x, 0, 1)", np.nan, np.nan), ("clamp(1, 0, x)", np.nan, np.nan), ("i8(x)", np.nan, 0.0),
    ("i8(x)", 300.0, 127.0), ("i8(x)", -300.0, -128.0), ("i8(x)", 2.5, 2.0), ("i8(x)", 3.5, 4.0),
    ("i32(x)", 1e7, 1e7), ("i32(x)", -np.inf, -2147483648.0), ("f16(x)", 65519.0, 65504.0),
    ("f16(x)", 65520.0, np.inf), ("bf16(x)", 1.00390625, 1.0), ("x / 0", 1.0, np.inf), ("x / 0", -1.0, -np.inf),
    ("x / 0", 0.0, np.nan), ("1 / x", -0.0, -np.inf), ("log(x)", -1.0, np.nan), ("log(x)", 0.0, -np.inf),
    ("sqrt(x)", -1.0, np.nan), ("rsqrt(x)", 0.0, np.inf), ("rsqrt(x)", np.inf, 0.0), ("exp(x)", 89.0, np.inf),
    ("x * 1e38", 10.0, np.inf), ("x - x", np.inf, np.nan), ("where(x > 0, 1, 2)", np.nan, 2.0),
    ("where(x != x, 1, 2)", np.nan, 1.0), ("where(not x <= 0, 1, 2)", np.nan, 1.0), ("round(x)", 2.5, 2.0),
    ("floor(x)", -0.5, -1.0), ("where(x == 0, 1, 2)", -0.0, 1.0),
]  # fmt: skip


@pytest.mark.parametrize(("text", "x", "expected"), SPECIAL, ids=[f"{row[0]} at {row[1]}" for row in SPECIAL])
def test_special_values_are_certain(text: str, x: float, expected: float) -> None:
    value, bound = bounds(text, x)
    np.testing.assert_array_equal(value[0], expected)
    assert bound[0] == 0.0
    np.testing.assert_array_equal(run(text, np.array([x], np.float32), np.array([0.0], np.float32))[0], expected)


def test_controls_a_wrong_result_is_outside() -> None:
    """The bound of gelu tells it from gelu_tanh, and max from NaN-dropping fmax."""
    x = np.linspace(-3, 3, 50).astype(np.float32)
    value, bound = bounds("gelu(x)", x)
    assert not np.all(within(run("gelu_tanh(x)", x, x), value, bound))
    value, bound = bounds("max(x, 0)", np.nan)
    assert not within(np.array([0.0], np.float32), value, bound)[0]


def test_integers_lose_bits_only_beyond_24() -> None:
    env = {"i": Value("i32", "n"), "j": Value("i32", "n")}
    expression = typed("where(i == j, 1, 2)", env)
    big = {"i": Bounded(np.array([16777217.0]), np.zeros(1)), "j": Bounded(np.array([16777216.0]), np.zeros(1))}
    assert evaluate(expression, big, "cuda").value[0] == 2.0
    result = evaluate(typed("i + 0", env), big, "cuda")
    assert 1.0 <= result.bound[0] < 2.1


def test_axes_are_aligned() -> None:
    env = {"a": Value("f32", "nm"), "r": Value("f32", "m"), "s": Value("f32")}
    a, r = np.arange(6.0).reshape(3, 2), np.array([10.0, 20.0])
    given_values = {
        "a": Bounded(a, np.zeros((3, 2))),
        "r": Bounded(r, np.zeros(2)),
        "s": Bounded(np.array(1.0), np.array(0.0)),
    }
    result = evaluate(typed("a + r * s", env), given_values, "cuda")
    np.testing.assert_array_equal(result.value, a.T + r[:, None])


def test_flushed_subnormals_are_admitted_on_machines_that_flush() -> None:
    for name, expected in (("cuda", 0.0), ("pallas-interpret", 1e-39)):
        value, bound = bounds("x * 1", np.float64(np.float32(1e-39)), machine=name)
        assert bound[0] == pytest.approx(expected, rel=1e-6) and value[0] > 0


@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda machine: machine.name)
def test_machines_state_every_primitive_and_a_source(machine: Machine) -> None:
    exact = {"max", "min", "abs", "floor", "round", "where"}
    primitives = {name for name, function in FUNCTIONS.items() if not function.definition}
    assert set(machine.ulps) == (primitives - exact) | set("+-*/")
    assert all(error >= 0.5 for error in machine.ulps.values()) and machine.source


def test_around_and_bound_are_inverse() -> None:
    value = np.array([1.0, np.inf, np.nan, 2.0, -np.inf])
    bound = np.array([0.5, 0.0, 0.0, np.inf, 0.0])
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(bound_of(around(value, bound)), bound)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.floats(width=32, allow_nan=True), st.sampled_from(["f16", "bf16", "f32"]))
def test_rounding_agrees_with_the_formats(x: float, name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    native = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}[name]
    with np.errstate(over="ignore"):
        expected = np.float32(x).astype(native).astype(np.float64)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(round_to(np.array(x), DTYPES[name]), expected)


def test_integers_saturate() -> None:
    result = evaluate(typed("i32(x)"), {"x": Bounded(np.array([3e9, -3e9]), np.zeros(2))}, "cuda")
    assert list(result.value) == [2147483647.0, -2147483648.0] and not result.bound.any()
