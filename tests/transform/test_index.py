"""Index expressions against brute force: every simplification, range, divisor and printed text holds at all points."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgen.transform import (
    FALSE,
    TRUE,
    IndexExpr,
    Sym,
    both,
    ceildiv,
    const,
    equal,
    evaluate,
    floordiv,
    gather,
    holds,
    less,
    maximum,
    minimum,
    mod,
    split,
    split_condition,
    substitute,
    sym,
    symbols,
    to_c,
    to_python,
    xor,
)
from kgen.transform import given as assuming

Env = Mapping[str, int]
Pair = tuple[IndexExpr, Callable[[Env], int]]
"""A simplified expression beside the plain arithmetic it must equal."""

X, Y, Z = sym("x", 0, 9), sym("y", -3, 4), sym("z", 0, 17, multiple_of=4)
SYMBOLS = (X, Y, Z)
POINTS: list[Env] = [{"x": x, "y": y, "z": z} for x, y, z in itertools.product(range(9), range(-3, 4), range(0, 17, 4))]


def _leaf() -> st.SearchStrategy[Pair]:
    named: st.SearchStrategy[Pair] = st.sampled_from(SYMBOLS).map(lambda s: (s, lambda env: env[s.name]))
    fixed: st.SearchStrategy[Pair] = st.integers(-9, 9).map(lambda v: (const(v), lambda env: v))
    return named | fixed


def _divided(pair: Pair, divisor: int) -> Pair:
    return floordiv(pair[0], divisor), lambda env: pair[1](env) // divisor


def _remainder(pair: Pair, divisor: int) -> Pair:
    return mod(pair[0], divisor), lambda env: pair[1](env) % divisor


def _grown(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    divisors = st.sampled_from([1, 2, 3, 4, 6, 8, 12])
    two = st.tuples(inner, inner)
    return st.one_of(
        two.map(lambda p: (p[0][0] + p[1][0], lambda env: p[0][1](env) + p[1][1](env))),
        two.map(lambda p: (p[0][0] - p[1][0], lambda env: p[0][1](env) - p[1][1](env))),
        two.map(lambda p: (p[0][0] * p[1][0], lambda env: p[0][1](env) * p[1][1](env))),
        two.map(lambda p: (minimum(p[0][0], p[1][0]), lambda env: min(p[0][1](env), p[1][1](env)))),
        two.map(lambda p: (xor(p[0][0], p[1][0]), lambda env: p[0][1](env) ^ p[1][1](env))),
        two.map(lambda p: (maximum(p[0][0], p[1][0]), lambda env: max(p[0][1](env), p[1][1](env)))),
        st.tuples(inner, divisors).map(lambda p: _divided(*p)),
        st.tuples(inner, divisors).map(lambda p: _remainder(*p)),
    )


PAIRS = st.recursive(_leaf(), _grown, max_leaves=8)


def _run(text: str, env: Env) -> object:
    """Value of printed Python text (built here from known operators, so that evaluating it is safe)."""
    return eval(text, {"min": min, "max": max, "int64_t": int, "__builtins__": {}}, dict(env))


@settings(max_examples=250, deadline=None)
@given(PAIRS)
def test_simplified_expressions_equal_plain_arithmetic(pair: Pair) -> None:
    expression, plain = pair
    for env in POINTS:
        value = plain(env)
        assert evaluate(expression, env) == value
        assert expression.lo is None or expression.lo <= value
        assert expression.hi is None or value <= expression.hi
        assert value == 0 if expression.multiple == 0 else value % expression.multiple == 0


@settings(max_examples=120, deadline=None)
@given(PAIRS)
def test_printed_text_means_the_expression(pair: Pair) -> None:
    expression, plain = pair
    python = to_python(expression)
    try:
        cpp = to_c(expression).replace(" / ", " // ")
    except ValueError:
        cpp = None
    for env in POINTS[::7]:
        assert _run(python, env) == plain(env)
        assert cpp is None or _run(cpp, env) == plain(env)


@settings(max_examples=200, deadline=None)
@given(PAIRS, PAIRS)
def test_comparisons_equal_plain_comparisons(left: Pair, right: Pair) -> None:
    below, same = less(left[0], right[0]), equal(left[0], right[0])
    joint = both(below, less(left[0], 5), less(-3, right[0]))
    texts = [(below, to_python(below)), (same, to_python(same)), (joint, to_python(joint))]
    for env in POINTS[::3]:
        a, b = left[1](env), right[1](env)
        truths = (a < b, a == b, a < b and a < 5 and b > -3)
        for (predicate, text), truth in zip(texts, truths, strict=True):
            assert holds(predicate, env) == truth
            assert _run(text, env) == truth


@settings(max_examples=150, deadline=None)
@given(PAIRS, PAIRS, PAIRS)
def test_facts_drop_only_what_they_imply(left: Pair, right: Pair, limit: Pair) -> None:
    fact, predicate = less(left[0], limit[0]), both(less(right[0], limit[0]), less(left[0], right[0]))
    rest = assuming(predicate, fact)
    for env in POINTS[::3]:
        if holds(fact, env):
            assert holds(rest, env) == holds(predicate, env)


@settings(max_examples=150, deadline=None)
@given(PAIRS, PAIRS)
def test_substitution_and_split(pair: Pair, other: Pair) -> None:
    replacement = minimum(maximum(other[0], 0), 8)
    replaced = substitute(pair[0], {X: replacement})
    base, step = split(pair[0], X)
    assert X not in symbols(base)
    for env in POINTS[::3]:
        moved = {**env, "x": min(max(other[1](env), 0), 8)}
        assert evaluate(replaced, env) == pair[1](moved)
        assert evaluate(base, env) + evaluate(step, env) == pair[1](env)


def test_equal_expressions_are_one_object() -> None:
    assert X + Y is Y + X
    assert (X + 1) * 3 - 3 is X * 3
    assert less(X, Z) is less(X + 1, Z + 1)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (lambda t, i: (t + i * 256) // 4, "i * 64 + thread / 4"),
        (lambda t, i: (t + i * 256) % 4, "thread % 4"),
        (lambda t, i: t // 4 * 4 + t % 4, "thread"),
        (lambda t, i: t // 8 % 2 * 8 + t % 8, "thread % 16"),
        (lambda t, i: t // 4 // 8, "thread / 32"),
        (lambda t, i: t % 32 // 8, "thread / 8 % 4"),
        (lambda t, i: t % 32 % 8, "thread % 8"),
        (lambda t, i: (i * 4 + t % 4) // 8, "i / 2"),
        (lambda t, i: (i * 4 + t % 4) % 8, "i % 2 * 4 + thread % 4"),
        (lambda t, i: xor(t % 4, t // 8 % 4) % 2, "(thread % 2) ^ (thread / 8 % 2)"),
        (lambda t, i: xor(t % 4 * 8, i * 8), "(i ^ (thread % 4)) * 8"),
        (lambda t, i: (t - 8) // 4, "thread / 4 - 2"),
        (lambda t, i: (t - 9) % 4, "(thread + 3) % 4"),
        (lambda t, i: minimum(t, i * 0), "0"),
        (lambda t, i: minimum(t + 300, i), "i"),
        (lambda t, i: t * 0 + 5, "5"),
        (lambda t, i: ceildiv(t, 64), "(thread + 63) / 64"),
    ],
)
def test_simplification(expression: Callable[[Sym, Sym], IndexExpr], text: str) -> None:
    assert to_c(expression(sym("thread", 0, 256), sym("i", 0, 4))) == text


def test_vector_edges_shrink_to_one_comparison() -> None:
    k, chunk, j = sym("k", multiple_of=8, wide=True), sym("chunk", 0, 4), sym("j", 0, 8)
    whole = less(chunk * 8, k)
    assert less(chunk * 8 + 7, k) is whole
    assert less(chunk * 8 + j, k) is whole
    assert to_c(whole) == "chunk * 8 < k"
    assert to_c(both(less(chunk * 8 + 7, sym("n", wide=True)))) == "chunk * 8 + 8 <= n"


FINE = [sym("y", 0, 3), sym("y", 0, 4), sym("y", 0, 5), sym("y", -2, 3), sym("y", -5, 0)]
"""Ranges that fit in a step of 4, fill it, run over it by one, and lie on either side of zero."""


@pytest.mark.parametrize("fine", FINE, ids=lambda y: f"{y.lo}..{y.hi}")
@pytest.mark.parametrize("step", [2, 3, 4, 6, 12])
def test_coarse_and_fine_parts(step: int, fine: Sym) -> None:
    """Quotients, remainders and comparisons of step * x + y + offset: the form every index of a tile has."""
    x, whole = sym("x", -2, 3), sym("w", -8, 9, multiple_of=4)
    assert fine.lo is not None and fine.hi is not None
    points = list(itertools.product(range(-2, 3), range(fine.lo, fine.hi + 1), range(-8, 9, 4)))
    for offset, divisor in itertools.product(range(-5, 6), (2, 3, 4, 8, 12)):
        alone, value = x * step + fine + offset, x * step + whole + fine + offset
        quotient, remainder, below = value // divisor, value % divisor, less(value, divisor - 4)
        negative = less(alone, 0)
        for x_value, y_value, w_value in points:
            env = {"x": x_value, "y": y_value, "w": w_value}
            plain = x_value * step + w_value + y_value + offset
            assert (evaluate(quotient, env), evaluate(remainder, env)) == divmod(plain, divisor)
            assert holds(below, env) == (plain < divisor - 4)
            assert holds(negative, env) == (plain - w_value < 0)


def test_products_of_quotients_keep_their_parentheses() -> None:
    x, y = sym("x", 0, 50), sym("y", 0, 50)
    for expression in ((x // 3) * (y // 4), (x % 3) * (y % 4), x * (y // 4) * 3, (x + 1) * (y - 60)):
        text = to_c(expression).replace(" / ", " // ")
        for a, b in itertools.product(range(0, 50, 7), range(0, 50, 3)):
            assert _run(text, {"x": a, "y": b}) == evaluate(expression, {"x": a, "y": b})


def test_ranges_decide_comparisons() -> None:
    assert less(X, 9) is TRUE
    assert less(8, X) is FALSE
    assert equal(X, 9) is FALSE
    assert equal(X + 1, X + 1) is TRUE
    assert both(less(X, 9), TRUE) is TRUE
    assert both(less(X, 4), less(9, X)) is FALSE
    assert to_c(both(less(X, 4), less(X, 2), less(Y, Z))) == "x < 2 && y < z"


@pytest.mark.parametrize(
    ("predicate", "text"),
    [
        (less, "x < y"),
        (lambda x, y: less(x, y + 1), "x <= y"),
        (lambda x, y: less(x + 4, y), "x + 5 <= y"),
        (lambda x, y: less(x, y + 4), "x < y + 4"),
        (lambda x, y: less(2, x), "x >= 3"),
        (lambda x, y: less(0, x), "x > 0"),
        (lambda x, y: less(x, 3), "x < 3"),
        (lambda x, y: equal(x, y + 2), "x == y + 2"),
        (lambda x, y: equal(x, 2), "x == 2"),
        (lambda x, y: less(xor(x, y), 2), "(x ^ y) < 2"),
        (lambda x, y: less(x * 2, 7), "x < 4"),
    ],
)
def test_comparison_text(predicate: Callable[[Sym, Sym], object], text: str) -> None:
    assert to_c(predicate(sym("x", 0, 100), sym("y", 0, 100))) == text  # type: ignore[arg-type]


def test_arithmetic_is_widened_where_32_bits_do_not_hold() -> None:
    row, block, stride = sym("row"), sym("block", 0, 2**20), sym("stride", wide=True)
    assert to_c(row * 2) == "int64_t(row) * 2"
    assert to_c(row + 1) == "int64_t(row) + 1"
    assert to_c(row + block + 1) == "int64_t(row) + block + 1"
    assert to_c(row + block + stride) == "stride + row + block"
    assert to_c(block * 128 + 5) == "block * 128 + 5"
    assert to_c(block * 128 * stride) == "block * 128 * stride"
    assert to_c(row * 4 * stride) == "int64_t(row) * 4 * stride"
    assert to_c(row * sym("columns")) == "int64_t(columns) * row"
    assert to_c(minimum(stride - row, 8)) == "min(stride - row, int64_t(8))"
    assert to_c(block, wide=True) == "int64_t(block)"
    assert to_c(stride, wide=True) == "stride"


def test_symbolic_divisors() -> None:
    n, row, column = sym("n", 1, 1000), sym("row", 0, 50), sym("column", 0, 1000)
    inside = minimum(column, n - 1)
    assert floordiv(row * n, n) is row
    assert to_c(floordiv(column, n)) == "column / n"
    for points in itertools.product(range(1, 7), range(4), range(6)):
        env = dict(zip(("n", "row", "column"), points, strict=True))
        assert evaluate(floordiv(row * n + inside, n), env) == env["row"]
        assert evaluate(mod(row * n + inside, n), env) == min(env["column"], env["n"] - 1)


@pytest.mark.parametrize("build", [lambda: floordiv(X, Y), lambda: mod(X, 0), lambda: to_c(Y // 3)])
def test_what_is_not_proven_is_refused(build: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"not proven|may be negative"):
        build()


@pytest.mark.parametrize(("lo", "hi", "multiple"), [(4, 4, 1), (0, 8, 0), (1, 7, 8)])
def test_symbols_have_values(lo: int, hi: int, multiple: int) -> None:
    with pytest.raises(ValueError, match=r"empty range|no multiple"):
        sym("s", lo, hi, multiple_of=multiple)


def test_tables_and_conditions_in_parts() -> None:
    row = gather("rows", X, 0, 64, multiple_of=2)
    assert to_c(row * 4) == "rows[x] * 4"
    assert evaluate(row * 4, {"x": 2}, {"rows": [0, 2, 6]}) == 24
    assert to_c(substitute(row, {X: Z})) == "rows[z]"
    fixed, moving = split_condition(both(less(Y, 2), less(X, Z)), X)
    assert (to_c(fixed), to_c(moving)) == ("y < 2", "x < z")


def test_negative_values_are_shifted_and_masked() -> None:
    quotient, remainder = to_c(sym("v", -9, 9) // 4), to_c(sym("v", -9, 9) % 4)
    assert (quotient, remainder) == ("v >> 2", "v & 3")
    for value in range(-9, 9):
        assert (_run(quotient, {"v": value}), _run(remainder, {"v": value})) == divmod(value, 4)
