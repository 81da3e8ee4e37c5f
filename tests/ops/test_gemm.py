"""The op gemm: its program for every form of signature, and its reference and counts against plain loops."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Mapping

import numpy as np
import pytest

from kgen.expr import Expression, Typed, Value, check, parse
from kgen.ops import OPS, minimal_bytes
from kgen.spec.kernel import Operand, Output, Signature
from kgen.tile import operations, program_text, validate

GEMM = OPS["gemm"]
LAYOUTS = list(itertools.product(GEMM.layouts("a"), GEMM.layouts("b")))


def _value(text: str, names: Mapping[str, Value]) -> Typed:
    parsed = parse(text)
    assert isinstance(parsed, Expression)
    typed = check(parsed, names)
    assert isinstance(typed, Typed)
    return typed


def _signature(a: str, b: str, extras: dict[str, str], outputs: dict[str, str], dtype: str = "bf16") -> Signature:
    names = {"acc": Value("f32", "mn")} | {name: Value("f32", layout) for name, layout in extras.items()}
    batch = "b" if "b" in a + b else ""
    return Signature(
        "kernel",
        "gemm",
        (Operand("a", dtype, a), Operand("b", dtype, b), *(Operand(n, "f32", layout) for n, layout in extras.items())),
        tuple(Output(name, dtype, f"{batch}mn", _value(text, names)) for name, text in outputs.items()),
    )


PLAIN = """\
gemm(a[m, k]: bf16, b[n, k]: bf16) -> c[m, n]: bf16
parallel m_tile in tiles(m):
    parallel n_tile in tiles(n):
        acc = fill(0)
        reduction k_tile in tiles(k) carrying acc:
            a_tile = load(a)
            b_tile = load(b)
            acc = mma(acc, a_tile, b_tile)
        c_value = acc
        c_tile = cast(c_value, bf16)
        store(c, c_tile)
"""

FULL = """\
gemm(a[b, k, m]: bf16, b[k, n]: bf16, bias[n]: f32, row[b, m]: f32, r[m, n]: f32, alpha: f32) \
-> c[b, m, n]: bf16, d[b, m, n]: bf16
parallel batch in range(b):
    parallel m_tile in tiles(m):
        parallel n_tile in tiles(n):
            acc = fill(0)
            reduction k_tile in tiles(k) carrying acc:
                a_tile = load(a)
                b_tile = load(b)
                acc = mma(acc, a_tile, b_tile)
            bias_tile = load(bias)
            bias_mn = broadcast(bias_tile, mn)
            row_tile = load(row)
            row_mn = broadcast(row_tile, mn)
            r_tile = load(r)
            c_value = relu(alpha * acc + bias_mn)
            c_tile = cast(c_value, bf16)
            store(c, c_tile)
            d_value = acc * row_mn + r_tile
            d_tile = cast(d_value, bf16)
            store(d, d_tile)
"""


def test_programs_print() -> None:
    plain = _signature("mk", "nk", {}, {"c": "acc"})
    extras = {"bias": "n", "row": "bm", "r": "mn", "alpha": ""}
    full = _signature("bkm", "kn", extras, {"c": "relu(alpha * acc + bias)", "d": "acc * row + r"})
    assert program_text(GEMM.program(plain)) == PLAIN
    assert program_text(GEMM.program(full)) == FULL


@pytest.mark.parametrize(("a", "b"), LAYOUTS)
@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
def test_every_layout_gives_a_well_formed_program_of_one_shape(a: str, b: str, dtype: str) -> None:
    program = GEMM.program(_signature(a, b, {"x": "mn"}, {"c": "acc + x"}, dtype))
    assert validate(program) == ()
    assert [kind for kind, _ in operations(program)] == ["fill", "load", "load", "mma", "load", "map", "cast", "store"]


@pytest.mark.parametrize("layout", GEMM.layouts("extra"))
def test_every_extra_gives_a_well_formed_program(layout: str) -> None:
    assert validate(GEMM.program(_signature("bmk", "nk", {"x": layout}, {"c": "acc + x"}))) == ()


def test_layouts_are_the_specs() -> None:
    assert GEMM.layouts("a") == ("mk", "km", "bmk", "bkm")
    assert GEMM.layouts("b") == ("nk", "kn", "bnk", "bkn")
    assert GEMM.layouts("bias") == ("", "m", "n", "mn", "bm", "bn", "bmn")
    assert GEMM.output_layouts == ("mn", "bmn")


@pytest.mark.parametrize(("a", "b"), LAYOUTS)
def test_reference_equals_plain_loops(a: str, b: str) -> None:
    sizes = {"m": 3, "n": 4, "k": 5, "b": 2}
    random = np.random.default_rng(7)
    arrays = {name: random.standard_normal([sizes[d] for d in layout]) for name, layout in (("a", a), ("b", b))}
    found = GEMM.reference(_signature(a, b, {}, {"c": "acc"}), arrays)
    batched = "b" in a + b
    assert found.result.shape == found.magnitude.shape == ((2, 3, 4) if batched else (3, 4))
    for index in itertools.product(range(2), range(3), range(4)):
        at = dict(zip("bmn", index, strict=True))
        terms = []
        for k in range(5):
            place = {**at, "k": k}
            terms.append(arrays["a"][tuple(place[d] for d in a)] * arrays["b"][tuple(place[d] for d in b)])
        where = index if batched else index[1:]
        assert found.result[where] == pytest.approx(sum(terms), rel=1e-14)
        assert found.magnitude[where] == pytest.approx(sum(abs(t) for t in terms), rel=1e-14)


def test_an_empty_sum_is_zero() -> None:
    found = GEMM.reference(_signature("mk", "nk", {}, {"c": "acc"}), {"a": np.ones((2, 0)), "b": np.ones((3, 0))})
    assert found.result.tolist() == found.magnitude.tolist() == [[0.0] * 3] * 2


def test_counts() -> None:
    sizes = {"m": 3, "n": 4, "k": 5, "b": 2}
    assert GEMM.flops({"m": 3, "n": 4, "k": 5}) == 120
    assert GEMM.flops(sizes) == 240
    signature = _signature("bmk", "nk", {"bias": "n", "alpha": ""}, {"c": "alpha * acc + bias"})
    assert minimal_bytes(signature, sizes) == 2 * (2 * 3 * 5) + 2 * (4 * 5) + 4 * 4 + 4 + 2 * (2 * 3 * 4)


def test_rendering_needs_no_numpy() -> None:
    code = "import sys, kgen.ops, kgen.transform; sys.exit(bool({'numpy', 'jax', 'pydantic'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
