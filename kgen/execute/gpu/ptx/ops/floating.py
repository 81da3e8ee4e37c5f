"""Floating-point arithmetic (PTX ISA 9.7.3 single and double, 9.7.4 half precision).

Approximate functions are computed by the C library in double precision and rounded once, which is closer to the true
value than the hardware's documented error; comparisons must allow for the hardware's error."""

from __future__ import annotations

from kgen.execute.gpu.ptx.ops.table import Groups, rule

HALVES = "f16|bf16|f16x2|bf16x2"
D_A = "=d:<t> a:<t>"
D_AB = "=d:<t> a:<t> b:<t>"
D_ABC = "=d:<t> a:<t> b:<t> c:<t>"

# add, sub, mul: round to nearest; the f32 value of a 16-bit operation is rounded once more, which is innocuous
for _op, _sign, _section in (("add", "+", 3), ("sub", "-", 4), ("mul", "*", 5)):
    rule(f"{_op}[.rn][.ftz][.sat].{{t:f32}}", D_AB, f"a {_sign} b", isa=f"9.7.3.{_section}")
    rule(f"{_op}[.rn].{{t:f64}}", D_AB, f"a {_sign} b", isa=f"9.7.3.{_section}")
    rule(f"{_op}[.rn][.ftz][.sat].{{t:{HALVES}}}", D_AB, f"a {_sign} b", isa=f"9.7.4.{_section - 2}")
for _op, _exact in (
    ("add", "add_odd((f64)a, (f64)b)"),
    ("sub", "add_odd((f64)a, -(f64)b)"),
    ("mul", "(f64)a * (f64)b"),
):
    rule(f"{_op}.{{r:rz|rm|rp}}[.ftz][.sat].{{t:f32}}", D_AB, f"f64_to_f32_<r>({_exact})", isa="9.7.3")

for _op in ("fma", "mad"):
    rule(f"{_op}[.rn][.ftz][.sat].{{t:f32}}", D_ABC, "__builtin_fmaf(a, b, c)", isa="9.7.3.6")
    rule(f"{_op}[.rn].{{t:f64}}", D_ABC, "__builtin_fma(a, b, c)", isa="9.7.3.6")
rule(
    "fma.{r:rz|rm|rp}[.ftz][.sat].{t:f32}",
    D_ABC,
    "f64_to_f32_<r>(add_odd((f64)a * (f64)b, (f64)c))",
    isa="9.7.3.6",
)
# the product of 16-bit values is exact in f64; the sum is rounded to odd, then once to the format
rule(
    "fma.rn[.ftz][.sat].{t:f16|f16x2|bf16|bf16x2}", D_ABC, "narrow_odd(add_odd((f64)a * (f64)b, (f64)c))", isa="9.7.4.4"
)
rule(
    "fma.rn[.ftz].relu.{t:f16|f16x2|bf16|bf16x2}",
    D_ABC,
    "relu(narrow_odd(add_odd((f64)a * (f64)b, (f64)c)))",
    isa="9.7.4.4",
)

rule("div.{r:rn|full|approx}[.ftz].{t:f32}", D_AB, "a / b", isa="9.7.3.8")
rule("div.{r:rz|rm|rp}[.ftz].{t:f32}", D_AB, "f64_to_f32_<r>((f64)a / (f64)b)", isa="9.7.3.8")
rule("div.rn.{t:f64}", D_AB, "a / b", isa="9.7.3.8")
rule("abs[.ftz].{t:f32}", D_A, "__builtin_fabsf(a)", isa="9.7.3.9")
rule("abs.{t:f64}", D_A, "__builtin_fabs(a)", isa="9.7.3.9")
rule("neg[.ftz].{t:f32}", D_A, "-a", isa="9.7.3.10")
rule("neg.{t:f64}", D_A, "-a", isa="9.7.3.10")
for _t, _sign in (("f16", "0x8000"), ("bf16", "0x8000"), ("f16x2", "0x80008000u"), ("bf16x2", "0x80008000u")):
    rule(f"neg[.ftz].{{t:{_t}}}", "=d:<t:bits> a:<t:bits>", f"(<t:bits>)(a ^ {_sign})", isa="9.7.4.5")
    rule(f"abs[.ftz].{{t:{_t}}}", "=d:<t:bits> a:<t:bits>", f"(<t:bits>)(a & ~{_sign})", isa="9.7.4.6")


def _minmax(op: str) -> None:
    def body(g: Groups) -> str:
        name = f"{op}_{'nan' if 'NaN' in g else 'num'}_{'f64' if g['t'] == 'f64' else 'f32'}"
        if "xorsign" in g:
            return f"__builtin_copysignf({name}(__builtin_fabsf(a), __builtin_fabsf(b)), as_f32(as_u32(a) ^ as_u32(b)))"
        return f"{name}(a, b)"

    section = 11 if op == "min" else 12
    rule(f"{op}[.ftz][.NaN][.xorsign:xorsign.abs].{{t:f32}}", D_AB, body, isa=f"9.7.3.{section}")
    rule(f"{op}.{{t:f64}}", D_AB, body, isa=f"9.7.3.{section}")
    rule(f"{op}[.ftz][.NaN][.xorsign:xorsign.abs].{{t:{HALVES}}}", D_AB, body, isa=f"9.7.4.{section - 4}")


_minmax("min")
_minmax("max")

rule("rcp.{r:rn|approx}[.ftz].{t:f32}", D_A, "1.0f / a", isa="9.7.3.13")
rule("rcp.{r:rz|rm|rp}[.ftz].{t:f32}", D_A, "f64_to_f32_<r>(1.0 / (f64)a)", isa="9.7.3.13")
rule("rcp.rn.{t:f64}", D_A, "1.0 / a", isa="9.7.3.13")
rule("rcp.approx.ftz.{t:f64}", D_A, "1.0 / a", isa="9.7.3.14")
rule("sqrt.{r:rn|approx}[.ftz].{t:f32}", D_A, "__builtin_sqrtf(a)", isa="9.7.3.15")
rule("sqrt.rn.{t:f64}", D_A, "__builtin_sqrt(a)", isa="9.7.3.15")
rule("rsqrt.approx[.ftz].{t:f32}", D_A, "(f32)(1.0 / __builtin_sqrt((f64)a))", isa="9.7.3.16")
rule("rsqrt.approx[.ftz].{t:f64}", D_A, "1.0 / __builtin_sqrt(a)", isa="9.7.3.16")
rule("sin.approx[.ftz].{t:f32}", D_A, "(f32)sin((f64)a)", isa="9.7.3.18")
rule("cos.approx[.ftz].{t:f32}", D_A, "(f32)cos((f64)a)", isa="9.7.3.19")
rule("lg2.approx[.ftz].{t:f32}", D_A, "(f32)log2((f64)a)", isa="9.7.3.20")
rule("ex2.approx[.ftz].{t:f32}", D_A, "(f32)exp2((f64)a)", isa="9.7.3.21")
rule("ex2.approx.{t:f16|f16x2}", D_A, "(f32)exp2((f64)a)", isa="9.7.4.10")
rule("ex2.approx.ftz.{t:bf16|bf16x2}", D_A, "(f32)exp2((f64)a)", isa="9.7.4.10")
rule("tanh.approx.{t:f32}", D_A, "(f32)tanh((f64)a)", isa="9.7.3.22")
rule(f"tanh.approx.{{t:{HALVES}}}", D_A, "(f32)tanh((f64)a)", isa="9.7.4.9")
rule("copysign.{t:f32}", D_AB, "__builtin_copysignf(b, a)", isa="9.7.3.2")
rule("copysign.{t:f64}", D_AB, "__builtin_copysign(b, a)", isa="9.7.3.2")
_TESTS = {
    "finite": "isfinite(a)",
    "infinite": "isinf(a)",
    "number": "a == a",
    "notanumber": "a != a",
    "normal": "isnormal(a)",
    "subnormal": "fpclassify(a) == FP_SUBNORMAL",
}
rule(f"testp.{{test:{'|'.join(_TESTS)}}}.{{t:f32|f64}}", "=d:pred a:<t>", lambda g: _TESTS[g["test"]], isa="9.7.3.1")
