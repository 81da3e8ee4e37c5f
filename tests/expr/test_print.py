"""Printed text, and what it computes when a C++ compiler, JAX and NumPy run it."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgen.expr import (
    FUNCTIONS,
    HELPERS,
    Bounded,
    Expression,
    Typed,
    Value,
    check,
    evaluate,
    parse,
    to_c,
    to_jax,
    to_numpy,
    widened,
)
from kgen.expr.helpers import closure
from kgen.expr.numpy_library import library

ENV = {
    "acc": Value("f32", "mn"), "bias": Value("bf16", "n"), "alpha": Value("f32"),
    "i": Value("i32"), "j": Value("i32"), "q": Value("i8"), "h": Value("f16"),
}  # fmt: skip


def typed(text: str, env: dict[str, Value] | None = None) -> Typed:
    expression = parse(text)
    assert isinstance(expression, Expression), expression
    result = check(expression, env or ENV)
    assert isinstance(result, Typed), result
    return result


GOLDEN = [
    ("gelu_tanh(alpha * acc + bias)", "gelu_tanh(alpha * acc + f32_from_bf16(bias))",
     "gelu_tanh(alpha * acc + bias.astype(jnp.float32))"),
    ("acc", "acc", "acc"),
    ("i", "i", "i"),
    ("acc - (alpha - 1)", "acc - (alpha - 1.0f)", "acc - (alpha - 1.0)"),
    ("(acc - alpha) - 1", "acc - alpha - 1.0f", "acc - alpha - 1.0"),
    ("acc + (alpha + 1)", "acc + (alpha + 1.0f)", "acc + (alpha + 1.0)"),
    ("acc / (alpha * 2)", "acc / (alpha * 2.0f)", "acc / (alpha * 2.0)"),
    ("(acc + 1) * (acc + 2)", "(acc + 1.0f) * (acc + 2.0f)", "(acc + 1.0) * (acc + 2.0)"),
    ("-(-acc)", "-(-acc)", "-(-acc)"),
    ("-(acc + 1)", "-(acc + 1.0f)", "-(acc + 1.0)"),
    ("acc - -1", "acc - -1.0f", "acc - -1.0"),
    ("max(acc, 0.1)", "max_nan(acc, 0.1f)", "jnp.maximum(acc, 0.1)"),
    ("clamp(acc, -1, 1)", "clamp(acc, -1.0f, 1.0f)", "clamp(acc, -1.0, 1.0)"),
    ("rsqrt(acc) + erf(acc)", "rsqrtf(acc) + erff(acc)", "lax.rsqrt(acc) + lax.erf(acc)"),
    ("where(acc > 0, acc, 1e10) * 2", "(acc > 0.0f ? acc : 1e10f) * 2.0f", "jnp.where(acc > 0.0, acc, 1e10) * 2.0"),
    ("where(i < j, 1, q)", "i < j ? 1.0f : f32_from_i8(q)", "jnp.where(i < j, 1.0, q.astype(jnp.float32))"),
    ("where(i < 3, 1, 2)", "f32_from_i32(i) < 3.0f ? 1.0f : 2.0f", "jnp.where(i.astype(jnp.float32) < 3.0, 1.0, 2.0)"),
    ("where(acc>0 and acc<1 or not acc==2, 1, 0)", "(acc > 0.0f && acc < 1.0f) || !(acc == 2.0f) ? 1.0f : 0.0f",
     "jnp.where(((acc > 0.0) & (acc < 1.0)) | jnp.logical_not(acc == 2.0), 1.0, 0.0)"),
    ("bf16(acc) * 2", "f32_from_bf16(bf16_from_f32(acc)) * 2.0f",
     "acc.astype(jnp.bfloat16).astype(jnp.float32) * 2.0"),
    ("i8(acc + 1)", "i8_from_f32(acc + 1.0f)", "i8_from_f32(acc + 1.0)"),
    ("i32(i)", "i", "i"),
    ("f16(i)", "f16_from_f32(f32_from_i32(i))", "i.astype(jnp.float32).astype(jnp.float16)"),
    ("bf16(0.1) * acc", "f32_from_bf16(bf16_from_f32(0.1f)) * acc", "jnp.float32(jnp.bfloat16(0.1)) * acc"),
    ("acc + 1 / 0", "acc + 1.0f / 0.0f", "acc + jnp.divide(1.0, 0.0)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "c", "jax"), GOLDEN, ids=[row[0] for row in GOLDEN])
def test_golden(text: str, c: str, jax: str) -> None:
    expression = typed(text)
    names = {name: name for name in expression.names}
    assert (to_c(expression, names).text, to_jax(expression, names).text) == (c, jax)


def test_names_are_replaced_by_the_targets_text() -> None:
    expression = typed("acc * alpha + bias")
    names = {"acc": "tile[i]", "alpha": "p.alpha", "bias": "load(bias, n)"}
    assert to_c(expression, names).text == "tile[i] * p.alpha + f32_from_bf16(load(bias, n))"


def test_widened_variables_need_no_conversion() -> None:
    expression = widened(typed("acc + bias * i"))
    assert to_c(expression, {name: name for name in expression.names}).text == "acc + bias * i"
    assert widened(typed("bias")).dtype == "f32"


def test_helpers_stand_after_those_they_call() -> None:
    printed = to_c(typed("relu(clamp(acc, 0, 1)) + silu(acc)"), {"acc": "acc"})
    assert printed.helpers == ("max_nan", "min_nan", "relu", "clamp", "silu")
    assert to_jax(typed("relu(acc)"), {"acc": "acc"}).helpers == ("relu",)
    assert to_c(typed("acc + exp(acc)"), {"acc": "acc"}).helpers == ()


@pytest.mark.parametrize("language", sorted(HELPERS))
def test_helper_table_is_in_dependency_order(language: str) -> None:
    seen: set[str] = set()
    for name, helper in HELPERS[language].items():
        assert set(helper.needs) <= seen
        assert set(closure(language, (name,))) >= {name, *helper.needs}
        seen.add(name)


RUN = [
    "gelu_tanh(x * 1.5 + y)", "gelu(x) - silu(y)", "sigmoid(x) * y", "relu(x - y)", "clamp(x, y, 0.5)",
    "max(x, y) - min(x, y) / 3", "where(x < y and not x == 0, x, -y)", "exp(x) + exp2(y) * log(abs(x) + 1)",
    "sqrt(abs(x)) + rsqrt(abs(y) + 0.1) - log2(abs(y) + 1)", "tanh(x) / (erf(y) + 2)", "floor(x * 3) + round(y * 5)",
    "-(x - (y - 1)) * (2 - -x)", "f32(i8(x * 100)) + f32(i32(y * 1e9))", "where(x > 0 or y > 0, 1 / 0, x)",
]  # fmt: skip
XY = {"x": Value("f32", "n"), "y": Value("f32", "n")}


def samples() -> tuple[Any, Any]:
    rng = np.random.default_rng(7)
    special = np.array([0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e30, -200.0, 100.0])
    grid = [rng.choice(special, 40), rng.normal(scale=2.0, size=200)]
    x, y = (np.concatenate([rng.permutation(part) for part in grid]).astype(np.float32) for _ in range(2))
    return x, y


def agree(text: str, computed: Any, machine: str) -> None:
    """Every computed value lies within the interpreter's bound of the exact one."""
    x, y = samples()
    env = {name: Bounded(array.astype(np.float64), np.zeros(array.size)) for name, array in (("x", x), ("y", y))}
    expected = evaluate(typed(text, XY), {name: env[name] for name in typed(text, XY).names}, machine)
    value, bound = np.broadcast_arrays(expected.value, expected.bound)
    exact = (bound == 0) | ~np.isfinite(value)
    same = (computed == value) | (np.isnan(computed) & np.isnan(value))
    with np.errstate(invalid="ignore"):
        near = np.abs(computed.astype(np.float64) - value) <= bound
    assert np.all(np.where(exact, same, near) | np.isinf(bound)), text
    assert np.mean(np.isinf(bound)) < 0.2, "the bound says too little for a test"


@pytest.mark.parametrize("text", RUN)
def test_numpy_text_runs(text: str) -> None:
    expression = typed(text, XY)
    x, y = samples()
    printed = to_numpy(expression, {"x": "x", "y": "y"})
    functions = library()
    assert set(printed.helpers) <= set(functions)
    with np.errstate(all="ignore"):
        computed = eval(printed.text, {**functions, "np": np, "x": x, "y": y})
    assert computed.dtype == np.float32
    agree(text, computed, "cuda")


JAX_HELPERS: dict[str, Any] = {
    "relu": lambda jnp: lambda x: jnp.maximum(x, 0.0),
    "clamp": lambda jnp: lambda x, lo, hi: jnp.minimum(jnp.maximum(x, lo), hi),
    "sigmoid": lambda jnp: lambda x: 1.0 / (1.0 + jnp.exp(-x)),
    "silu": lambda jnp: lambda x: x / (1.0 + jnp.exp(-x)),
    "gelu": lambda jnp: lambda x: 0.5 * x * (1.0 + __import__("jax").lax.erf(0.70710678 * x)),
    "gelu_tanh": lambda jnp: lambda x: (
        0.5 * x * (1.0 + jnp.tanh(0.79788456 * (x + 0.044715 * x * x * x)))
    ),
    "i8_from_f32": lambda jnp: lambda x: jnp.where(x != x, 0, jnp.clip(jnp.round(x), -128, 127)).astype(jnp.int8),
    "i32_from_f32": lambda jnp: lambda x: jnp.where(x != x, 0, jnp.round(x)).astype(jnp.int32),
}  # fmt: skip


def test_jax_text_runs() -> None:
    jax = pytest.importorskip("jax")
    x, y = samples()
    for text in RUN:
        printed = to_jax(typed(text, XY), {"x": "x", "y": "y"})
        scope = {name: JAX_HELPERS[name](jax.numpy) for name in printed.helpers}
        code = compile(printed.text, "printed", "eval")
        names = {"jnp": jax.numpy, "lax": jax.lax, **scope}
        function = jax.jit(lambda x, y, code=code, names=names: eval(code, {**names, "x": x, "y": y}))
        computed = np.asarray(function(x, y))
        assert computed.dtype == np.float32, text
        agree(text, computed, "pallas-interpret")


C_HELPERS = {
    "max_nan": "float max_nan(float x, float y) { return x != x || x > y ? x : y; }",
    "min_nan": "float min_nan(float x, float y) { return x != x || x < y ? x : y; }",
    "relu": "float relu(float x) { return max_nan(x, 0.0f); }",
    "clamp": "float clamp(float x, float lo, float hi) { return min_nan(max_nan(x, lo), hi); }",
    "sigmoid": "float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }",
    "silu": "float silu(float x) { return x / (1.0f + expf(-x)); }",
    "gelu": "float gelu(float x) { return 0.5f * x * (1.0f + erff(0.70710678f * x)); }",
    "gelu_tanh": "float gelu_tanh(float x) {"
    " return 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x))); }",
    "i8_from_f32": "int i8_from_f32(float x) { return x != x ? 0 : rintf(fmaxf(-128.0f, fminf(127.0f, x))); }",
    "i32_from_f32": "int i32_from_f32(float x) { return x != x ? 0 : x >= 2147483648.0f ? 2147483647"
    " : x <= -2147483648.0f ? -2147483647 - 1 : (int)rintf(x); }",
    "f32_from_i8": "float f32_from_i8(int x) { return x; }",
    "f32_from_i32": "float f32_from_i32(int x) { return x; }",
}


def test_c_text_runs(tmp_path: Path) -> None:
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    printed = [to_c(typed(text, XY), {"x": "x", "y": "y"}) for text in RUN]
    lines = ["#include <cmath>", "static float rsqrtf(float x) { return 1.0f / sqrtf(x); }"]
    lines += [f"static {C_HELPERS[name]}" for name in closure("c", {h for p in printed for h in p.helpers})]
    for number, one in enumerate(printed):
        body = f"for (int i = 0; i < n; ++i) {{ float x = xs[i], y = ys[i]; (void)y; out[i] = {one.text}; }}"
        lines.append(f'extern "C" void f{number}(int n, const float *xs, const float *ys, float *out) {{ {body} }}')
    source, binary = tmp_path / "f.cpp", tmp_path / "f.so"
    source.write_text("\n".join(lines))
    # contraction on: the bound is to cover a fused multiply-add
    flags = ["-O2", "-Wall", "-Werror", "-ffp-contract=fast", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, "-o", str(binary), str(source)], check=True)
    loaded = ctypes.CDLL(str(binary))
    x, y = samples()
    for number, text in enumerate(RUN):
        out = np.empty_like(x)
        pointers = (array.ctypes.data_as(ctypes.c_void_p) for array in (x, y, out))
        getattr(loaded, f"f{number}")(x.size, *pointers)
        agree(text, out, "cuda")


def test_every_function_is_run() -> None:
    """RUN leaves no function of the language untested."""
    called = {function for text in RUN for function in typed(text, XY).functions}
    assert called >= set(FUNCTIONS)
