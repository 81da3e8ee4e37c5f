"""Conversions, moves and address conversions (PTX ISA 9.7.9 mov, cvt, cvt.pack, cvta, isspacep)."""

from __future__ import annotations

from kgen.execute.gpu.ptx.ops.table import Groups, rule

INTS = "u8|u16|u32|u64|s8|s16|s32|s64"
FLOATS = "f16|bf16|f32|f64"
_ROUND_INT = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


def _int_to_int(g: Groups) -> str:
    return f"int_to_{g['d']}((wide128)a)" if "saturate" in g else f"({g['d']})a"


def _float_to_int(g: Groups) -> str:
    source = "(f64)ftz(a)" if "flush" in g and g["t"] == "f32" else "(f64)a"
    return f"f64_to_{g['d']}({_ROUND_INT[g['r']]}({source}))"


def _int_to_float(g: Groups) -> str:
    mode = g["r"]
    if g["d"] == "f64":
        return "(f64)a"
    if g["d"] == "f32":
        value = "(f32)a" if mode == "rn" else f"f64_to_f32_{mode}(int_to_f64_odd((wide128)a))"
    else:
        value = "narrow_odd(int_to_f64_odd((wide128)a))"
    return f"sat01({value})" if "saturate" in g else value


def _float_to_float(g: Groups) -> str:
    source, target, mode = g["t"], g["d"], g.get("r")
    value = "ftz(a)" if "flush" in g and source == "f32" else "a"
    if mode in _ROUND_INT:
        value = f"{_ROUND_INT[mode]}((f64){value})"
    elif target == "f32" and source == "f64":
        value = f"f64_to_f32_{mode}({value})"
    elif source == "f64" and target != "f64":
        value = f"narrow_odd({value})"
    if "relu" in g:
        value = f"relu({value})"
    if "saturate" in g:
        value = f"sat01({value})" if target != "f64" else f"sat01d({value})"
    return f"ftz((f32)({value}))" if "flush" in g and target == "f32" else value


rule(f"cvt[.saturate:sat].{{d:{INTS}}}.{{t:{INTS}}}", "=d:<d> a:<t>", _int_to_int, isa="9.7.9.22")
rule(
    f"cvt.{{r:rni|rzi|rmi|rpi}}[.flush:ftz][.saturate:sat].{{d:{INTS}}}.{{t:{FLOATS}}}",
    "=d:<d> a:<t>",
    _float_to_int,
    isa="9.7.9.22",
)
rule(f"cvt.{{r:rn|rz|rm|rp}}[.saturate:sat].{{d:f32}}.{{t:{INTS}}}", "=d:<d> a:<t>", _int_to_float, isa="9.7.9.22")
rule(f"cvt.{{r:rn}}[.saturate:sat].{{d:f16|bf16|f64}}.{{t:{INTS}}}", "=d:<d> a:<t>", _int_to_float, isa="9.7.9.22")
rule("cvt.{r:rz|rm|rp}.{d:f64}.{t:u8|u16|u32|s8|s16|s32}", "=d:<d> a:<t>", _int_to_float, isa="9.7.9.22")
# widening, and rounding to an integral value in the same format
rule(
    "cvt[.r:rni|rzi|rmi|rpi][.flush:ftz][.saturate:sat].{d:f32}.{t:f32}",
    "=d:<d> a:<t>",
    _float_to_float,
    isa="9.7.9.22",
)
rule("cvt[.r:rni|rzi|rmi|rpi][.saturate:sat].{d:f64}.{t:f64}", "=d:<d> a:<t>", _float_to_float, isa="9.7.9.22")
rule("cvt[.r:rni|rzi|rmi|rpi][.saturate:sat].{d:f16}.{t:f16}", "=d:<d> a:<t>", _float_to_float, isa="9.7.9.22")
rule("cvt.{r:rni|rzi|rmi|rpi}.{d:bf16}.{t:bf16}", "=d:<d> a:<t>", _float_to_float, isa="9.7.9.22")
rule("cvt[.flush:ftz][.saturate:sat].{d:f32|f64}.{t:f16|bf16}", "=d:<d> a:<t>", _float_to_float, isa="9.7.9.22")
rule("cvt[.flush:ftz][.saturate:sat].{d:f64}.{t:f32}", "=d:<d> a:<t>", _float_to_float, isa="9.7.9.22")
# narrowing
rule("cvt.{r:rn|rz|rm|rp}[.flush:ftz][.saturate:sat].{d:f32}.{t:f64}", "=d:<d> a:<t>", _float_to_float, isa="9.7.9.22")
rule(
    "cvt.{r:rn}[.flush:ftz][.relu][.saturate:sat].{d:f16|bf16}.{t:f32|f64|f16|bf16}",
    "=d:<d> a:<t>",
    _float_to_float,
    isa="9.7.9.22",
)


def _narrow_rz(target: str) -> None:
    def body(g: Groups) -> str:
        return f"f32_to_{target}_rz({'relu(a)' if 'relu' in g else 'a'})"

    rule(f"cvt.rz[.relu].{target}.f32", "=d:b16 a:f32", body, isa="9.7.9.22")


def _narrow_pair(target: str, rounding: str) -> None:
    """Two f32 values to a packed pair: the first source is the upper half."""
    convert = f"f32_to_{target}" + ("" if rounding == "rn" else "_rz")

    def body(g: Groups) -> str:
        upper, lower = ("relu(a)", "relu(b)") if "relu" in g else ("a", "b")
        return f"(u32){convert}({upper}) << 16 | {convert}({lower})"

    rule(f"cvt.{rounding}[.relu].{target}x2.f32", "=d:b32 a:f32 b:f32", body, isa="9.7.9.22")


for _target in ("f16", "bf16"):
    _narrow_rz(_target)
    _narrow_pair(_target, "rn")
    _narrow_pair(_target, "rz")
# tf32: 10 bits of mantissa; rna rounds ties away from zero
_TF32 = "(as_u32(a) & 0x7f800000) == 0x7f800000 ? as_u32(a)"
rule("cvt.rna.tf32.f32", "=d:b32 a:f32", f"{_TF32} : (as_u32(a) + 0x1000) & 0xffffe000", isa="9.7.9.22")
rule(
    "cvt.rn.tf32.f32",
    "=d:b32 a:f32",
    f"{_TF32} : (as_u32(a) + 0xfff + (as_u32(a) >> 13 & 1)) & 0xffffe000",
    isa="9.7.9.22",
)
rule("cvt.rz.tf32.f32", "=d:b32 a:f32", f"{_TF32} : as_u32(a) & 0xffffe000", isa="9.7.9.22")


def _pack(g: Groups) -> str:
    """Saturate two s32 values and put them side by side, above the lower bits of c shifted up."""
    width = int(g["c"][1:])
    upper, lower = (f"((u32)int_to_{g['c']}({x}) & {(1 << width) - 1:#x})" for x in "ab")
    rest = f" | c << {2 * width}" if "wide" in g else ""
    return f"{upper} << {width} | {lower}{rest}"


rule("cvt.pack.sat.{c:u16|s16}.s32", "=d:b32 a:s32 b:s32", _pack, isa="9.7.9.23")
rule("cvt.pack.sat.{c:u8|s8}.s32.{wide:b32}", "=d:b32 a:s32 b:s32 c:b32", _pack, isa="9.7.9.23")

# mov; pack and unpack split a value into equal parts, the first at the lowest bits
rule("mov.pred", "=d:pred a:pred", "a", isa="9.7.9.3")
rule(
    "mov.{t:b16|u16|s16|b32|u32|s32|f32|b64|u64|s64|f64|f16|bf16|f16x2|bf16x2}",
    "=d:<t:bits> a:<t:bits>",
    "a",
    isa="9.7.9.3",
)


def unpack(width: int, parts: int) -> tuple[str, str]:
    """Operands and body of ``mov {d0, ...}, a``."""
    part = width // parts
    body = " ".join(f"d{i} = (b{part})(a >> {i * part});" for i in range(parts))
    return f"=d*{parts}:b{part} a:b{width}", body


def pack(width: int, parts: int) -> tuple[str, str]:
    """Operands and body of ``mov d, {a0, ...}``."""
    part = width // parts
    body = " | ".join(f"(b{width})a{i} << {i * part}" for i in range(parts))
    return f"=d:b{width} a*{parts}:b{part}", f"(b{width})({body})"


# generic addresses: global addresses are themselves, other spaces carry a tag in the top 16 bits (native/engine.h)
for _space, _tag in (
    ("shared", "TAG_SHARED"),
    ("shared::cta", "TAG_SHARED"),
    ("local", "TAG_LOCAL"),
    ("param", "TAG_PARAM"),
):
    rule(f"cvta.{_space}.u64", "=d:u64 a:u64", f"GENERIC({_tag}, a)", isa="9.7.9.21")
    rule(f"cvta.to.{_space}.u64", "=d:u64 a:u64", "(u32)a", isa="9.7.9.21")
rule("cvta[.to].{s:global|const}.u64", "=d:u64 a:u64", "a", isa="9.7.9.21")
rule("isspacep.{s:shared|shared::cta}", "=d:pred a:u64", "a >> 48 == TAG_SHARED", isa="9.7.9.20")
rule("isspacep.local", "=d:pred a:u64", "a >> 48 == TAG_LOCAL", isa="9.7.9.20")
rule("isspacep.global", "=d:pred a:u64", "a >> 48 < TAG_PARAM", isa="9.7.9.20")
