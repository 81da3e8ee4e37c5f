"""Integer arithmetic, comparison, selection, logic and bit operations (PTX ISA 9.7.1, 9.7.2, 9.7.6, 9.7.8)."""

from __future__ import annotations

from kgen.execute.gpu.ptx.ops.table import Groups, rule

INTS = "u16|u32|u64|s16|s32|s64"
D_A = "=d:<t> a:<t>"
D_AB = "=d:<t> a:<t> b:<t>"
D_ABC = "=d:<t> a:<t> b:<t> c:<t>"
WIDE = "=d:<t:wide> a:<t> b:<t>"

# 9.7.1 integer arithmetic; the build wraps signed overflow
rule(f"add.{{t:{INTS}}}", D_AB, "(<t>)(a + b)", isa="9.7.1.1")
rule("add.sat.{t:s32}", D_AB, "int_to_s32((wide128)a + b)", isa="9.7.1.1")
rule(f"sub.{{t:{INTS}}}", D_AB, "(<t>)(a - b)", isa="9.7.1.2")
rule("sub.sat.{t:s32}", D_AB, "int_to_s32((wide128)a - b)", isa="9.7.1.2")
rule(f"mul.lo.{{t:{INTS}}}", D_AB, "(<t>)((<t:unsigned>)a * (u64)(<t:unsigned>)b)", isa="9.7.1.3")
rule("mul.hi.{t:u16|u32|s16|s32}", D_AB, "(<t>)(((<t:wide>)a * (<t:wide>)b) >> <t:width>)", isa="9.7.1.3")
rule("mul.hi.{t:u64}", D_AB, "(u64)(((unsigned __int128)a * b) >> 64)", isa="9.7.1.3")
rule("mul.hi.{t:s64}", D_AB, "(s64)(((__int128)a * b) >> 64)", isa="9.7.1.3")
rule("mul.wide.{t:u16|u32|s16|s32}", WIDE, "(<t:wide>)a * (<t:wide>)b", isa="9.7.1.3")
rule(f"mad.lo.{{t:{INTS}}}", D_ABC, "(<t>)((<t:unsigned>)a * (u64)(<t:unsigned>)b + c)", isa="9.7.1.4")
rule("mad.hi.{t:u16|u32|s16|s32}", D_ABC, "(<t>)((((<t:wide>)a * (<t:wide>)b) >> <t:width>) + c)", isa="9.7.1.4")
rule("mad.hi.{t:u64}", D_ABC, "(u64)(((unsigned __int128)a * b) >> 64) + c", isa="9.7.1.4")
rule("mad.hi.{t:s64}", D_ABC, "(s64)(((__int128)a * b) >> 64) + c", isa="9.7.1.4")
rule("mad.hi.sat.{t:s32}", D_ABC, "int_to_s32((wide128)(((s64)a * b) >> 32) + c)", isa="9.7.1.4")
rule("mad.wide.{t:u16|u32|s16|s32}", WIDE + " c:<t:wide>", "(<t:wide>)a * (<t:wide>)b + c", isa="9.7.1.4")
rule("mul24.lo.{t:u32|s32}", D_AB, "(<t>)(((s64)(<t>)(a << 8) >> 8) * ((s64)(<t>)(b << 8) >> 8))", isa="9.7.1.5")
rule("mad24.lo.{t:u32|s32}", D_ABC, "(<t>)(((s64)(<t>)(a << 8) >> 8) * ((s64)(<t>)(b << 8) >> 8) + c)", isa="9.7.1.6")
rule(f"sad.{{t:{INTS}}}", D_ABC, "(<t>)(c + (a < b ? b - a : a - b))", isa="9.7.1.7")
rule("div.{t:u16|u32|u64}", D_AB, "b ? (<t>)(a / b) : (<t>)-1", isa="9.7.1.8")
rule("div.{t:s16|s32|s64}", D_AB, "!b ? (<t>)-1 : b == -1 ? (<t>)-a : (<t>)(a / b)", isa="9.7.1.8")
rule("rem.{t:u16|u32|u64}", D_AB, "b ? (<t>)(a % b) : a", isa="9.7.1.9")
rule("rem.{t:s16|s32|s64}", D_AB, "!b ? a : b == -1 ? 0 : (<t>)(a % b)", isa="9.7.1.9")
rule("abs.{t:s16|s32|s64}", D_A, "a < 0 ? (<t>)-a : a", isa="9.7.1.10")
rule("neg.{t:s16|s32|s64}", D_A, "(<t>)-a", isa="9.7.1.11")
rule(f"min.{{t:{INTS}}}", D_AB, "a < b ? a : b", isa="9.7.1.12")
rule(f"max.{{t:{INTS}}}", D_AB, "a > b ? a : b", isa="9.7.1.13")
rule("min.relu.{t:s32}", D_AB, "a < b ? (a < 0 ? 0 : a) : b < 0 ? 0 : b", isa="9.7.1.12")
rule("max.relu.{t:s32}", D_AB, "a > b ? (a < 0 ? 0 : a) : b < 0 ? 0 : b", isa="9.7.1.13")
rule("popc.{t:b32|b64}", "=d:u32 a:<t>", "(u32)__builtin_popcountll(a)", isa="9.7.1.14")
rule("clz.b32", "=d:u32 a:u32", "a ? (u32)__builtin_clz(a) : 32", isa="9.7.1.15")
rule("clz.b64", "=d:u32 a:u64", "a ? (u32)__builtin_clzll(a) : 64", isa="9.7.1.15")


def _bfind(g: Groups) -> str:
    width = 64 if g["t"].endswith("64") else 32
    magnitude = "(a < 0 ? ~a : a)" if g["t"][0] == "s" else "a"
    found = "(u32)__builtin_clzll(x)" if "shiftamt" in g else "63 - (u32)__builtin_clzll(x)"
    adjust = f" - {64 - width}" if "shiftamt" in g else ""
    return f"u64 x = (u64)(u{width}){magnitude}; d = x ? {found}{adjust} : ~0u;"


rule("bfind[.shiftamt].{t:u32|s32|u64|s64}", "=d:u32 a:<t>", _bfind, isa="9.7.1.16")
rule("brev.b32", "=d:b32 a:b32", "reverse32(a)", isa="9.7.1.18")
rule("brev.b64", "=d:b64 a:b64", "reverse64(a)", isa="9.7.1.18")
rule("bfe.{t:u32|u64}", "=d:<t> a:<t> b:u32 c:u32", "(<t>)bfe(a, b, c, <t:width>, 0)", isa="9.7.1.19")
rule("bfe.{t:s32|s64}", "=d:<t> a:<t:unsigned> b:u32 c:u32", "(<t>)bfe(a, b, c, <t:width>, 1)", isa="9.7.1.19")
rule("bfi.{t:b32|b64}", "=d:<t> a:<t> b:<t> c:u32 e:u32", "(<t>)bfi(a, b, c, e, <t:width>)", isa="9.7.1.20")
rule(
    "szext.{m:clamp|wrap}.{t:u32|s32}",
    "=d:<t> a:u32 b:u32",
    lambda g: f"(<t>)bfe(a, 0, {'b & 31' if g['m'] == 'wrap' else 'least(b, 32)'}, 32, {int(g['t'] == 's32')})",
    isa="9.7.1.21",
)
rule(
    "bmsk.{m:clamp|wrap}.b32",
    "=d:b32 a:u32 b:u32",
    lambda g: (
        "(u32)low_mask(b & 31) << (a & 31)" if g["m"] == "wrap" else "(u32)shl64(low_mask(least(b, 32)), least(a, 32))"
    ),
    isa="9.7.1.22",
)
rule(
    "dp4a.{x:u32|s32}.{y:u32|s32}",
    "=d:s32 a:u32 b:u32 c:s32",
    lambda g: f"dot4(a, b, c, {int(g['x'] == 's32')}, {int(g['y'] == 's32')})",
    isa="9.7.1.23",
)

# 9.7.2 extended precision; the carry is the implicit register %cc
for _op, _sign in (("add", "+"), ("sub", "-")):
    for _in, _carry in ((f"{_op}", "0"), (f"{_op}c", "cc")):
        for _cc in (".cc", ""):
            if _in == _op and not _cc:
                continue
            _keep = "cc = (u32)(x >> 64) & 1;" if _cc else ""
            rule(
                f"{_in}{_cc}.{{t:u32|s32|u64|s64}}",
                D_AB + " %cc:u32",
                f"unsigned __int128 x = (unsigned __int128)(<t:unsigned>)a {_sign} (<t:unsigned>)b {_sign} {_carry};"
                f" d = (<t>)x; {_keep.replace('x >> 64', 'x >> <t:width>')}",
                isa="9.7.2",
            )
    del _in, _carry, _cc, _keep
for _in, _carry in (("mad", "0"), ("madc", "cc")):
    for _cc in (".cc", ""):
        if _in == "mad" and not _cc:
            continue
        _keep = "cc = (u32)(x >> <t:width>) & 1;" if _cc else ""
        for _half, _product in (
            ("lo", "(<t:unsigned>)(a * b)"),
            ("hi", "(<t:unsigned>)(((unsigned __int128)a * b) >> <t:width>)"),
        ):
            rule(
                f"{_in}.{_half}{_cc}.{{t:u32|u64}}",
                D_ABC + " %cc:u32",
                f"unsigned __int128 x = (unsigned __int128){_product} + c + {_carry}; d = (<t>)x; {_keep}",
                isa="9.7.2",
            )

# 9.7.6 comparison and selection
_COMPARE = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "lo": "<",
    "ls": "<=",
    "hi": ">",
    "hs": ">=",
}
_JOIN = {"and": "&", "or": "|", "xor": "^"}


def comparison(g: Groups) -> str:
    """C text of a comparison of a and b, ordered or (``ltu`` ...) true for NaN (PTX ISA 9.7.6.2)."""
    op = g["cmp"]
    if op == "num":
        return "(a == a && b == b)"
    if op == "nan":
        return "(a != a || b != b)"
    if op in _COMPARE and not (op == "ne" and g["t"].endswith(("f16", "f32", "f64"))):
        return f"(a {_COMPARE[op]} b)"
    if op == "ne":
        return "(a < b || a > b)"
    return f"(a != a || b != b || a {_COMPARE[op[:-1]]} b)"


def _setp(g: Groups) -> str:
    if "join" not in g:
        return f"u8 x = {comparison(g)}; d = x; q = !x;"
    join = _JOIN[g["join"]]
    return f"u8 x = {comparison(g)}; d = x {join} c; q = !x {join} c;"


def _setp_operands(g: Groups) -> str:
    return "=d|q:pred a:<t> b:<t>" + (" c:pred" if "join" in g else "")


INT_CMP = "eq|ne|lt|le|gt|ge|lo|ls|hi|hs"
FLOAT_CMP = "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan"
_TYPES = f"{INTS}|b16|b32|b64"
rule(f"setp.{{cmp:{INT_CMP}}}[.join:and|or|xor].{{t:{_TYPES}}}", _setp_operands, _setp, isa="9.7.6.2")
rule(
    f"setp.{{cmp:{FLOAT_CMP}}}[.join:and|or|xor][.ftz].{{t:f32|f64|f16|bf16}}",
    _setp_operands,
    _setp,
    isa="9.7.6.2, 9.7.7.2",
)


def _set(g: Groups) -> str:
    value = f"{comparison(g)}" + (f" {_JOIN[g['join']]} c" if "join" in g else "")
    return f"({value}) ? {'1.0f' if g['r'] in ('f32', 'f16', 'bf16') else '(<r>)-1'} : 0"


def _set_operands(g: Groups) -> str:
    return "=d:<r> a:<t> b:<t>" + (" c:pred" if "join" in g else "")


rule(f"set.{{cmp:{INT_CMP}}}[.join:and|or|xor].{{r:u32|s32|f32}}.{{t:{_TYPES}}}", _set_operands, _set, isa="9.7.6.1")
rule(
    f"set.{{cmp:{FLOAT_CMP}}}[.join:and|or|xor][.ftz].{{r:u16|s16|u32|s32|f32|f16|bf16}}.{{t:f32|f64|f16|bf16}}",
    _set_operands,
    _set,
    isa="9.7.6.1, 9.7.7.1",
)


def _set_packed(g: Groups) -> str:
    return f"{comparison({**g, 't': 'f16'})} ? 1.0f : 0.0f"


rule(f"set.{{cmp:{FLOAT_CMP}}}[.ftz].f16x2.{{t:f16x2}}", D_AB, _set_packed, isa="9.7.7.1")
rule(f"set.{{cmp:{FLOAT_CMP}}}.bf16x2.{{t:bf16x2}}", D_AB, _set_packed, isa="9.7.7.1")
rule(
    f"selp.{{t:{_TYPES}|f32|f64}}",
    "=d:<t:bits> a:<t:bits> b:<t:bits> c:pred",
    "c ? a : b",
    isa="9.7.6.3",
)
rule(
    f"slct[.ftz].{{t:{_TYPES}|f32|f64}}.{{u:s32|f32}}",
    "=d:<t:bits> a:<t:bits> b:<t:bits> c:<u>",
    "c >= 0 ? a : b",
    isa="9.7.6.4",
)

# 9.7.8 logic and shifts
for _op, _sign, _section in (("and", "&", 1), ("or", "|", 2), ("xor", "^", 3)):
    rule(f"{_op}.{{t:pred|b16|b32|b64}}", D_AB, f"(<t>)(a {_sign} b)", isa=f"9.7.8.{_section}")
rule("not.pred", "=d:pred a:pred", "!a", isa="9.7.8.4")
rule("not.{t:b16|b32|b64}", D_A, "(<t>)~a", isa="9.7.8.4")
rule("cnot.{t:b16|b32|b64}", D_A, "!a", isa="9.7.8.5")
rule("lop3.b32", "=d:b32 a:b32 b:b32 c:b32 e:u32", "lop3(a, b, c, e)", isa="9.7.8.6")
for _side in "lr":
    for _mode, _amount in (("wrap", "c & 31"), ("clamp", "least(c, 32)")):
        rule(f"shf.{_side}.{_mode}.b32", "=d:b32 a:b32 b:b32 c:u32", f"funnel_{_side}(a, b, {_amount})", isa="9.7.8.7")
rule("shl.{t:b16|b32|b64}", "=d:<t> a:<t> b:u32", "shl<t:width>(a, b)", isa="9.7.8.8")
rule("shr.{t:u16|u32|u64|s16|s32|s64}", "=d:<t> a:<t> b:u32", "shr_<t>(a, b)", isa="9.7.8.9")
rule("shr.{t:b16|b32|b64}", "=d:<t> a:<t> b:u32", "shr_<t:unsigned>(a, b)", isa="9.7.8.9")
rule("prmt.b32", "=d:b32 a:b32 b:b32 c:u32", "prmt(a, b, c)", isa="9.7.9.7")
rule(
    "prmt.b32.{m:f4e|b4e|rc8|rc16|ecl|ecr}",
    "=d:b32 a:b32 b:b32 c:u32",
    'prmt(a, b, prmt_select("<m>", c))',
    isa="9.7.9.7",
)
