"""The common instructions: their handlers join the first batch, so that most kernels compile nothing."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.execute.gpu.ptx.parser import parse
from kgen.execute.gpu.ptx.translate import translate

_REGISTER = {"pred": "%p", "16": "%h", "32": "%r", "64": "%d", "f32": "%f", "f64": "%g"}
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def _register(type_: str, index: int) -> str:
    key = (
        type_
        if type_ in _REGISTER
        else "16"
        if type_ in ("f16", "bf16")
        else "32"
        if type_.endswith("x2")
        else type_[1:]
    )
    return f"{_REGISTER[key]}{index}"


def _apply(opcode: str, *types: str) -> str:
    return f"{opcode} {', '.join(_register(t, i) for i, t in enumerate(types))};"


def _integer() -> Iterator[str]:
    for t in ("u32", "s32", "u64", "s64", "u16", "s16"):
        yield from (_apply(f"{op}.{t}", t, t, t) for op in ("add", "sub", "mul.lo", "min", "max", "div", "rem"))
        yield _apply(f"mad.lo.{t}", t, t, t, t)
        yield from (_apply(f"setp.{c}.{t}", "pred", t, t) for c in _COMPARISONS)
        yield from (_apply(f"setp.{c}.{j}.{t}", "pred", t, t, "pred") for c in _COMPARISONS for j in ("and", "or"))
        yield _apply(f"shr.{t}", t, t, "u32")
    for t in ("b16", "b32", "b64"):
        yield from (_apply(f"{op}.{t}", t, t, t) for op in ("and", "or", "xor"))
        yield from (_apply(f"not.{t}", t, t), _apply(f"shl.{t}", t, t, "u32"), _apply(f"mov.{t}", t, t))
        yield from (_apply(f"selp.{t}", t, t, t, "pred"), _apply(f"setp.ne.{t}", "pred", t, t))
    for t in ("u32", "s32"):
        wide = t[0] + "64"
        yield from (_apply(f"mul.wide.{t}", wide, t, t), _apply(f"mul.hi.{t}", t, t, t))
        yield from (_apply(f"mad.wide.{t}", wide, t, t, wide), _apply(f"bfe.{t}", t, t, "u32", "u32"))
        yield from (_apply(f"mov.{t}", t, t), _apply(f"mov.{t[0]}64", wide, wide))
    yield from (_apply(f"{op}.pred", "pred", "pred", "pred") for op in ("and", "or", "xor"))
    yield from (_apply("not.pred", "pred", "pred"), _apply("mov.pred", "pred", "pred"), _apply("neg.s32", "s32", "s32"))
    yield from (_apply("abs.s32", "s32", "s32"), _apply("popc.b32", "u32", "b32"), _apply("clz.b32", "u32", "b32"))
    yield from ("bfi.b32 %r0, %r1, %r2, %r3, %r4;", "lop3.b32 %r0, %r1, %r2, %r3, 150;", "prmt.b32 %r0, %r1, %r2, %r3;")
    yield from (f"shf.{s}.{m}.b32 %r0, %r1, %r2, %r3;" for s in "lr" for m in ("wrap", "clamp"))


def _floating() -> Iterator[str]:
    for t in ("f32", "f64"):
        yield from (_apply(f"{op}.{t}", t, t, t) for op in ("add", "sub", "mul", "min", "max"))
        yield from (_apply(f"add.rn.{t}", t, t, t), _apply(f"mul.rn.{t}", t, t, t), _apply(f"fma.rn.{t}", t, t, t, t))
        yield from (_apply(f"neg.{t}", t, t), _apply(f"abs.{t}", t, t), _apply(f"mov.{t}", t, t))
        yield from (_apply(f"div.rn.{t}", t, t, t), _apply(f"selp.{t}", t, t, t, "pred"))
        yield from (_apply(f"setp.{c}.{t}", "pred", t, t) for c in (*_COMPARISONS, "neu", "num", "nan"))
    names = (
        "ex2.approx.ftz",
        "ex2.approx",
        "lg2.approx",
        "rcp.rn",
        "rcp.approx.ftz",
        "rcp.approx",
        "sqrt.rn",
        "sqrt.approx",
    )
    for name in (*names, "rsqrt.approx", "sin.approx", "cos.approx", "tanh.approx", "cvt.sat.f32"):
        yield _apply(f"{name}.f32", "f32", "f32")
    yield _apply("div.full.f32", "f32", "f32", "f32")
    for t in ("f16", "bf16", "f16x2", "bf16x2"):
        yield _apply(f"fma.rn.{t}", t, t, t, t)
    for t in ("f16", "f16x2"):
        yield from (_apply(f"{op}.{t}", t, t, t) for op in ("add", "sub", "mul", "min", "max"))


def _conversions() -> Iterator[str]:
    wide = ("u16", "s16", "u32", "s32", "u64", "s64")
    yield from (_apply(f"cvt.{d}.{s}", d, s) for d in wide for s in wide if d != s)
    yield from (_apply(f"cvt.rn.{f}.{s}", f, s) for f in ("f32", "f64") for s in ("u32", "s32", "u64", "s64"))
    yield from (_apply(f"cvt.rzi.{d}.f32", d, "f32") for d in ("u32", "s32", "u64", "s64"))
    yield from (_apply(f"cvt.rn.{d}.f32", d, "f32") for d in ("f16", "bf16"))
    yield from (_apply(f"cvt.f32.{s}", "f32", s) for s in ("f16", "bf16"))
    yield from (_apply("cvt.f64.f32", "f64", "f32"), _apply("cvt.rn.f32.f64", "f32", "f64"))
    yield from (f"cvt.rn.{d}.f32 %r0, %f1, %f2;" for d in ("f16x2", "bf16x2"))
    yield from (
        "cvt.rna.tf32.f32 %r0, %f1;",
        "mov.b32 {%h0, %h1}, %r0;",
        "mov.b32 %r0, {%h0, %h1};",
        "mov.b32 %r0, %f0;",
    )
    yield from ("mov.b64 {%r0, %r1}, %d0;", "mov.b64 %d0, {%r0, %r1};", "mov.b32 %f0, %r0;")
    yield from (f"cvta.{s}.u64 %d0, %d1;" for s in ("to.global", "to.shared", "shared", "global", "local"))


def _memory() -> Iterator[str]:
    for space, base in (("global", "%d9"), ("shared", "%r9")):
        for t in ("b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64", "f32", "f64"):
            register = _register("b16" if t.endswith("8") else t, 0)
            yield from (f"ld.{space}.{t} {register}, [{base}];", f"st.{space}.{t} [{base}], {register};")
        for t, most in (("b16", 4), ("b32", 4), ("u32", 4), ("f32", 4), ("b64", 2), ("u64", 2), ("f64", 2)):
            for n in (2, 4)[: most // 2]:
                registers = "{" + ", ".join(_register(t, i) for i in range(n)) + "}"
                yield from (
                    f"ld.{space}.v{n}.{t} {registers}, [{base}];",
                    f"st.{space}.v{n}.{t} [{base}], {registers};",
                )
    for t in ("b32", "u32", "s32", "f32", "b64", "u64", "s64"):
        yield from (f"ld.param.{t} {_register(t, 0)}, [p];", f"ld.global.nc.{t} {_register(t, 0)}, [%d9];")
    yield from ("cp.async.cg.shared.global [%r0], [%d0], 16, %r1;", "cp.async.cg.shared.global [%r0], [%d0], 16;")
    yield from ("cp.async.commit_group;", "cp.async.wait_group 0;", "cp.async.wait_all;")
    yield from ("ld.global.nc.v4.u32 {%r0, %r1, %r2, %r3}, [%d9];", "ld.global.nc.v4.f32 {%f0, %f1, %f2, %f3}, [%d9];")


def _warp() -> Iterator[str]:
    yield from (f"shfl.sync.{mode}.b32 %r0|%p0, %r1, %r2, %r3, %r4;" for mode in ("up", "down", "bfly", "idx"))
    yield from (f"ldmatrix.sync.aligned.m8n8.x4{t}.shared.b16 {{%r0, %r1, %r2, %r3}}, [%r9];" for t in ("", ".trans"))
    yield from (f"ldmatrix.sync.aligned.m8n8.x2{t}.shared.b16 {{%r0, %r1}}, [%r9];" for t in ("", ".trans"))
    acc = "{%f0, %f1, %f2, %f3}"
    for t in ("bf16", "f16"):
        shape = f"m16n8k16.row.col.f32.{t}.{t}.f32"
        yield f"mma.sync.aligned.{shape} {acc}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}}, {acc};"


def handlers() -> dict[str, str]:
    """Names and texts of the common handlers."""
    statements = [*_integer(), *_floating(), *_conversions(), *_memory(), *_warp()]
    declared = "".join(
        f".reg .{t} {name}<10>;"
        for t, name in (("pred", "%p"), ("b16", "%h"), ("b32", "%r"), ("b64", "%d"), ("f32", "%f"), ("f64", "%g"))
    )
    text = (
        f".version 8.7\n.target sm_80\n.visible .entry core(.param .u64 p) {{\n{declared}\n"
        + "\n".join(statements)
        + "\n}\n"
    )
    return translate(parse(text), "core", {}).handlers
