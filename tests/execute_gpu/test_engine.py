# ruff: noqa: E501 (PTX text)
"""Control flow, barriers, memory checks, asynchronous copies and scheduling orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from snippets import HEADER, Array, Machine, entry, run_one

from kgen.execute.gpu.ptx.module import PtxError
from kgen.execute.gpu.ptx.parser import parse
from kgen.execute.gpu.ptx.translate import translate

LANES = np.arange(32)
REGS = ".reg .b32 %r<16>; .reg .b64 %m, %x; .reg .pred %p<4>; mul.wide.u32 %x, %t, 4; add.u64 %m, %q0, %x;\n"


def out(n: int = 32) -> dict[str, Array]:
    return {"out": np.zeros(n, np.uint32)}


# ---- divergence


def test_branches_diverge_and_join() -> None:
    body = (
        REGS
        + """
    and.b32 %r1, %t, 1; setp.eq.u32 %p0, %r1, 0; @%p0 bra EVEN;
    mov.b32 %r0, 100; bra JOIN;
    EVEN: mov.b32 %r0, 200;
    JOIN: vote.sync.ballot.b32 %r2, %p0, -1; add.u32 %r0, %r0, %t; st.global.b32 [%m], %r0;"""
    )
    after, findings = run_one(body, out())
    assert findings == []
    assert (after["out"] == np.where(LANES % 2, 100, 200) + LANES).all()


def test_loops_with_different_trip_counts() -> None:
    body = (
        REGS
        + """
    mov.b32 %r0, 0; mov.b32 %r1, 0;
    TOP: setp.ge.u32 %p0, %r1, %t; @%p0 bra DONE; add.u32 %r1, %r1, 1; add.u32 %r0, %r0, %r1; bra TOP;
    DONE: st.global.b32 [%m], %r0;"""
    )
    after, findings = run_one(body, out())
    assert findings == []
    assert (after["out"] == LANES * (LANES + 1) // 2).all()


def test_early_exit_and_guarded_exit() -> None:
    body = REGS + "setp.ge.u32 %p0, %t, 20; @%p0 exit; st.global.b32 [%m], %t;"
    after, findings = run_one(body, out())
    assert findings == []
    assert (after["out"] == np.where(LANES < 20, LANES, 0)).all()


def test_branch_table() -> None:
    body = (
        REGS
        + """
    and.b32 %r1, %t, 3; cases: .branchtargets A, B, C, D; brx.idx %r1, cases;
    A: mov.b32 %r0, 10; bra E; B: mov.b32 %r0, 11; bra E; C: mov.b32 %r0, 12; bra E; D: mov.b32 %r0, 13;
    E: st.global.b32 [%m], %r0;"""
    )
    after, findings = run_one(body, out())
    assert findings == []
    assert (after["out"] == 10 + LANES % 4).all()


def test_scoped_names() -> None:
    scope = "{ .reg .b32 %r0; .reg .pred q; setp.lt.u32 q, %t, 4; mov.b32 %r0, 5; @q bra L; mov.b32 %r0, 6; L: add.u32 %r1, %r1, %r0; }"
    body = REGS + f"mov.b32 %r0, 1; mov.b32 %r1, 0; {scope} {scope} add.u32 %r1, %r1, %r0; st.global.b32 [%m], %r1;"
    after, findings = run_one(body, out())
    assert findings == []
    assert (after["out"] == np.where(LANES < 4, 11, 13)).all()


def test_spinning_lane_lets_its_sibling_run() -> None:
    body = (
        REGS
        + """
    setp.ne.u32 %p0, %t, 0; @%p0 bra SET;
    WAIT: ld.volatile.global.b32 %r0, [%q0+64]; setp.eq.u32 %p1, %r0, 0; @%p1 bra WAIT; bra END;
    SET: setp.ne.u32 %p2, %t, 5; @%p2 bra END; mov.b32 %r1, 7; st.volatile.global.b32 [%q0+64], %r1;
    END: ;"""
    )
    after, findings = run_one(body.replace("END: ;", "END:"), out())
    assert findings == []
    assert after["out"][16] == 7


# ---- barriers

REVERSE = (
    REGS
    + """
.shared .align 4 .b32 s[64]; mov.u32 %r0, s; shl.b32 %r1, %t, 2; add.u32 %r2, %r0, %r1; st.shared.b32 [%r2], %t;
bar.sync 0; sub.u32 %r3, 252, %r1; add.u32 %r3, %r0, %r3; ld.shared.b32 %r4, [%r3]; st.global.b32 [%m], %r4;"""
)


@pytest.mark.parametrize("seed", range(4))
def test_barrier_orders_shared_memory(seed: int) -> None:
    after, findings = run_one(REVERSE, out(64), block=(64,), seed=seed)
    assert findings == []
    assert (after["out"] == 63 - np.arange(64)).all()


def test_missing_barrier_gives_poison() -> None:
    after, _ = run_one(REVERSE.replace("bar.sync 0;", ""), out(64), block=(64,))
    assert (after["out"][:32] == 0xFFFFFFFF).all()


def test_named_barriers_and_arrive() -> None:
    body = (
        REGS
        + """
    .shared .align 4 .b32 s[1]; mov.u32 %r0, s; setp.ge.u32 %p0, %t, 32; @%p0 bra CONSUMER;
    mov.b32 %r1, 42; st.shared.b32 [%r0], %r1; bar.arrive 3, 64; bra END;
    CONSUMER: bar.sync 3, 64; ld.shared.b32 %r1, [%r0]; st.global.b32 [%m], %r1;
    END:"""
    )
    for seed in range(4):
        after, findings = run_one(body, out(64), block=(64,), seed=seed)
        assert findings == []
        assert (after["out"][32:] == 42).all()


def test_barrier_reduction() -> None:
    body = (
        REGS
        + """
    setp.lt.u32 %p0, %t, 40; bar.red.popc.u32 %r0, 0, %p0; bar.red.and.pred %p1, 1, %p0; bar.red.or.pred %p2, 1, !%p0;
    selp.b32 %r1, 1000, 0, %p1; selp.b32 %r2, 2000, 0, %p2; add.u32 %r0, %r0, %r1; add.u32 %r0, %r0, %r2; st.global.b32 [%m], %r0;"""
    )
    after, findings = run_one(body, out(64), block=(64,))
    assert findings == []
    assert (after["out"] == 2040).all()


def test_deadlock_reports_each_warp() -> None:
    body = REGS + "setp.lt.u32 %p0, %t, 32; @%p0 bra A; bar.sync 1, 64; bra END; A: bar.sync 2, 64; END:"
    _, findings = run_one(body, out(64), block=(64,))
    assert [f.kind for f in findings] == ["deadlock"]
    assert "warp 0: lanes ffffffff at barrier 2 (32 of 64)" in findings[0].message
    assert "warp 1: lanes ffffffff at barrier 1 (32 of 64)" in findings[0].message


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("setp.lt.u32 %p0, %t, 8; @%p0 bra A; bar.sync 0; bra END; A: bar.sync 0; END:", "divergent-barrier"),
        ("setp.lt.u32 %p0, %t, 32; @%p0 bra A; bar.sync 1, 64; bra END; A: bar.sync 1, 96; END:", "barrier-mismatch"),
        ("bar.sync 1, 40;", "barrier-count"),
        ("setp.lt.u32 %p0, %t, 32; @%p0 exit; bar.sync 0;", "barrier-exited"),
        ("bar.arrive 1, 128;", "barrier-incomplete"),
        ("mov.b32 %r0, 16; bar.sync %r0;", "barrier-id"),
    ],
)
def test_misused_barriers(body: str, kind: str) -> None:
    _, findings = run_one(REGS + body, out(64), block=(64,))
    assert kind in [f.kind for f in findings]


# ---- memory


def test_partial_warp() -> None:
    after, findings = run_one(REGS + "st.global.b32 [%m], %t;", out(40), block=(40,))
    assert findings == []
    assert (after["out"] == np.arange(40)).all()


@pytest.mark.parametrize(("n", "clean"), [(32, True), (31, False)])
def test_one_element_over(n: int, clean: bool) -> None:
    _, findings = run_one(REGS + "ld.global.b32 %r0, [%m];", out(n))
    assert (findings == []) is clean
    if not clean:
        assert (findings[0].kind, findings[0].lane, findings[0].opcode, findings[0].count) == (
            "out-of-bounds",
            31,
            "ld.global.b32",
            1,
        )
        assert "out+124 (out has 124 bytes)" in findings[0].message


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        ("st.global.b32 [%q0+-4], %t;", "out-of-bounds", "out-4"),
        ("ld.global.b64 %x, [%q0+4];", "misaligned", "multiple of 8"),
        ("ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%q0+8];", "misaligned", "multiple of 16"),
        (".shared .align 4 .b32 s[4]; ld.shared.b32 %r0, [s+16];", "out-of-bounds", "shared s+16 (shared s has 16 bytes)"),
        (".shared .align 4 .b32 s[4]; .shared .align 4 .b32 z[4]; ld.shared.b32 %r0, [z+-4]; ld.shared.b32 %r0, [s];", "out-of-bounds", "shared"),
        ("mov.b32 %r0, 0; ld.shared.b32 %r0, [%r0];", "out-of-bounds", "no memory of this kind"),
        (".local .align 4 .b8 l[16]; ld.local.b32 %r0, [l+16];", "out-of-bounds", "local"),
        ("mov.b64 %x, 64; ld.b32 %r0, [%x];", "out-of-bounds", "global"),
        (".shared .align 4 .b32 s[4]; mov.u32 %r0, s; cp.async.ca.shared.global [%r0+12], [%q0], 8;", "misaligned", "multiple of 8"),
        (".shared .align 16 .b32 s[4]; mov.u32 %r0, s; cp.async.cg.shared.global [%r0], [%q0+128], 16;", "out-of-bounds", "out+128"),
        (".shared .align 16 .b32 s[4]; mov.u32 %r0, s; cp.async.cg.shared.global [%r0], [%q0], 16, 17;", "src-size", "17"),
    ],
)  # fmt: skip
def test_bad_accesses(body: str, kind: str, text: str) -> None:
    _, findings = run_one(REGS + body, out())
    assert [f.kind for f in findings] == [kind]
    assert text in findings[0].message
    assert findings[0].severity == "error"


def test_spaces_and_generic_addresses() -> None:
    body = (
        REGS
        + """
    .shared .align 8 .b64 s[32]; .local .align 8 .b8 l[16]; .reg .b64 %y<4>; .reg .b32 %z;
    mov.u64 %y0, s; cvta.shared.u64 %y0, %y0; mul.wide.u32 %y1, %t, 8; add.u64 %y0, %y0, %y1; st.b32 [%y0], %t;
    mov.u64 %y2, l; cvta.local.u64 %y2, %y2; st.b32 [%y2+4], %t; ld.b32 %r0, [%y0]; ld.local.b32 %r1, [l+4];
    isspacep.shared %p0, %y0; isspacep.local %p1, %y2; isspacep.global %p2, %q0;
    selp.b32 %r2, 100, 0, %p0; selp.b32 %r3, 1000, 0, %p1; selp.b32 %r4, 10000, 0, %p2;
    add.u32 %r0, %r0, %r1; add.u32 %r0, %r0, %r2; add.u32 %r0, %r0, %r3; add.u32 %r0, %r0, %r4; st.b32 [%m], %r0;"""
    )
    after, findings = run_one(body, out())
    assert findings == []
    assert (after["out"] == 11100 + 2 * LANES).all()


def test_module_tables_and_their_bounds() -> None:
    tables = ".const .align 4 .u32 c[4] = {1, 2, 3, 4}; .global .align 4 .f32 g[4] = {0f3F800000, 2.0}; .global .align 8 .u64 a = g;"
    body = (
        REGS
        + """
    and.b32 %r0, %t, 3; mul.wide.u32 %x, %r0, 4; mov.u64 %m, c; add.u64 %m, %m, %x; ld.const.u32 %r1, [%m];
    ld.global.u64 %m, [a]; add.u64 %m, %m, %x; ld.global.b32 %r2, [%m]; add.u32 %r1, %r1, %r2;
    mul.wide.u32 %x, %t, 4; add.u64 %m, %q0, %x; st.global.b32 [%m], %r1;"""
    )
    after, findings = run_one(body, out(), before=tables)
    assert findings == []
    floats = np.array([1, 2, 0, 0], np.float32).view(np.uint32)
    assert (after["out"] == (1 + LANES % 4) + floats[LANES % 4]).all()
    _, findings = run_one(REGS + "ld.const.u32 %r0, [c+16];", out(), before=tables)
    assert "c+16 (c has 16 bytes)" in findings[0].message
    _, findings = run_one(REGS + "mov.u64 %m, c; st.global.u32 [%m], %t;", out(), before=tables)
    assert [f.kind for f in findings] == ["read-only"]


def test_atomics() -> None:
    body = (
        REGS
        + "atom.global.add.u32 %r0, [%q0], 2; red.global.max.u32 [%q0+4], %t; atom.global.cas.b32 %r1, [%q0+8], 0, %t; st.global.b32 [%m+128], %r0;"
    )
    after, findings = run_one(body, out(64))
    assert findings == []
    assert list(after["out"][:2]) == [64, 31] and after["out"][2] == 1
    assert (np.sort(after["out"][32:]) == 2 * LANES).all()


@pytest.mark.parametrize("n", [4, 8, 16])
def test_cp_async_zero_fills(n: int) -> None:
    cop = "cg" if n == 16 else "ca"
    words = n // 4
    body = (
        REGS
        + f"""
    .shared .align 16 .b8 s[512]; mov.u32 %r0, s; shl.b32 %r1, %t, 4; add.u32 %r0, %r0, %r1; and.b32 %r2, %t, 7; min.u32 %r2, %r2, {n};
    mul.wide.u32 %x, %t, 16; add.u64 %m, %q1, %x; cp.async.{cop}.shared.global [%r0], [%m], {n}, %r2;
    cp.async.commit_group; cp.async.wait_group 0; ld.shared.v4.b32 {{%r4, %r5, %r6, %r7}}, [%r0];
    add.u64 %m, %q0, %x; st.global.v4.b32 [%m], {{%r4, %r5, %r6, %r7}};"""
    )
    source = np.random.default_rng(1).integers(0, 255, (32, 16), dtype=np.uint8)
    for mode in ("eager", "late"):
        after, findings = run_one(body, {**out(128), "in": source}, mode=mode)
        assert findings == []
        keep = np.minimum(LANES % 8, n)[:, None]
        want = np.where(np.arange(16) < keep, source, np.where(np.arange(16) < 4 * words, 0, 0xFF))
        assert (after["out"].view(np.uint8).reshape(32, 16) == want).all()


PIPELINE = (
    REGS
    + """
.shared .align 16 .b32 s[8]; mov.u32 %r0, s; setp.ne.u32 %p0, %t, 0; @%p0 exit;
cp.async.ca.shared.global [%r0], [%q1], 4; cp.async.commit_group; cp.async.ca.shared.global [%r0+4], [%q1+4], 4; cp.async.commit_group;
cp.async.wait_group WAIT; ld.shared.b32 %r1, [%r0]; ld.shared.b32 %r2, [%r0+4]; st.global.v2.b32 [%q0], {%r1, %r2};"""
)


@pytest.mark.parametrize(("wait", "late"), [(0, [11, 22]), (1, [11, -1]), (2, [-1, -1])])
def test_wait_group_off_by_one_shows_in_late_mode(wait: int, late: list[int]) -> None:
    arrays = {**out(2), "in": np.array([11, 22], np.uint32)}
    eager, _ = run_one(PIPELINE.replace("WAIT", str(wait)), arrays)
    assert list(eager["out"]) == [11, 22]
    after, _ = run_one(PIPELINE.replace("WAIT", str(wait)), arrays, mode="late")
    assert list(after["out"].view(np.int32)) == late


# ---- orders

ORDER = (
    REGS
    + """
mov.u32 %r0, %ctaid.x; shr.u32 %r1, %t, 5; mad.lo.u32 %r2, %r0, 2, %r1; and.b32 %r3, %t, 31; setp.ne.u32 %p0, %r3, 0;
@%p0 exit; atom.global.add.u32 %r4, [%q0], 1; mul.wide.u32 %x, %r4, 4; add.u64 %m, %q0, %x; st.global.b32 [%m+4], %r2;"""
)


def order(seed: int) -> list[int]:
    after, findings = run_one(ORDER, out(17), grid=(8,), block=(64,), seed=seed)
    assert findings == []
    return list(after["out"][1:])


def test_orders_are_permuted_and_reproducible() -> None:
    assert order(0) == list(range(16))
    seen = {tuple(order(seed)) for seed in range(1, 9)}
    assert len(seen) > 4
    assert all(sorted(x) == list(range(16)) for x in seen)
    assert order(5) == order(5)


def test_grid_and_block_coordinates() -> None:
    names = [
        "%tid.x",
        "%tid.y",
        "%tid.z",
        "%ctaid.x",
        "%ctaid.y",
        "%ctaid.z",
        "%ntid.x",
        "%ntid.y",
        "%ntid.z",
        "%nctaid.x",
        "%nctaid.y",
        "%nctaid.z",
    ]
    body = [".reg .b32 %r<16>; .reg .b64 %m;"] + [f"mov.u32 %r{i}, {name};" for i, name in enumerate(names)]
    body.append("mad.lo.u32 %r12, %r11, 0, %r5; mad.lo.u32 %r12, %r12, %r10, %r4; mad.lo.u32 %r12, %r12, %r9, %r3;")
    body.append(
        "mad.lo.u32 %r12, %r12, %r8, %r2; mad.lo.u32 %r12, %r12, %r7, %r1; mad.lo.u32 %r12, %r12, %r6, %r0; mul.wide.u32 %m, %r12, 48; add.u64 %m, %q0, %m;"
    )
    body += [f"st.global.b32 [%m+{4 * i}], %r{i};" for i in range(12)]
    after, findings = run_one(
        "\n".join(body), {"out": np.zeros((4, 3, 2, 5, 2, 3, 12), np.uint32)}, grid=(2, 3, 4), block=(3, 2, 5)
    )
    assert findings == []
    index = np.indices((4, 3, 2, 5, 2, 3))
    got = after["out"]
    for k, axis in ((0, 5), (1, 4), (2, 3), (3, 2), (4, 1), (5, 0)):
        assert (got[..., k] == index[axis]).all()
    assert (got[0, 0, 0, 0, 0, 0, 6:] == [3, 2, 5, 2, 3, 4]).all()


# ---- refusals


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("frobnicate.b32 %r0, %r1;", "frobnicate.b32: no rule"),
        ("add.frob.s32 %r0, %r1, %r2;", "add.frob.s32: no rule"),
        ("add.s32 %r0, %r1;", "2 operands, expected 3"),
        ("add.s64 %r0, %r1, %r2;", "narrower than s64"),
        ("add.s32 %r0, %nope, %r2;", "unknown register %nope"),
        ("mov.u32 %r0, nowhere;", "unknown symbol nowhere"),
        ("bra NOWHERE;", "unknown label"),
        ("wgmma.fence.sync.aligned;", "wgmma.fence.sync.aligned: no rule"),
    ],
)
def test_what_is_not_supported_is_named(text: str, message: str) -> None:
    module = parse(HEADER + entry("k", REGS + text, 1))
    with pytest.raises(PtxError, match=r"PTX line \d+") as error:
        translate(module, "k", {})
    assert message in str(error.value)


@pytest.mark.parametrize(
    "text",
    [".visible .entry k() { add.s32", ".visible .entry k() { .reg .b99 %r; }", "hello;", ".visible .entry k() {"],
)
def test_broken_text_is_refused(text: str) -> None:
    with pytest.raises(PtxError, match="PTX line"):
        parse(HEADER + text)


def test_findings_stop_at_the_cap() -> None:
    body = REGS + "".join(f"ld.global.b32 %r0, [%q0+{1000 + 4 * i}];" for i in range(20)) + "TOP: bra TOP;"
    _, findings = run_one(body, out(), max_findings=5)
    assert len(findings) == 5


def test_counters() -> None:
    machine = Machine(entry("k", REGS + "st.global.b32 [%m], %t; bar.sync 0;", 1))
    machine.run("k", out(64), block=(64,))
    counters: dict[str, Any] = machine.session.counters()
    assert counters["store"] == 2 and counters["barrier"] == 2 and counters["launches"] == 1
