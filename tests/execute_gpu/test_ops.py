# ruff: noqa: E501 (PTX text)
"""Semantics of single instructions against NumPy, on 256 lanes of edge and random values each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from snippets import Array, Machine, bf16, from_bf16, op_entry

from kgen.execute.gpu.ptx import ops

N = 256
RNG = np.random.default_rng(7)
DTYPES: dict[str, Any] = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": np.uint16, "f16x2": np.uint32, "bf16x2": np.uint32, "pred": np.uint32,
    **{f"{k}{n}": np.dtype(f"{'i' if k == 's' else 'u'}{n // 8}").type for k in "bus" for n in (8, 16, 32, 64)},
}  # fmt: skip


def values(type_: str) -> Array:
    """Edge values, then random ones."""
    dtype = np.dtype(DTYPES[type_])
    if type_ == "pred":
        return RNG.integers(0, 2, N).astype(np.uint32)
    if type_ == "bf16":
        return bf16(values("f32"))
    if type_ in ("f16x2", "bf16x2"):
        half = (lambda: values("f16").view(np.uint16)) if type_ == "f16x2" else (lambda: values("bf16"))
        return (half().astype(np.uint32) << 16 | half()).astype(np.uint32)
    if dtype.kind == "f":
        tiny = np.finfo(dtype).smallest_subnormal
        edge = np.array(
            [0, -0.0, 1, -1, 0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, tiny, np.finfo(dtype).tiny, 3e4], dtype
        )
        spread = np.exp2(RNG.uniform(-8, 8, N))
        rest = (RNG.standard_normal(N) * spread).astype(dtype)
    else:
        info = np.iinfo(dtype)
        edge = np.array([0, 1, 2, 3, 31, 32, 33, info.max, info.max - 1, info.min, info.min + 1, 5, 7, 8], dtype)
        rest = RNG.integers(info.min, info.max, N, dtype=dtype, endpoint=True)
        small = RNG.random(N) < 0.3
        rest[small] = (rest[small] % 70).astype(dtype)
    out = np.concatenate([edge, rest])[:N]
    RNG.shuffle(out)
    return out


@dataclass(frozen=True)
class Case:
    text: str  # instruction with d0, a0, a1, ... as operands
    ins: tuple[str, ...]
    outs: tuple[str, ...]
    reference: Callable[..., Any]
    rtol: float = 0.0
    inputs: tuple[Array, ...] | None = None


CASES: list[Case] = []


def case(
    text: str,
    ins: str,
    outs: str,
    reference: Callable[..., Any],
    rtol: float = 0.0,
    inputs: tuple[Array, ...] | None = None,
) -> None:
    CASES.append(Case(text, tuple(ins.split()), tuple(outs.split()), reference, rtol, inputs))


def simple(
    opcode: str,
    ins: str,
    out: str,
    reference: Callable[..., Any],
    rtol: float = 0.0,
    inputs: tuple[Array, ...] | None = None,
) -> None:
    """An instruction whose operands are d0 and all sources in order."""
    names = ", ".join(f"a{i}" for i in range(len(ins.split())))
    case(f"{opcode} d0, {names};", ins, out, reference, rtol, inputs)


def big(x: Array) -> Array:
    return x.astype(object)


def wrap(x: Any, type_: str) -> Array:
    bits = int(type_[1:])
    masked = np.array([int(v) & ((1 << bits) - 1) for v in x], dtype=object)
    return masked.astype(np.dtype(f"u{bits // 8}")).view(DTYPES[type_])


def clamp(x: Any, type_: str) -> Array:
    info = np.iinfo(DTYPES[type_])
    return np.array([min(max(int(v), int(info.min)), int(info.max)) for v in x], DTYPES[type_])


def trunc_div(a: Any, b: Any) -> Any:
    q = abs(int(a)) // abs(int(b))
    return q if (a < 0) == (b < 0) else -q


# ---- integer arithmetic
for _t in ("u16", "u32", "u64", "s16", "s32", "s64"):
    _bits, _signed = int(_t[1:]), _t[0] == "s"
    simple(f"add.{_t}", f"{_t} {_t}", _t, lambda a, b, t=_t: wrap(big(a) + big(b), t))
    simple(f"sub.{_t}", f"{_t} {_t}", _t, lambda a, b, t=_t: wrap(big(a) - big(b), t))
    simple(f"mul.lo.{_t}", f"{_t} {_t}", _t, lambda a, b, t=_t: wrap(big(a) * big(b), t))
    simple(f"mul.hi.{_t}", f"{_t} {_t}", _t, lambda a, b, t=_t, n=_bits: wrap((big(a) * big(b)) >> n, t))
    simple(f"mad.lo.{_t}", f"{_t} {_t} {_t}", _t, lambda a, b, c, t=_t: wrap(big(a) * big(b) + big(c), t))
    simple(
        f"mad.hi.{_t}", f"{_t} {_t} {_t}", _t, lambda a, b, c, t=_t, n=_bits: wrap(((big(a) * big(b)) >> n) + big(c), t)
    )
    simple(f"sad.{_t}", f"{_t} {_t} {_t}", _t, lambda a, b, c, t=_t: wrap(abs(big(a) - big(b)) + big(c), t))
    simple(f"min.{_t}", f"{_t} {_t}", _t, np.minimum)
    simple(f"max.{_t}", f"{_t} {_t}", _t, np.maximum)
    simple(
        f"div.{_t}",
        f"{_t} {_t}",
        _t,
        lambda a, b, t=_t: wrap([trunc_div(x, y) if y else -1 for x, y in zip(big(a), big(b), strict=False)], t),
    )
    simple(
        f"rem.{_t}",
        f"{_t} {_t}",
        _t,
        lambda a, b, t=_t: wrap([x - trunc_div(x, y) * y if y else x for x, y in zip(big(a), big(b), strict=False)], t),
    )
    simple(
        f"shr.{_t}",
        f"{_t} u32",
        _t,
        lambda a, b, t=_t: wrap([int(x) >> min(int(y), 200) for x, y in zip(a, b, strict=False)], t),
    )
    if _bits < 64:
        _w = f"{_t[0]}{2 * _bits}"
        simple(f"mul.wide.{_t}", f"{_t} {_t}", _w, lambda a, b, t=_w: wrap(big(a) * big(b), t))
        simple(f"mad.wide.{_t}", f"{_t} {_t} {_w}", _w, lambda a, b, c, t=_w: wrap(big(a) * big(b) + big(c), t))
    if _signed:
        simple(f"abs.{_t}", _t, _t, lambda a, t=_t: wrap(abs(big(a)), t))
        simple(f"neg.{_t}", _t, _t, lambda a, t=_t: wrap(-big(a), t))
simple("add.sat.s32", "s32 s32", "s32", lambda a, b: clamp(big(a) + big(b), "s32"))
simple("sub.sat.s32", "s32 s32", "s32", lambda a, b: clamp(big(a) - big(b), "s32"))
for _t in ("b32", "b64"):
    _n = int(_t[1:])
    simple(f"popc.{_t}", _t, "u32", lambda a: [bin(int(x)).count("1") for x in a])
    simple(f"clz.{_t}", _t, "u32", lambda a, n=_n: [n - int(x).bit_length() for x in a])
    simple(f"brev.{_t}", _t, _t, lambda a, n=_n: np.array([int(f"{int(x):0{n}b}"[::-1], 2) for x in a], a.dtype))
    simple(
        f"shl.{_t}",
        f"{_t} u32",
        _t,
        lambda a, b, t=_t: wrap([int(x) << min(int(y), 200) for x, y in zip(a, b, strict=False)], t),
    )
    for _op, _f in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
        simple(f"{_op}.{_t}", f"{_t} {_t}", _t, _f)
    simple(f"not.{_t}", _t, _t, np.invert)
    simple(f"cnot.{_t}", _t, _t, lambda a: (a == 0).astype(a.dtype))
    simple(
        f"bfi.{_t}",
        f"{_t} {_t} u32 u32",
        _t,
        lambda a, b, c, e, n=_n: np.array([bfi(*x, n) for x in zip(a, b, c, e, strict=False)], a.dtype),
    )
    for _u in ("u", "s"):
        _ut = f"{_u}{_n}"
        simple(
            f"bfe.{_ut}",
            f"{_ut} u32 u32",
            _ut,
            lambda a, b, c, n=_n, t=_ut: wrap([bfe(*x, n, t[0] == "s") for x in zip(a, b, c, strict=False)], t),
        )
simple("bfind.u32", "u32", "u32", lambda a: wrap([int(x).bit_length() - 1 for x in a], "u32"))
simple("bfind.s32", "s32", "u32", lambda a: wrap([(int(x) if x >= 0 else ~int(x)).bit_length() - 1 for x in a], "u32"))
simple("bfind.u64", "u64", "u32", lambda a: wrap([int(x).bit_length() - 1 for x in a], "u32"))
simple("bfind.shiftamt.u32", "u32", "u32", lambda a: wrap([32 - int(x).bit_length() if x else -1 for x in a], "u32"))


def bfe(a: Any, pos: Any, length: Any, n: int, signed: bool) -> int:
    pos, length = int(pos) & 255, int(length) & 255
    value = int(a) & ((1 << n) - 1)
    msb = min(pos + length - 1, n - 1)
    sign = (value >> msb & 1) if signed and length else 0
    return sum(((value >> (pos + i) & 1) if i < length and pos + i < n else sign) << i for i in range(n))


def bfi(a: Any, b: Any, pos: Any, length: Any, n: int) -> int:
    pos, length = int(pos) & 255, int(length) & 255
    out = int(b)
    for i in range(length):
        if pos + i < n:
            out = (out & ~(1 << (pos + i))) | (int(a) >> i & 1) << (pos + i)
    return out


def byte_permute(a: Any, b: Any, c: Any) -> int:
    source = int(b) << 32 | int(a)
    out = 0
    for i in range(4):
        selector = int(c) >> 4 * i & 15
        byte = source >> 8 * (selector & 7) & 255
        out |= ((255 if byte & 128 else 0) if selector & 8 else byte) << 8 * i
    return out


def lut(a: Array, b: Array, c: Array, table: int) -> Array:
    out = np.zeros_like(a)
    for i in range(8):
        if table >> i & 1:
            out |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
    return out


simple("prmt.b32", "b32 b32 b32", "b32", lambda a, b, c: [byte_permute(*x) for x in zip(a, b, c, strict=False)])
for _table in (0x80, 0xE8, 0x3C, 0xF8, 0x1B):
    case(f"lop3.b32 d0, a0, a1, a2, {_table};", "b32 b32 b32", "b32", lambda a, b, c, t=_table: lut(a, b, c, t))
for _side in "lr":
    for _mode in ("wrap", "clamp"):

        def _shift(a: Array, b: Array, c: Array, side: str = _side, mode: str = _mode) -> Array:
            n = big(c) & 31 if mode == "wrap" else np.minimum(big(c), 32)
            v = big(b) << 32 | big(a)
            return wrap((v << n) >> 32 if side == "l" else v >> n, "u32")

        simple(f"shf.{_side}.{_mode}.b32", "b32 b32 u32", "b32", _shift)
simple("dp4a.s32.s32", "b32 b32 s32", "s32", lambda a, b, c: wrap((a.view(np.int8).reshape(-1, 4).astype(int) * b.view(np.int8).reshape(-1, 4)).sum(1) + c.astype(int), "s32"))  # fmt: skip
simple("dp4a.u32.s32", "b32 b32 s32", "s32", lambda a, b, c: wrap((a.view(np.uint8).reshape(-1, 4).astype(int) * b.view(np.int8).reshape(-1, 4)).sum(1) + c.astype(int), "s32"))  # fmt: skip
case("add.cc.u32 d0, a0, a2; addc.u32 d1, a1, a3;", "u32 u32 u32 u32", "u32 u32", lambda a, b, c, d: split(big(a) + (big(b) << 32) + big(c) + (big(d) << 32)))  # fmt: skip
case("sub.cc.u32 d0, a0, a2; subc.u32 d1, a1, a3;", "u32 u32 u32 u32", "u32 u32", lambda a, b, c, d: split(big(a) + (big(b) << 32) - big(c) - (big(d) << 32)))  # fmt: skip
case("mad.lo.cc.u32 d0, a0, a1, a2; madc.hi.u32 d1, a0, a1, a3;", "u32 u32 u32 u32", "u32 u32", lambda a, b, c, d: split(big(a) * big(b) + big(c) + (big(d) << 32)))  # fmt: skip


def split(x: Any) -> tuple[Array, Array]:
    return wrap(x, "u32"), wrap([int(v) >> 32 for v in x], "u32")


# ---- comparison and selection
_CMP: dict[str, Callable[..., Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
for _t in ("u32", "s32", "u64", "s64", "u16", "s16"):
    for _c, _f in _CMP.items():
        case(f"setp.{_c}.{_t} d0, a0, a1;", f"{_t} {_t}", "pred", _f)
for _t in ("f32", "f64", "f16"):
    for _c, _f in _CMP.items():
        _ordered = lambda a, b, f=_f: f(a, b) & ~(np.isnan(a) | np.isnan(b))  # noqa: E731
        case(f"setp.{_c}.{_t} d0|d1, a0, a1;", f"{_t} {_t}", "pred pred", lambda a, b, f=_ordered: (f(a, b), ~f(a, b)))
        case(
            f"setp.{_c}u.{_t} d0, a0, a1;", f"{_t} {_t}", "pred", lambda a, b, f=_f: f(a, b) | np.isnan(a) | np.isnan(b)
        )
case("setp.num.f32 d0, a0, a1;", "f32 f32", "pred", lambda a, b: ~(np.isnan(a) | np.isnan(b)))
case("setp.nan.f32 d0, a0, a1;", "f32 f32", "pred", lambda a, b: np.isnan(a) | np.isnan(b))
case("setp.lt.and.s32 d0, a0, a1, a2;", "s32 s32 pred", "pred", lambda a, b, p: (a < b) & (p != 0))
case("setp.lt.or.s32 d0, a0, a1, !a2;", "s32 s32 pred", "pred", lambda a, b, p: (a < b) | (p == 0))
case("setp.lo.u32 d0, a0, a1;", "u32 u32", "pred", np.less)
case("selp.b32 d0, a0, a1, a2;", "b32 b32 pred", "b32", lambda a, b, p: np.where(p, a, b))
case("selp.f64 d0, a0, a1, a2;", "f64 f64 pred", "f64", lambda a, b, p: np.where(p, a, b))
case("slct.s32.s32 d0, a0, a1, a2;", "s32 s32 s32", "s32", lambda a, b, c: np.where(c >= 0, a, b))
case("set.lt.u32.s32 d0, a0, a1;", "s32 s32", "u32", lambda a, b: np.where(a < b, 0xFFFFFFFF, 0))
case("set.gt.f32.f32 d0, a0, a1;", "f32 f32", "f32", lambda a, b: np.where(a > b, 1.0, 0.0))
for _op, _f in (("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor)):
    case(f"{_op}.pred d0, a0, a1;", "pred pred", "pred", _f)
case("not.pred d0, a0;", "pred", "pred", np.logical_not)
case("@a1 mov.b32 d0, a0; @!a1 mov.b32 d0, 77;", "b32 pred", "b32", lambda a, p: np.where(p, a, 77))

# ---- floating point
FTZ = np.finfo(np.float32).tiny


def ftz(x: Array) -> Array:
    return np.where(np.abs(x) < FTZ, np.copysign(np.float32(0), x), x).astype(np.float32)


def fmax(a: Array, b: Array) -> Array:
    r = np.fmax(a, b)
    return np.where((a == 0) & (b == 0), np.where(np.signbit(a), b, a), r)


def fmin(a: Array, b: Array) -> Array:
    r = np.fmin(a, b)
    return np.where((a == 0) & (b == 0), np.where(np.signbit(a), a, b), r)


_ARITH: dict[str, Callable[..., Any]] = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
for _op, _f in _ARITH.items():
    for _t in ("f32", "f64"):
        simple(f"{_op}.{_t}", f"{_t} {_t}", _t, _f)
    simple(f"{_op}.ftz.f32", "f32 f32", "f32", lambda a, b, f=_f: ftz(f(ftz(a), ftz(b))))
    simple(
        f"{_op}.sat.f32",
        "f32 f32",
        "f32",
        lambda a, b, f=_f: np.where(np.isnan(f(a, b)), 0, np.clip(f(a, b), 0, 1)) + np.float32(0),
    )
    simple(f"{_op}.f16", "f16 f16", "f16", _f)
    simple(f"{_op}.bf16", "bf16 bf16", "bf16", lambda a, b, f=_f: bf16(f(from_bf16(a), from_bf16(b))))
    simple(f"{_op}.f16x2", "f16x2 f16x2", "f16x2", lambda a, b, f=_f: packed(f, a, b))
    simple(f"{_op}.bf16x2", "bf16x2 bf16x2", "bf16x2", lambda a, b, f=_f: packed_bf16(f, a, b))


def halves(x: Array) -> Array:
    return x.view(np.uint16)


def canonical(h: Array) -> Array:
    u = h.view(np.uint16)
    return np.where((u & 0x7FFF) > 0x7C00, 0x7FFF, u).astype(np.uint16)


def packed(f: Callable[..., Any], *xs: Array) -> Array:
    return canonical(f(*(halves(x).view(np.float16) for x in xs)).astype(np.float16)).view(np.uint32)


def packed_bf16(f: Callable[..., Any], *xs: Array) -> Array:
    return bf16(f(*(from_bf16(halves(x)) for x in xs))).view(np.uint32)


def exact_fma(a: Array, b: Array, c: Array) -> Array:
    """a * b + c in long double: exact enough to round once to 24 bits for these inputs."""
    return a.astype(np.longdouble) * b.astype(np.longdouble) + c.astype(np.longdouble)


simple("fma.rn.f32", "f32 f32 f32", "f32", lambda a, b, c: exact_fma(a, b, c).astype(np.float32))
simple("mad.rn.f32", "f32 f32 f32", "f32", lambda a, b, c: exact_fma(a, b, c).astype(np.float32))
simple(
    "fma.rn.ftz.f32", "f32 f32 f32", "f32", lambda a, b, c: ftz(exact_fma(ftz(a), ftz(b), ftz(c)).astype(np.float32))
)
simple("fma.rn.f64", "f64 f64 f64", "f64", lambda a, b, c: exact_fma(a, b, c).astype(np.float64), 1e-15)
simple("fma.rn.f16", "f16 f16 f16", "f16", lambda a, b, c: exact_fma(a, b, c).astype(np.float64).astype(np.float16))
simple(
    "fma.rn.f16x2",
    "f16x2 f16x2 f16x2",
    "f16x2",
    lambda a, b, c: packed(lambda x, y, z: exact_fma(x, y, z).astype(np.float64).astype(np.float16), a, b, c),
)
simple("fma.rn.bf16x2", "bf16x2 bf16x2 bf16x2", "bf16x2", lambda a, b, c: packed_bf16(lambda x, y, z: exact_fma(x, y, z).astype(np.float32), a, b, c))  # fmt: skip
simple(
    "fma.rn.relu.f16",
    "f16 f16 f16",
    "f16",
    lambda a, b, c: np.maximum(exact_fma(a, b, c).astype(np.float64).astype(np.float16), np.float16(0)),
)
simple("div.rn.f32", "f32 f32", "f32", np.divide)
simple("div.full.f32", "f32 f32", "f32", np.divide, 2e-7)
simple("div.rn.f64", "f64 f64", "f64", np.divide)
simple("rcp.rn.f32", "f32", "f32", np.reciprocal)
simple("rcp.approx.ftz.f32", "f32", "f32", lambda a: ftz(np.reciprocal(ftz(a))))
simple("sqrt.rn.f32", "f32", "f32", np.sqrt)
simple("sqrt.rn.f64", "f64", "f64", np.sqrt)
simple("rsqrt.approx.f32", "f32", "f32", lambda a: 1 / np.sqrt(a.astype(np.float64)), 2e-7)
simple("ex2.approx.f32", "f32", "f32", lambda a: np.exp2(a.astype(np.float64)), 2e-7)
simple("lg2.approx.f32", "f32", "f32", lambda a: np.log2(a.astype(np.float64)), 2e-7)
simple("sin.approx.f32", "f32", "f32", lambda a: np.sin(a.astype(np.float64)), 2e-7)
simple("cos.approx.f32", "f32", "f32", lambda a: np.cos(a.astype(np.float64)), 2e-7)
simple("tanh.approx.f32", "f32", "f32", lambda a: np.tanh(a.astype(np.float64)), 2e-7)
simple(
    "ex2.approx.f16x2",
    "f16x2",
    "f16x2",
    lambda a: packed(lambda x: np.exp2(x.astype(np.float64)).astype(np.float16), a),
)
simple("tanh.approx.bf16", "bf16", "bf16", lambda a: bf16(np.tanh(from_bf16(a).astype(np.float64)).astype(np.float32)))
for _t in ("f32", "f64"):
    simple(f"abs.{_t}", _t, _t, np.abs)
    simple(f"neg.{_t}", _t, _t, np.negative)
    simple(f"min.{_t}", f"{_t} {_t}", _t, fmin)
    simple(f"max.{_t}", f"{_t} {_t}", _t, fmax)
    simple(f"copysign.{_t}", f"{_t} {_t}", _t, lambda a, b: np.copysign(b, a))
    simple(f"testp.finite.{_t}", _t, "pred", np.isfinite)
    simple(f"testp.notanumber.{_t}", _t, "pred", np.isnan)
simple("min.NaN.f32", "f32 f32", "f32", lambda a, b: np.where(np.isnan(a) | np.isnan(b), np.nan, fmin(a, b)))
simple("max.NaN.f32", "f32 f32", "f32", lambda a, b: np.where(np.isnan(a) | np.isnan(b), np.nan, fmax(a, b)))
simple("max.f16x2", "f16x2 f16x2", "f16x2", lambda a, b: packed(fmax, a, b))
simple("min.bf16x2", "bf16x2 bf16x2", "bf16x2", lambda a, b: packed_bf16(fmin, a, b))
simple("neg.f16x2", "b32", "b32", lambda a: a ^ 0x80008000)
simple("abs.bf16x2", "b32", "b32", lambda a: a & 0x7FFF7FFF)


def towards(x: Any, mode: str) -> Array:
    """float64 values rounded to float32 in a direction."""
    wide = np.asarray(x, np.longdouble)
    near = wide.astype(np.float32)
    up = np.where(near.astype(np.longdouble) < wide, np.nextafter(near, np.float32(np.inf)), near)
    down = np.where(near.astype(np.longdouble) > wide, np.nextafter(near, np.float32(-np.inf)), near)
    if mode == "rz":
        return np.where(wide < 0, up, down)
    return up if mode == "rp" else down


def directed_sum(a: Array, b: Array, mode: str) -> Array:
    """a + b rounded in a direction, from exact rational sums."""
    near = a + b
    for i in np.flatnonzero(np.isfinite(near) & np.isfinite(a) & np.isfinite(b)):
        exact = Fraction(float(a[i])) + Fraction(float(b[i]))
        down = mode == "rm" or (mode == "rz" and exact > 0)
        if Fraction(float(near[i])) != exact and (Fraction(float(near[i])) > exact) == down:
            near[i] = np.nextafter(near[i], np.float32(-np.inf if down else np.inf))
    return near


for _m in ("rz", "rm", "rp"):
    simple(f"add.{_m}.f32", "f32 f32", "f32", lambda a, b, m=_m: directed_sum(a, b, m))
    simple(
        f"mul.{_m}.f32", "f32 f32", "f32", lambda a, b, m=_m: towards(a.astype(np.float64) * b.astype(np.float64), m)
    )
    simple(f"cvt.{_m}.f32.f64", "f64", "f32", lambda a, m=_m: towards(a, m))
    simple(f"cvt.{_m}.f32.s32", "s32", "f32", lambda a, m=_m: towards(a, m))

# ---- conversions
_INTS = ("u16", "s16", "u32", "s32", "u64", "s64")
for _d in _INTS:
    for _s in _INTS:
        simple(f"cvt.{_d}.{_s}", _s, _d, lambda a, t=_d: wrap(a, t))
        if _d != _s:
            simple(f"cvt.sat.{_d}.{_s}", _s, _d, lambda a, t=_d: clamp(a, t))
_ROUND: dict[str, Callable[..., Any]] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def to_int(x: Array, type_: str) -> Array:
    info = np.iinfo(DTYPES[type_])
    out = []
    for v in x.astype(np.float64):
        out.append(
            0
            if np.isnan(v)
            else int(info.max)
            if v >= float(info.max)
            else int(info.min)
            if v <= float(info.min)
            else int(v)
        )
    return np.array(out, DTYPES[type_])


for _m, _f in _ROUND.items():
    for _s in ("f32", "f64", "f16"):
        simple(f"cvt.{_m}.s32.{_s}", _s, "s32", lambda a, f=_f: to_int(f(a), "s32"))
    simple(f"cvt.{_m}.u64.f32", "f32", "u64", lambda a, f=_f: to_int(f(a), "u64"))
    simple(f"cvt.{_m}.f32.f32", "f32", "f32", _f)
    simple(f"cvt.{_m}.f16.f16", "f16", "f16", _f)
for _s in _INTS:
    simple(f"cvt.rn.f32.{_s}", _s, "f32", lambda a: a.astype(np.float32))
    simple(f"cvt.rn.f64.{_s}", _s, "f64", lambda a: a.astype(np.float64))
    simple(f"cvt.rn.f16.{_s}", _s, "f16", lambda a: a.astype(np.float64).astype(np.float16))
simple("cvt.f64.f32", "f32", "f64", lambda a: a.astype(np.float64))
simple("cvt.f32.f16", "f16", "f32", lambda a: a.astype(np.float32))
simple("cvt.f32.bf16", "bf16", "f32", from_bf16)
simple("cvt.rn.f32.f64", "f64", "f32", lambda a: a.astype(np.float32))
simple("cvt.rn.f16.f32", "f32", "f16", lambda a: a.astype(np.float16))
simple("cvt.rn.bf16.f32", "f32", "bf16", bf16)
simple("cvt.rn.f16.f64", "f64", "f16", lambda a: a.astype(np.float16))
simple("cvt.rz.bf16.f32", "f32", "bf16", lambda a: np.where(np.isnan(a), 0x7FFF, a.view(np.uint32) >> 16))
simple("cvt.sat.f32.f32", "f32", "f32", lambda a: np.where(np.isnan(a), 0, np.clip(a, 0, 1)) + np.float32(0))
simple("cvt.ftz.f32.f32", "f32", "f32", ftz)
simple("cvt.rn.bf16x2.f32", "f32 f32", "b32", lambda a, b: bf16(a).astype(np.uint32) << 16 | bf16(b))
simple(
    "cvt.rn.f16x2.f32",
    "f32 f32",
    "b32",
    lambda a, b: canonical(a.astype(np.float16)).astype(np.uint32) << 16 | canonical(b.astype(np.float16)),
)
simple(
    "cvt.rn.relu.bf16x2.f32",
    "f32 f32",
    "b32",
    lambda a, b: bf16(np.maximum(a, 0)).astype(np.uint32) << 16 | bf16(np.maximum(b, 0)),
)


def tf32(a: Array) -> Array:
    """Round to 10 mantissa bits, ties away from zero."""
    u = a.view(np.uint32)
    return np.where(np.isfinite(a), (u + 0x1000) & 0xFFFFE000, u)


simple("cvt.rna.tf32.f32", "f32", "b32", tf32)
simple("cvt.u32.u16", "u16", "u32", lambda a: a.astype(np.uint32))
case(
    ".reg .b16 h; cvt.u16.u32 h, a0; cvt.s32.s8 d0, h;",
    "u32",
    "s32",
    lambda a: (a & 255).astype(np.uint8).view(np.int8).astype(np.int32),
)
case("cvt.u8.u32 d0, a0;", "u32", "u32", lambda a: a & 255)
case("cvt.s8.s32 d0, a0;", "s32", "s32", lambda a: (a & 255).astype(np.uint8).view(np.int8).astype(np.int32))
simple(
    "cvt.pack.sat.s16.s32",
    "s32 s32",
    "b32",
    lambda a, b: clamp(a, "s16").view(np.uint16).astype(np.uint32) << 16 | clamp(b, "s16").view(np.uint16),
)
simple(
    "cvt.pack.sat.u8.s32.b32",
    "s32 s32 b32",
    "b32",
    lambda a, b, c: (c << 16) | clamp(a, "u8").astype(np.uint32) << 8 | clamp(b, "u8"),
)
# ---- moves
case(".reg .b16 x, y; mov.b32 {x, y}, a0; mov.b32 d0, {y, x};", "b32", "b32", lambda a: a << 16 | a >> 16)
case(
    ".reg .b32 x, y; mov.b64 {x, y}, a0; mov.b64 d0, {y, x};",
    "b64",
    "b64",
    lambda a: a << np.uint64(32) | a >> np.uint64(32),
)
case(".reg .b16 x; mov.b32 {_, x}, a0; cvt.u32.u16 d0, x;", "b32", "b32", lambda a: a >> 16)
case("mov.f32 d0, 0f3FC00000; add.f32 d0, d0, a0;", "f32", "f32", lambda a: a + np.float32(1.5))
case("add.s32 d0, a0, -7;", "s32", "s32", lambda a: wrap(big(a) - 7, "s32"))
case("mov.u32 d0, %laneid; add.u32 d0, d0, a0;", "u32", "u32", lambda a: a + np.arange(N, dtype=np.uint32) % 32)


@pytest.fixture(scope="module")
def machine() -> Machine:
    text = "".join(op_entry(f"k{i}", c.text, c.ins, c.outs) for i, c in enumerate(CASES))
    built = Machine(text)
    built.session.prepare()
    return built


def _same(got: Array, want: Array, rtol: float) -> Array:
    if got.dtype.kind == "f":
        nan = np.isnan(got) & np.isnan(want)
        close = (
            np.isclose(got, want, rtol=rtol, atol=0) if rtol else (got == want) & (np.signbit(got) == np.signbit(want))
        )
        return nan | close
    return got == want


@pytest.mark.parametrize(
    "number", range(len(CASES)), ids=[f"{i}-{c.text.split(',')[0].replace(' ', '_')}" for i, c in enumerate(CASES)]
)
def test_operation(machine: Machine, number: int) -> None:
    c = CASES[number]
    inputs = c.inputs or tuple(values(t) for t in c.ins)
    slots = {f"a{i}": slot(x) for i, x in enumerate(inputs)} | {
        f"d{i}": np.zeros(N, np.uint64) for i in range(len(c.outs))
    }
    after, findings = machine.run(f"k{number}", slots, block=(N,))
    assert findings == []
    with np.errstate(all="ignore"):
        wanted = c.reference(*inputs)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for i, (type_, want) in enumerate(zip(c.outs, wanted, strict=True)):
        dtype = np.dtype(DTYPES[type_])
        got = after[f"d{i}"].view(dtype)[:: 8 // dtype.itemsize]
        with np.errstate(all="ignore"):
            good = _same(got, np.asarray(want).astype(dtype), c.rtol)
        assert good.all(), [(*(x[k] for x in inputs), got[k], np.asarray(want)[k]) for k in np.flatnonzero(~good)[:5]]


def slot(x: Array) -> Array:
    out = np.zeros(N, np.uint64)
    out.view(x.dtype)[:: 8 // x.dtype.itemsize] = x
    return out


def test_every_rule_cites_its_section() -> None:
    for rule in ops.rules():
        assert rule.isa.startswith("9.7"), rule.syntax
