# ruff: noqa: E501 (PTX text)
"""Warp-wide instructions: shuffles, votes, reductions, matrices."""

from __future__ import annotations

import numpy as np
import pytest
from snippets import Array, bf16, from_bf16, run_one

RNG = np.random.default_rng(3)
LANES = np.arange(32)


def warp(body: str, values: Array, out: Array | None = None) -> tuple[Array, list[str]]:
    """Run with each lane's value in %v; the body leaves its result in %d."""
    text = f".reg .b32 %v, %d, %s; .reg .b64 %m; .reg .pred %p; add.u64 %m, %q0, %o; ld.global.b32 %v, [%m];\n{body}\nadd.u64 %m, %q1, %o; st.global.b32 [%m], %d;"
    arrays = {"v": np.zeros(64, np.uint32), "d": np.zeros(64, np.uint32)}
    arrays["v"][::2] = values
    after, findings = run_one(text, arrays)
    return after["d"][::2], [f.kind for f in findings]


VALUES = RNG.integers(0, 2**32, 32, dtype=np.uint32)


@pytest.mark.parametrize(
    ("mode", "b", "c", "source"),
    [
        ("up", 3, 0, np.maximum(LANES - 3, 0) + (LANES < 3) * LANES),
        ("down", 5, 31, np.where(LANES + 5 < 32, LANES + 5, LANES)),
        ("bfly", 6, 31, LANES ^ 6),
        ("idx", 9, 31, np.full(32, 9)),
        ("bfly", 4, 0x181F, np.where((LANES ^ 4) // 8 == LANES // 8, LANES ^ 4, LANES)),
        ("down", 3, 0x181F, np.where((LANES + 3) // 8 == LANES // 8, LANES + 3, LANES)),
    ],
)
def test_shfl(mode: str, b: int, c: int, source: Array) -> None:
    got, findings = warp(f"shfl.sync.{mode}.b32 %d|%p, %v, {b}, {c}, 0xffffffff;", VALUES)
    assert findings == []
    assert (got == VALUES[source]).all()


def test_shfl_predicate_tells_range() -> None:
    got, _ = warp("shfl.sync.up.b32 %s|%p, %v, 1, 0, -1; selp.b32 %d, 1, 0, %p;", VALUES)
    assert (got == (LANES >= 1)).all()


def test_vote_and_redux_and_match() -> None:
    odd = "and.b32 %s, %v, 1; setp.ne.u32 %p, %s, 0;"
    ballot = sum(int(v & 1) << i for i, v in enumerate(VALUES))
    assert (warp(f"{odd} vote.sync.ballot.b32 %d, %p, -1;", VALUES)[0] == ballot).all()
    assert (warp(f"{odd} vote.sync.ballot.b32 %d, !%p, -1;", VALUES)[0] == ballot ^ 0xFFFFFFFF).all()
    assert (warp(f"{odd} vote.sync.any.pred %p, %p, -1; selp.b32 %d, 1, 0, %p;", VALUES)[0] == 1).all()
    assert (warp(f"{odd} vote.sync.all.pred %p, %p, -1; selp.b32 %d, 1, 0, %p;", VALUES)[0] == 0).all()
    assert (warp("redux.sync.add.u32 %d, %v, -1;", VALUES)[0] == VALUES.sum(dtype=np.uint32)).all()
    assert (warp("redux.sync.max.s32 %d, %v, -1;", VALUES)[0] == VALUES.view(np.int32).max().view(np.uint32)).all()
    assert (warp("redux.sync.min.u32 %d, %v, -1;", VALUES)[0] == VALUES.min()).all()
    few = VALUES % 4
    want = [sum(int(x == y) << i for i, x in enumerate(few)) for y in few]
    assert (warp("match.any.sync.b32 %d, %v, -1;", few)[0] == want).all()


def test_member_masks_split_a_warp() -> None:
    body = "setp.lt.u32 %p, %t, 16; selp.b32 %s, 0xffff, 0xffff0000, %p; redux.sync.add.u32 %d, %v, %s;"
    got, findings = warp(body, VALUES)
    assert findings == []
    assert (got[:16] == VALUES[:16].sum(dtype=np.uint32)).all()
    assert (got[16:] == VALUES[16:].sum(dtype=np.uint32)).all()


def test_divergent_shuffle_is_found() -> None:
    body = "setp.lt.u32 %p, %t, 8; mov.b32 %d, 0; @!%p bra L; shfl.sync.bfly.b32 %d, %v, 1, 31, -1; bra END;"
    _, findings = warp(body + " L: shfl.sync.bfly.b32 %d, %v, 1, 31, -1; END:", VALUES)
    assert findings == ["divergent-collective"]


def test_reading_an_inactive_lane_is_found() -> None:
    body = "setp.lt.u32 %p, %t, 8; mov.b32 %d, 0; @!%p bra L; shfl.sync.bfly.b32 %d, %v, 16, 31, 0xff; L:"
    _, findings = warp(body, VALUES)
    assert findings == ["shfl-inactive"]


# ---- matrices

FRAGMENTS = """
.reg .b32 %r<32>; .reg .b64 %m; .reg .b64 %x;
"""


def mma(opcode: str, na: int, nb: int, nc: int, a: Array, b: Array, c: Array) -> Array:
    """Run one mma on fragments laid out as [register][lane]; returns the result fragment."""
    body = [FRAGMENTS, "mul.wide.u32 %x, %t, 4;"]
    registers = [f"%r{i}" for i in range(na + nb + nc)]
    for i, register in enumerate(registers):
        array, index = ("%q0", i) if i < na else ("%q1", i - na) if i < na + nb else ("%q2", i - na - nb)
        body.append(f"add.u64 %m, {array}, %x; ld.global.b32 {register}, [%m+{128 * index}];")
    groups = (registers[na + nb :], registers[:na], registers[na : na + nb], registers[na + nb :])
    body.append(opcode + " " + ", ".join("{" + ", ".join(g) + "}" for g in groups) + ";")
    body += [f"add.u64 %m, %q3, %x; st.global.b32 [%m+{128 * i}], {r};" for i, r in enumerate(registers[na + nb :])]
    arrays = {"a": a, "b": b, "c": c, "d": np.zeros((nc, 32), np.uint32)}
    after, findings = run_one("\n".join(body), arrays)
    assert findings == []
    return after["d"]


def fragment(matrix: Array, rows: int, per: int) -> Array:
    """Fragments of a row-major matrix: registers ordered by k block, then by row block (PTX ISA 9.7.14.5)."""
    flat = np.ascontiguousarray(matrix)
    out = []
    width = 4 * per  # elements of a row in one register group
    for k in range(0, matrix.shape[1], width):
        for r in range(0, rows, 8):
            block = np.ascontiguousarray(flat[r : r + 8, k : k + width])
            out.append(block.view(np.uint32).reshape(32))
    return np.array(out, np.uint32)


def accumulators(c: Array) -> Array:
    """f32 or s32 fragments of a 16 x 8 matrix."""
    out = np.zeros((4, 32), np.uint32)
    for lane in range(32):
        for i in range(4):
            out[i, lane] = c[lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2].view(np.uint32)
    return out


def from_accumulators(d: Array, dtype: type) -> Array:
    out = np.zeros((16, 8), dtype)
    for lane in range(32):
        for i in range(4):
            out[lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2] = d[i, lane].view(dtype)
    return out


def chain(a: Array, b: Array, c: Array) -> Array:
    """The documented order: fused multiply-adds over ascending k, each rounded to f32."""
    total = c.astype(np.float32)
    for k in range(a.shape[1]):
        exact = total.astype(np.longdouble) + a[:, k : k + 1].astype(np.longdouble) * b[k : k + 1, :].astype(
            np.longdouble
        )
        total = exact.astype(np.float32)
    return total


@pytest.mark.parametrize("type_", ["bf16", "f16"])
@pytest.mark.parametrize("k", [8, 16])
def test_mma_16bit(type_: str, k: int) -> None:
    a, b, c = (RNG.standard_normal(s).astype(np.float32) for s in ((16, k), (k, 8), (16, 8)))
    encode, decode = (
        (bf16, from_bf16)
        if type_ == "bf16"
        else (lambda x: x.astype(np.float16).view(np.uint16), lambda h: h.view(np.float16).astype(np.float32))
    )
    ha, hb = encode(a), encode(b)
    got = mma(
        f"mma.sync.aligned.m16n8k{k}.row.col.f32.{type_}.{type_}.f32", k // 4, k // 8, 4,
        fragment(ha, 16, 2), fragment(hb.T, 8, 2), accumulators(c),
    )  # fmt: skip
    assert (from_accumulators(got, np.float32) == chain(decode(ha), decode(hb), c)).all()


@pytest.mark.parametrize("k", [4, 8])
def test_mma_tf32(k: int) -> None:
    a, b, c = (RNG.standard_normal(s).astype(np.float32) for s in ((16, k), (k, 8), (16, 8)))
    opcode = f"mma.sync.aligned.m16n8k{k}.row.col.f32.tf32.tf32.f32"
    got = mma(opcode, k // 2, k // 4, 4, fragment(a, 16, 1), fragment(b.T.copy(), 8, 1), accumulators(c))
    cut = lambda x: (x.view(np.uint32) & 0xFFFFE000).view(np.float32)  # noqa: E731
    assert (from_accumulators(got, np.float32) == chain(cut(a), cut(b), c)).all()


@pytest.mark.parametrize("k", [8, 16])
def test_mma_f16_accumulators(k: int) -> None:
    a, b, c = (RNG.standard_normal(s).astype(np.float16) for s in ((16, k), (k, 8), (16, 8)))
    opcode = f"mma.sync.aligned.m16n8k{k}.row.col.f16.f16.f16.f16"
    got = mma(opcode, k // 4, k // 8, 2, fragment(a, 16, 2), fragment(b.T.copy(), 8, 2), fragment(c, 16, 2))
    result = got.view(np.float16).reshape(2, 8, 8).reshape(16, 8)
    assert (result == chain(a, b, c).astype(np.float16)).all()


@pytest.mark.parametrize(("x", "y"), [("s8", "s8"), ("u8", "u8"), ("s8", "u8"), ("u8", "s8")])
@pytest.mark.parametrize("k", [16, 32])
def test_mma_int8(k: int, x: str, y: str) -> None:
    kinds = {"s8": (np.int8, -128, 128), "u8": (np.uint8, 0, 256)}
    a = RNG.integers(*kinds[x][1:], (16, k)).astype(kinds[x][0])
    b = RNG.integers(*kinds[y][1:], (k, 8)).astype(kinds[y][0])
    c = RNG.integers(-1000, 1000, (16, 8)).astype(np.int32)
    opcode = f"mma.sync.aligned.m16n8k{k}.row.col.s32.{x}.{y}.s32"
    got = mma(opcode, k // 8, k // 16, 4, fragment(a, 16, 4), fragment(b.T.copy(), 8, 4), accumulators(c))
    assert (from_accumulators(got, np.int32) == a.astype(int) @ b.astype(int) + c).all()


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", ["", ".trans"])
def test_ldmatrix_and_stmatrix(count: int, trans: str) -> None:
    """Lane 4g + t of matrix i holds row g, columns 2t and 2t + 1 (of the transpose with .trans)."""
    words = ", ".join(f"%r{i}" for i in range(count))
    regs = "{" + words + "}"
    store = "".join(f"st.global.b32 [%m+{128 * i}], %r{i};" for i in range(count))
    body = f"""{FRAGMENTS} .reg .b32 %s, %u; .reg .b32 %w<4>; .shared .align 16 .b8 tile[1024];
    mul.wide.u32 %x, %t, 16; add.u64 %m, %q0, %x; ld.global.v4.b32 {{%w0, %w1, %w2, %w3}}, [%m];
    mov.u32 %s, tile; shl.b32 %u, %t, 4; add.u32 %s, %s, %u; st.shared.v4.b32 [%s], {{%w0, %w1, %w2, %w3}}; bar.warp.sync -1;
    ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {regs}, [%s];
    mul.wide.u32 %x, %t, 4; add.u64 %m, %q1, %x; {store}
    bar.warp.sync -1; st.shared.v4.b32 [%s], {{%r31, %r31, %r31, %r31}};
    stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%s], {regs}; bar.warp.sync -1;
    ld.shared.v4.b32 {{%w0, %w1, %w2, %w3}}, [%s];
    mul.wide.u32 %x, %t, 16; add.u64 %m, %q2, %x; st.global.v4.b32 [%m], {{%w0, %w1, %w2, %w3}};"""
    tile = RNG.integers(0, 2**16, (4, 8, 8), dtype=np.uint16)
    arrays = {"in": tile, "out": np.zeros((4, 32), np.uint32), "back": np.zeros((4, 8, 8), np.uint16)}
    after, findings = run_one(body, arrays)
    assert findings == []
    for i in range(count):
        matrix = tile[i].T if trans else tile[i]
        want = np.ascontiguousarray(matrix).view(np.uint32).reshape(32)
        assert (after["out"][i] == want).all()
    assert (after["back"][:count] == tile[:count]).all()


def test_movmatrix() -> None:
    tile = RNG.integers(0, 2**16, (8, 8), dtype=np.uint16)
    got, findings = warp("movmatrix.sync.aligned.m8n8.trans.b16 %d, %v;", tile.view(np.uint32).reshape(32))
    assert findings == []
    assert (np.ascontiguousarray(got).view(np.uint16).reshape(8, 8) == tile.T).all()
