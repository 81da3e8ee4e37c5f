"""Inputs, tolerances, shapes and comparison, each with a control: what is wrong is caught, what is right passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kgen.expr import Expression, Typed, Value, check, parse
from kgen.spec.kernel import Operand, Output, Signature
from kgen.verify.arrays import numpy_dtype, to_dtype
from kgen.verify.compare import Comparison, compare, first_difference
from kgen.verify.inputs import TAME, WILD, ZERO, make_inputs
from kgen.verify.shapes import cases
from kgen.verify.tolerance import Expected, expected, gamma, products

pytest.importorskip("ml_dtypes")
SIZES = {"m": 40, "n": 24, "k": 200}


def typed(text: str, extras: Mapping[str, Value], acc: Value) -> Typed:
    expression = parse(text)
    assert isinstance(expression, Expression), expression
    result = check(expression, {"acc": acc, **extras})
    assert isinstance(result, Typed), result
    return result


def gemm(
    value: str = "acc", dtype: str = "bf16", out: str = "bf16", extras: Sequence[Operand] = (),
    layouts: tuple[str, str, str] = ("mk", "nk", "mn"), f32_mma: str | None = None,
    multiple_of: Mapping[str, int] | None = None,
) -> Signature:  # fmt: skip
    acc = Value("i32" if dtype == "i8" else "f32", layouts[2])
    env = {operand.name: Value(operand.dtype, operand.layout) for operand in extras}
    a, b = Operand("a", dtype, layouts[0]), Operand("b", dtype, layouts[1])
    output = Output("c", out, layouts[2], typed(value, env, acc))
    return Signature("g", "gemm", (a, b, *extras), (output,), multiple_of or {}, acc.dtype, f32_mma)


def tf32(x: Any) -> Any:
    """Rounded to 11 significant bits."""
    mantissa, exponent = np.frexp(x.astype(np.float64))
    return np.ldexp(np.rint(mantissa * 2**11) / 2**11, exponent)


def product(inputs: Mapping[str, Any], rounding: Callable[[Any], Any] = lambda x: x) -> Any:
    """a @ b.T summed in f32, one k after the other."""
    a, b = (rounding(inputs[name].astype(np.float32)).astype(np.float32) for name in "ab")
    acc = np.zeros((a.shape[0], b.shape[0]), np.float32)
    for k in range(a.shape[1]):
        acc += np.outer(a[:, k], b[:, k])
    return acc


def verdict(signature: Signature, computed: Any, inputs: Mapping[str, Any], machine: str = "cuda") -> Comparison:
    output = signature.outputs[0]
    wanted = expected(signature, SIZES, inputs, machine)["c"]
    return compare("c", to_dtype(computed, output.dtype), wanted)


def test_inputs_depend_on_seed_name_and_shape_only() -> None:
    plain = make_inputs(gemm(), SIZES, "digest")
    bias = Operand("bias", "f32", "n")
    more = make_inputs(gemm("acc + bias", extras=(bias,)), SIZES, "digest")
    assert first_difference(plain["a"], more["a"]) is None
    assert first_difference(plain["a"], make_inputs(gemm(), SIZES, "other")["a"]) is not None
    assert plain["a"].dtype == numpy_dtype("bf16") and plain["a"].shape == (40, 200)


def test_inputs_are_scaled_so_that_the_product_has_variance_one() -> None:
    inputs = make_inputs(gemm(dtype="f32"), SIZES, "s")
    assert 0.9 < np.std(product(inputs)) < 1.1


def test_scalars_and_integers() -> None:
    signature = gemm("f32(acc) * alpha", dtype="i8", extras=(Operand("alpha", "f32", ""),))
    inputs = make_inputs(signature, SIZES, "s")
    assert inputs["alpha"].shape == () and 0.5 <= inputs["alpha"] < 2
    assert inputs["a"].dtype == np.int8 and inputs["a"].min() < -100 and inputs["a"].max() > 100


EPILOGUES = [
    ("acc", "bf16", ()),
    ("acc", "f32", ()),
    ("gelu_tanh(alpha * acc + bias)", "bf16", (Operand("bias", "bf16", "n"), Operand("alpha", "f32", ""))),
    ("relu(acc) * row + full", "f16", (Operand("row", "f32", "m"), Operand("full", "bf16", "mn"))),
    ("i8(acc * 40)", "i8", ()),
    ("where(acc > 0, 1 / acc, -1)", "f32", ()),
    ("acc * 1e5", "f16", ()),
]


def computed_f32(signature: Signature, inputs: Mapping[str, Any]) -> Any:
    """The epilogue in f32 on a product summed in f32."""
    from kgen.expr import to_numpy
    from kgen.expr.numpy_library import library

    layouts = {operand.name: operand.layout for operand in signature.inputs}
    scope = {name: array.astype(np.float32) for name, array in inputs.items()}
    scope = {name: array[:, None] if layouts[name] == "m" else array for name, array in scope.items()}
    value = signature.outputs[0].value
    text = to_numpy(value, {name: name for name in value.names}).text
    with np.errstate(all="ignore"):
        return eval(text, {**library(), "np": np, **scope, "acc": product(inputs)})


@pytest.mark.parametrize("machine", ["cuda", "pallas", "pallas-interpret"])
@pytest.mark.parametrize(("value", "out", "extras"), EPILOGUES, ids=[row[0] for row in EPILOGUES])
def test_f32_results_pass(value: str, out: str, extras: Sequence[Operand], machine: str) -> None:
    signature = gemm(value, out=out, extras=extras)
    inputs = make_inputs(signature, SIZES, "s")
    assert verdict(signature, computed_f32(signature, inputs), inputs, machine).ok


@pytest.mark.parametrize(
    "broken",
    [
        lambda acc, a, b: acc + 0.05 * (np.arange(acc.size).reshape(acc.shape) == 77),
        lambda acc, a, b: product({"a": a[:, :-1], "b": b[:, :-1]}),
        lambda acc, a, b: np.roll(acc, 1, axis=0),
        lambda acc, a, b: np.where(np.arange(acc.shape[1]) == 23, np.nan, acc),
        lambda acc, a, b: acc * (1 + 2.0**-7),
        lambda acc, a, b: 2.0**-7 * np.trunc(acc * 2.0**7),
    ],
    ids=["one element off", "last k missing", "rows shifted", "column left poisoned", "scaled by an ulp", "truncated"],
)
def test_controls_wrong_products_are_caught(broken: Callable[..., Any]) -> None:
    signature = gemm()
    inputs = make_inputs(signature, SIZES, "s")
    right = product(inputs)
    assert verdict(signature, right, inputs).ok
    wrong = verdict(signature, broken(right, inputs["a"], inputs["b"]), inputs)
    assert not wrong.ok and "are wrong; worst: c[" in str(wrong)


def test_control_the_wrong_epilogue_is_caught_even_in_bf16() -> None:
    inputs = make_inputs(gemm(), SIZES, "s")
    inputs = {**inputs, "a": (inputs["a"] * 3).astype(inputs["a"].dtype)}
    signature, other = gemm("gelu(acc)"), gemm("gelu_tanh(acc)", out="f32")
    assert not verdict(replace(signature, outputs=gemm("gelu(acc)", out="f32").outputs),
                       computed_f32(other, inputs), inputs).ok  # fmt: skip


def test_a_loosened_bound_passes_what_was_caught() -> None:
    signature = gemm(out="f32")
    inputs = make_inputs(signature, SIZES, "s")
    wanted = expected(signature, SIZES, inputs, "cuda")["c"]
    wrong = (product(inputs) + 1e-3).astype(np.float32)
    assert not compare("c", wrong, wanted).ok
    assert compare("c", wrong, Expected(wanted.value, wanted.bound + 1e-3)).ok


def test_bound_is_not_absurdly_loose() -> None:
    """200 truncated additions of numbers that sum to 1: below 1e-4, some 300 roundings of a typical magnitude."""
    signature = gemm(out="f32")
    inputs = make_inputs(signature, SIZES, "s")
    wanted = expected(signature, SIZES, inputs, "cuda")["c"]
    result = compare("c", product(inputs), wanted)
    assert 1e-3 < result.ratio < 1 and np.max(wanted.bound) < 1e-3


def test_f32_products_by_their_instruction() -> None:
    """TF32 rounding passes as tf32 and is caught as exact; the TPU's six passes are close to f32."""
    exact, rounded = gemm(dtype="f32", out="f32", f32_mma="exact"), gemm(dtype="f32", out="f32", f32_mma="tf32")
    inputs = make_inputs(exact, SIZES, "s")
    assert verdict(exact, product(inputs), inputs).ok
    assert verdict(rounded, product(inputs, tf32), inputs).ok
    assert not verdict(exact, product(inputs, tf32), inputs).ok
    assert products(exact, "pallas").terms == 6 and products(exact, "cuda").terms == 1


def test_bf16_parts_of_f32() -> None:
    """Products of bf16 parts, three and six of them, lie within the bounds stated for them and not much below."""
    rng = np.random.default_rng(5)
    a, b = (np.abs(rng.normal(size=20000)).astype(np.float32).astype(np.float64) for _ in range(2))

    def parts(x: Any) -> list[Any]:
        found: list[Any] = []
        for _ in range(3):
            found.append(to_dtype(x - sum(found), "bf16").astype(np.float64))
        return found

    (a0, a1, a2), (b0, b1, b2) = parts(a), parts(b)
    three = a0 * b0 + a0 * b1 + a1 * b0
    six = three + a1 * b1 + a0 * b2 + a2 * b0
    for computed, f32_mma, machine in ((three, "bf16x3", "cuda"), (six, "exact", "pallas")):
        model = products(gemm(dtype="f32", f32_mma=f32_mma), machine)
        worst = np.max(np.abs(computed - a * b) / (a * b))
        assert model.operands / 8 < worst <= model.operands


def test_integer_products_are_exact() -> None:
    signature = gemm(dtype="i8", out="i32")
    inputs = make_inputs(signature, SIZES, "s")
    acc = inputs["a"].astype(np.int64) @ inputs["b"].astype(np.int64).T
    assert verdict(signature, acc, inputs).ok
    acc[3, 5] += 1
    wrong = verdict(signature, acc, inputs)
    assert not wrong.ok and wrong.index == (3, 5) and wrong.ratio == np.inf


def test_overflow_to_infinity_is_expected() -> None:
    signature = gemm("acc * 1e5", out="f16")
    inputs = make_inputs(signature, SIZES, "s")
    wanted = expected(signature, SIZES, inputs, "cuda")["c"]
    assert np.isinf(wanted.value).any() and not np.isinf(wanted.bound).all()
    finite = np.clip(computed_f32(signature, inputs), -65504, 65504)
    assert not verdict(signature, finite, inputs).ok


def test_k_zero_gives_the_value_at_zero() -> None:
    bias = Operand("bias", "f32", "n")
    signature = gemm("acc + bias", out="f32", extras=(bias,))
    sizes = {**SIZES, "k": 0}
    inputs = make_inputs(signature, sizes, "s")
    wanted = expected(signature, sizes, inputs, "cuda")["c"]
    np.testing.assert_array_equal(wanted.value, np.broadcast_to(inputs["bias"], (40, 24)))
    assert not wanted.bound.any()


@pytest.mark.parametrize(
    "layouts", [("bmk", "nk", "bmn"), ("mk", "bkn", "bmn"), ("bkm", "bnk", "bmn"), ("mk", "nk", "bmn")]
)
def test_layouts_and_batches(layouts: tuple[str, str, str]) -> None:
    extras = (Operand("s", "f32", "bn"), Operand("t", "f32", "m"))
    signature = gemm("acc * s + t", out="f32", layouts=layouts, extras=extras)
    sizes = {"b": 3, "m": 5, "n": 4, "k": 6}
    inputs = make_inputs(signature, sizes, "s")
    batched = "b" in layouts[0] + layouts[1]
    a, b = (inputs[name].astype(np.float64) for name in "ab")
    acc = np.einsum(f"{layouts[0]},{layouts[1]}->{'bmn' if batched else 'mn'}", a, b)
    right = acc * inputs["s"][:, None, :] + inputs["t"][None, :, None]
    result = compare("c", right.astype(np.float32), expected(signature, sizes, inputs, "cuda")["c"])
    assert result.ok and result.elements == 60


def test_gamma() -> None:
    assert gamma(0, 2.0**-24) == 0.0 and gamma(2**24, 2.0**-24) == np.inf
    assert gamma(100, 2.0**-24) == pytest.approx(100 * 2.0**-24, rel=1e-4)


def test_empty_and_unchecked_outputs() -> None:
    empty = compare("c", np.zeros((0, 4), np.float32), Expected(np.zeros((0, 4)), np.zeros((0, 4))))
    assert empty.ok and empty.elements == 0
    nothing = compare("c", np.zeros(3, np.float32), Expected(np.zeros(3), np.full(3, np.inf)))
    assert not nothing.ok and "nothing is checked" in str(nothing)
    with pytest.raises(ValueError, match="shape"):
        compare("c", np.zeros(3, np.float32), Expected(np.zeros(4), np.zeros(4)))


def test_more_than_one_percent_of_unknown_elements_fails() -> None:
    computed, bound = np.zeros(1000, np.float32), np.zeros(1000)
    bound[:10] = np.inf
    few = compare("c", computed, Expected(np.zeros(1000), bound))
    assert few.ok and "10 without a finite bound" in str(few)
    bound[10] = np.inf
    many = compare("c", computed, Expected(np.zeros(1000), bound))
    assert not many.ok and "11 of 1000 elements have no finite bound" in str(many)
    assert compare("c", computed, Expected(np.zeros(1000), bound), most_unknown=1.0).ok


def test_nan_and_infinity_agree_only_with_themselves() -> None:
    value = np.array([np.nan, np.inf, -np.inf, 1.0])
    wanted = Expected(value, np.zeros(4))
    assert compare("c", value.astype(np.float32), wanted).ok
    for index, wrong in ((0, 0.0), (1, -np.inf), (1, np.nan), (2, 3e38), (3, np.nan), (3, np.inf)):
        computed = value.astype(np.float32)
        computed[index] = wrong
        assert compare("c", computed, wanted).wrong == 1


def test_first_difference_is_of_bits() -> None:
    x = np.array([[0.0, np.nan], [1.0, 2.0]], np.float32)
    assert first_difference(x, x.copy()) is None
    assert first_difference(x, np.array([[-0.0, np.nan], [1.0, 2.0]], np.float32)) == (0, 0)
    with pytest.raises(ValueError, match="bit by bit"):
        first_difference(x, x[0])


def test_rounding_to_a_dtype() -> None:
    assert to_dtype([1.00390625, 1.01171875], "bf16").astype(np.float64).tolist() == [1.0, 1.015625]
    assert to_dtype([300.0, -2.5], "i8").tolist() == [127, -2]


def test_shapes_cover_the_edges() -> None:
    tile = {"m": 128, "n": 64, "k": 32}
    found = cases(gemm(), tile, [{"m": 7, "n": 9, "k": 11}])
    sizes = [dict(case.sizes) for case in found]
    assert sizes[0] == {"m": 7, "n": 9, "k": 11} and len(found) >= 14
    for dim in "mnk":
        seen = {shape[dim] for shape in sizes}
        assert {0, 1, tile[dim] - 1, tile[dim], tile[dim] + 1} <= seen
    assert {65, 127} <= {shape["k"] for shape in sizes} and not any(case.refused for case in found)
    assert len({(case.sizes, case.draw) for case in found}) == len(found)
    assert [(dict(case.sizes), case.draw) for case in found if case.draw != TAME] == [(tile, WILD)]


def test_shapes_respect_the_declared_multiples_and_break_each_once() -> None:
    found = cases(gemm(multiple_of={"k": 8, "n": 4}), {"m": 64, "n": 64, "k": 64})
    inside = [dict(case.sizes) for case in found if not case.refused]
    assert all(shape["k"] % 8 == 0 and shape["n"] % 4 == 0 for shape in inside)
    assert [case.refused for case in found if case.refused] == [("n",), ("k",)]
    assert any(shape["k"] == 0 for shape in inside) and "k is no multiple of 8" in {case.why for case in found}


def test_edges_of_a_plan_are_rounded_and_filled_up_with_the_tile() -> None:
    edges = [({"k": 13}, "deep"), ({"m": 33, "n": 17, "k": 1}, "grouped")]
    found = cases(gemm(multiple_of={"k": 8}), {"m": 16, "n": 16, "k": 8}, (), edges)
    sizes = {case.why: dict(case.sizes) for case in found}
    assert sizes["deep"] == {"m": 16, "n": 16, "k": 16}
    assert sizes["grouped"] == {"m": 33, "n": 17, "k": 8}


def test_draws_out_of_the_ordinary() -> None:
    extras = (Operand("alpha", "f32", ""), Operand("full", "bf16", "mn"), Operand("count", "i32", "n"))
    signature = gemm("alpha * acc + full + f32(count)", extras=extras)
    assert {case.draw for case in cases(signature, SIZES)} == {TAME, WILD, ZERO}
    tame, wild, zero = (make_inputs(signature, SIZES, "s", draw) for draw in (TAME, WILD, ZERO))
    assert float(wild["alpha"]) < 0 and float(zero["alpha"]) == 0
    full = wild["full"].astype(np.float64)
    assert 0.05 < np.mean(~np.isfinite(full)) < 0.15
    assert np.isnan(full).any() and {np.inf, -np.inf, 2.0**40, -(2.0**40), 2.0**-126} <= set(full.ravel().tolist())
    assert (np.signbit(full) & (full == 0)).any() and -(2**31) in wild["count"]
    for name in "ab":
        np.testing.assert_array_equal(wild[name].astype(np.float64), 32 * tame[name].astype(np.float64))
        assert first_difference(zero[name], tame[name]) is None


def test_wild_inputs_saturate_an_integer_cast() -> None:
    signature = gemm("i8(acc)", out="i8")
    wild = make_inputs(signature, SIZES, "s", WILD)
    found = to_dtype(product(wild), "i8")
    assert {-128, 127} <= set(found.ravel().tolist())


def test_batched_shapes_have_a_batch() -> None:
    found = cases(gemm(layouts=("bmk", "nk", "bmn")), {"m": 16, "n": 8, "k": 8})
    assert {dict(case.sizes)["b"] for case in found} >= {0, 1, 2, 3}
    assert all(set(dict(case.sizes)) == set("mnkb") for case in found)
