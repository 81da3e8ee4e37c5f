"""Warp-wide exchange and matrix instructions (PTX ISA 9.7.9 shfl.sync, 9.7.13 vote, match, redux, 9.7.14
matrices)."""

from __future__ import annotations

from kgen.execute.gpu.ptx.ops.table import Groups, Kind, rule

_SHFL = {"up": "SHFL_UP", "down": "SHFL_DOWN", "bfly": "SHFL_BFLY", "idx": "SHFL_IDX"}
rule(
    "shfl.sync.{mode:up|down|bfly|idx}.b32",
    "=d:b32|q:pred a:b32 b:u32 c:u32 members:u32",
    lambda g: f"kg_shfl(w, I, {_SHFL[g['mode']]}, M, d, q, a, b, c);",
    isa="9.7.9.6",
    kind=Kind.WARP,
    raw=True,
    members="members",
)
_BALLOT = "u32 ballot = a & M;"
rule(
    "vote.sync.ballot.b32",
    "=d:b32 a:pred members:u32",
    f"{_BALLOT} FOR_LANES(l, M) d[l] = ballot;",
    isa="9.7.13.9",
    kind=Kind.WARP,
    raw=True,
    members="members",
)
for _mode, _value in (("all", "ballot == M"), ("any", "ballot != 0"), ("uni", "ballot == M || ballot == 0")):
    rule(
        f"vote.sync.{_mode}.pred",
        "=d:pred a:pred members:u32",
        f"{_BALLOT} u8 value = {_value}; FOR_LANES(l, M) d[l] = value;",
        isa="9.7.13.9",
        kind=Kind.WARP,
        raw=True,
        members="members",
    )


def _redux(g: Groups) -> str:
    signed = "S" if g["t"] == "s32" and g["op"] in ("min", "max") else ""
    return f"u32 value = kg_redux(REDUX_{signed}{g['op'].upper()}, M, a); FOR_LANES(l, M) d[l] = value;"


rule(
    "redux.sync.{op:add|min|max|and|or|xor}.{t:u32|s32|b32}",
    "=d:b32 a:b32 members:u32",
    _redux,
    isa="9.7.13.12",
    kind=Kind.WARP,
    raw=True,
    members="members",
)
for _bits in (32, 64):
    rule(
        f"match.any.sync.b{_bits}",
        f"=d:b32 a:b{_bits} members:u32",
        f"u32 x[32]; FOR_LANES(l, M) x[l] = kg_match_any{_bits}(M, a, l); FOR_LANES(l, M) d[l] = x[l];",
        isa="9.7.13.10",
        kind=Kind.WARP,
        raw=True,
        members="members",
    )
    rule(
        f"match.all.sync.b{_bits}",
        f"=d:b32|q:pred a:b{_bits} members:u32",
        f"u32 same = kg_match_any{_bits}(M, a, first_lane(M)) == M;"
        " FOR_LANES(l, M) { d[l] = same ? M : 0; if (q) q[l] = same; }",
        isa="9.7.13.10",
        kind=Kind.WARP,
        raw=True,
        members="members",
    )
rule("activemask.b32", "=d:b32", "FOR_LANES(l, M) d[l] = M;", isa="9.7.13.11", raw=True)
rule("bar.warp.sync", "members:u32", ";", isa="9.7.13.2", kind=Kind.WARP, raw=True, members="members")
rule(
    "elect.sync",
    "=d:b32|q:pred members:u32",
    "FOR_LANES(l, M) { if (d) d[l] = first_lane(M); q[l] = l == first_lane(M); }",
    isa="9.7.13.14",
    kind=Kind.WARP,
    raw=True,
    members="members",
)

# matrices: rows of the table of supported shapes
_MMA = {
    ("bf16", "f32"): ("MMA_F32_BF16", (8, 16), 2, 4),
    ("f16", "f32"): ("MMA_F32_F16", (8, 16), 2, 4),
    ("f16", "f16"): ("MMA_F16_F16", (8, 16), 2, 2),
    ("tf32", "f32"): ("MMA_F32_TF32", (4, 8), 1, 4),
}


def _mma_rule(shape: int, a: str, b: str, acc: str, kind: str, registers: tuple[int, int]) -> None:
    na, nc = registers
    rule(
        f"mma.sync.aligned.m16n8k{shape}.row.col.{acc}.{a}.{b}.{acc}",
        f"=d*{nc}:b32 a*{na}:b32 b*{na // 2}:b32 c*{nc}:b32",
        f"kg_mma({kind}, {shape}, d, a, b, c);",
        isa="9.7.14.5",
        kind=Kind.WARP,
        raw=True,
        counter="mma",
    )


for (_type, _acc), (_kind, _shapes, _per, _nc) in _MMA.items():
    for _k in _shapes:
        _mma_rule(_k, _type, _type, _acc, _kind, (_k // 2 // _per, _nc))
for _a, _b, _kind in (("s8", "s8", "S8"), ("u8", "u8", "U8"), ("s8", "u8", "SU8"), ("u8", "s8", "US8")):
    for _k in (16, 32):
        _mma_rule(_k, _a, _b, "s32", f"MMA_S32_{_kind}", (_k // 8, 4))


def _matrix_rules(count: int) -> None:
    def load(g: Groups) -> str:
        return f"kg_ldmatrix(w, I, M, {count}, {int('trans' in g)}, d, p);"

    def store(g: Groups) -> str:
        return f"kg_stmatrix(w, I, M, {count}, {int('trans' in g)}, a, p);"

    # ptxas also takes the count before the shape, as CuTe writes it
    shape = f"m8n8\\.x{count}|x{count}\\.m8n8"
    form = f"matrix.sync.aligned.{{shape:{shape}}}[.trans].{{space:shared|shared::cta}}.b16"
    for name, operands, body, section in (
        ("ld", f"=d*{count}:b32 [p]", load, 15),
        ("st", f"[p] a*{count}:b32", store, 16),
    ):
        rule(
            name + form,
            operands,
            body,
            isa=f"9.7.14.5.{section}",
            kind=Kind.WARP,
            raw=True,
            counter=f"{name}matrix",
        )


for _n in (1, 2, 4):
    _matrix_rules(_n)
rule(
    "movmatrix.sync.aligned.m8n8.trans.b16",
    "=d:b32 a:b32",
    "kg_movmatrix(d, a);",
    isa="9.7.14.5.17",
    kind=Kind.WARP,
    raw=True,
)
