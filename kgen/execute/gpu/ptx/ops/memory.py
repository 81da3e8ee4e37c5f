"""Loads, stores, atomics, asynchronous copies and fences (PTX ISA 9.7.9, 9.7.13)."""

from __future__ import annotations

from kgen.execute.gpu.ptx.ops.table import Groups, rule
from kgen.execute.gpu.ptx.parser import BITS

TYPES = "b8|u8|s8|b16|u16|s16|b32|u32|s32|b64|u64|s64|f32|f64"
_SEM = "[.sem:weak|volatile|relaxed|acquire|release|mmio][.scope:cta|cluster|gpu|sys]"
_HINTS = (
    "[.cop:ca|cg|cs|lu|cv|wb|wt][.nc][.l1:L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate]"
    "[.l2e:L2::evict_normal|L2::evict_first|L2::evict_last][.hint:L2::cache_hint][.l2:L2::64B|L2::128B|L2::256B]"
)
_SPACES = {"shared": "shared", "shared::cta": "shared", "local": "local", "param": "param", "param::entry": "param"}


def space_of(g: Groups) -> str:
    """Name of the accessor of a state space: constants live in global memory, no space is generic."""
    space = g.get("space")
    if space is None:
        return "generic"
    return _SPACES.get(space, "global")


def _count(g: Groups) -> int:
    return int(g.get("vec", "v1")[1:])


def _address(g: Groups, mode: str) -> str:
    return f"[p:{space_of(g)}:{_count(g) * BITS[g['t']] // 8}:{mode}]"


def _policy(g: Groups) -> str:
    return " policy:b64" if "hint" in g else ""


def _moves(g: Groups, name: str, template: str) -> str:
    size = BITS[g["t"]] // 8
    names = [f"{name}{i}" for i in range(_count(g))] if "vec" in g else [name]
    return " ".join(template.format(x=x, at=i * size, size=size) for i, x in enumerate(names))


def _vector(g: Groups) -> str:
    return f"*{_count(g)}" if "vec" in g else ""


_LD_SPACE = "[.space:global|const|shared|shared::cta|local|param|param::entry]"
rule(
    f"ld{_SEM}{_LD_SPACE}{_HINTS}[.vec:v2|v4|v8].{{t:{TYPES}}}",
    lambda g: f"=d{_vector(g)}:{g['t']} {_address(g, 'r')}{_policy(g)}",
    lambda g: _moves(g, "d", "memcpy(&{x}, p + {at}, {size});"),
    isa="9.7.9.8",
    counter="load",
)
rule(
    f"ldu[.space:global][.vec:v2|v4].{{t:{TYPES}}}",
    lambda g: f"=d{_vector(g)}:{g['t']} {_address(g, 'r')}",
    lambda g: _moves(g, "d", "memcpy(&{x}, p + {at}, {size});"),
    isa="9.7.9.10",
    counter="load",
)
rule(
    f"st{_SEM}[.space:global|shared|shared::cta|local]{_HINTS}[.vec:v2|v4|v8].{{t:{TYPES}}}",
    lambda g: f"{_address(g, 'w')} a{_vector(g)}:{g['t']}{_policy(g)}",
    lambda g: _moves(g, "a", "memcpy(p + {at}, &{x}, {size});"),
    isa="9.7.9.11",
    counter="store",
)
rule("prefetch[.space:global|local].{level:L1|L2}", "[p]", ";", isa="9.7.9.15")
rule("prefetch.global.L2::{p:evict_last|evict_normal}", "[p]", ";", isa="9.7.9.15")
rule("prefetchu.L1", "[p]", ";", isa="9.7.9.15")
rule(
    "createpolicy.fractional.L2::{p:evict_last|evict_normal|evict_first|evict_unchanged}.b64",
    "=d:b64 ?a:f32",
    "0",
    isa="9.7.9.18",
)

# atom and red: lanes one after another, in order of lane number
_ATOMICS = {
    "add": "(T)(x + a)",
    "exch": "a",
    "min": "x < a ? x : a",
    "max": "x > a ? x : a",
    "and": "x & a",
    "or": "x | a",
    "xor": "x ^ a",
    "inc": "x >= a ? 0 : x + 1",
    "dec": "x == 0 || x > a ? a : x - 1",
}
_INT_OPS = "add|exch|min|max|and|or|xor|inc|dec"
_ASEM = "[.sem:relaxed|acquire|release|acq_rel][.scope:cta|cluster|gpu|sys][.space:global|shared|shared::cta]"


def _atomic_address(g: Groups) -> str:
    return f"[p:{space_of(g)}:{BITS[g['t']] // 8}:w]"


def _atomic(g: Groups, result: str = "d = x;") -> str:
    expression = _ATOMICS[g["op"]].replace("T", g["t"])
    return f"{g['t']} x, y; memcpy(&x, p, sizeof x); y = {expression}; memcpy(p, &y, sizeof y); {result}"


_AT = "b32|b64|u32|u64|s32|s64|f32|f64"
rule(
    f"atom{_ASEM}.{{op:{_INT_OPS}}}.{{t:{_AT}}}",
    lambda g: f"=d:<t> {_atomic_address(g)} a:<t>",
    _atomic,
    isa="9.7.13.5",
    counter="atomic",
)
rule(
    f"atom{_ASEM}.cas.{{t:b16|b32|b64}}",
    lambda g: f"=d:<t> {_atomic_address(g)} a:<t> b:<t>",
    "<t> x, y; memcpy(&x, p, sizeof x); y = x == a ? b : x; memcpy(p, &y, sizeof y); d = x;",
    isa="9.7.13.5",
    counter="atomic",
)
rule(
    f"red{_ASEM}.{{op:{_INT_OPS.replace('exch|', '')}}}.{{t:{_AT}}}",
    lambda g: f"{_atomic_address(g)} a:<t>",
    lambda g: _atomic(g, ""),
    isa="9.7.13.6",
    counter="atomic",
)


def _half_atomic(g: Groups) -> str:
    scalar = g["t"].removesuffix("x2")
    parts = 2 if g["t"].endswith("x2") else 1
    steps = " ".join(
        f"z |= (u32)f32_to_{scalar}({scalar}_to_f32((u16)(x >> {at})) + {scalar}_to_f32((u16)(a >> {at}))) << {at};"
        for at in range(0, 16 * parts, 16)
    )
    return f"b{16 * parts} x; u32 z = 0; memcpy(&x, p, sizeof x); {steps} memcpy(p, &z, sizeof x); d = x;"


_HALVES = "f16|bf16|f16x2|bf16x2"
rule(
    f"atom{_ASEM}.add.noftz.{{t:{_HALVES}}}",
    lambda g: f"=d:<t:bits> {_atomic_address(g)} a:<t:bits>",
    _half_atomic,
    isa="9.7.13.5",
    counter="atomic",
)
rule(
    f"red{_ASEM}.add.noftz.{{t:{_HALVES}}}",
    lambda g: f"{_atomic_address(g)} a:<t:bits>",
    lambda g: _half_atomic(g).replace("d = x;", ""),
    isa="9.7.13.6",
    counter="atomic",
)

# cp.async: the number of bytes written, and the number read when it is given
_CP = "[.hint:L2::cache_hint][.l2:L2::64B|L2::128B|L2::256B]"


rule(
    f"cp.async.{{level:ca|cg}}.{{space:shared|shared::cta}}.global{_CP}",
    lambda g: f"[p] [s] n:u32 ?n_source=n:u32|pred{_policy(g)}",
    "kg_cp_async(w, I, l, p, s, n, n_source);",
    isa="9.7.9.25.3",
    counter="cp.async",
)
rule("cp.async.commit_group", "", "kg_cp_async_commit(w, M);", isa="9.7.9.25.3", raw=True)
rule(
    "cp.async.wait_group",
    "n:u32",
    "kg_cp_async_wait(w, n[first_lane(M)], M);",
    isa="9.7.9.25.3",
    raw=True,
)
rule("cp.async.wait_all", "", "kg_cp_async_wait(w, ~0u, M);", isa="9.7.9.25.3", raw=True)

# the executor is sequentially consistent
rule("membar.{level:cta|gl|sys}", "", ";", isa="9.7.13.4")
rule("fence[.sem:sc|acq_rel].{scope:cta|cluster|gpu|sys}", "", ";", isa="9.7.13.4")
rule("nanosleep.u32", "a:u32", ";", isa="9.7.19")
rule("discard.global.L2", "[p] n:u32", ";", isa="9.7.9.17")
rule("applypriority.global.L2::evict_normal", "[p] n:u32", ";", isa="9.7.9.16")
