"""Operators of three kinds written as tile programs: they are well formed, and print as a reader would write them."""

from __future__ import annotations

import pytest

from kgen.tile import (
    Broadcast,
    Cast,
    Fill,
    Level,
    Load,
    Loop,
    LoopKind,
    Map,
    Mma,
    Position,
    Program,
    Reduce,
    Select,
    Size,
    Statement,
    Store,
    Tensor,
    Tile,
    operations,
    program_text,
    scalar,
    validate,
)

INFINITY = float("inf")


def _tile(name: str, axes: str, dtype: str = "f32", level: Level = Level.LOCAL) -> Tile:
    return Tile(name, dtype, axes, level)


Q, K, V, OUT = (
    Tensor(name, "bf16", f"bh{axes}") for name, axes in (("q", "md"), ("k", "nd"), ("v", "nd"), ("o", "md"))
)
SCALE = Tensor("scale", "f32", "")
Q_TILE, K_TILE, V_TILE = (_tile(f"{t.name}_tile", t.layout.replace("bh", ""), "bf16", Level.STAGED) for t in (Q, K, V))
ROW_MAX, ROW_SUM = _tile("row_max", "m"), _tile("row_sum", "m")
ACC = _tile("acc", "md", level=Level.ACCUMULATOR)


def attention() -> Program:
    """Attention forward, causal: one pass over the keys with a running maximum and sum."""
    body = (
        Load(Q_TILE, Q),
        Fill(ROW_MAX, -INFINITY),
        Fill(ROW_SUM, 0.0),
        Fill(ACC, 0.0),
        Loop(LoopKind.SEQUENTIAL, "n_tile", "n", (*_scores(), *_update()), (ROW_MAX, ROW_SUM, ACC)),
        Broadcast(sum_md := _tile("sum_md", "md"), ROW_SUM),
        Map.of(o_value := _tile("o_value", "md"), "acc / sum_md", ACC, sum_md),
        Cast(o_tile := _tile("o_tile", "md", "bf16"), o_value),
        Store(OUT, o_tile),
    )
    rows = Loop(LoopKind.PARALLEL, "m_tile", "m", body)
    heads = Loop(LoopKind.PARALLEL, "head", "h", (rows,), unit=True)
    return Program("attention", (Q, K, V, SCALE, OUT), (Loop(LoopKind.PARALLEL, "batch", "b", (heads,), unit=True),))


SEEN = _tile("seen", "mn")


def _scores() -> tuple[Statement, ...]:
    """Scores of one tile of keys, those that a row must not see at minus infinity."""
    scores = _tile("scores", "mn", level=Level.ACCUMULATOR)
    row, column, keys = _tile("row", "mn", "i32"), _tile("column", "mn", "i32"), _tile("keys", "", "i32")
    return (
        Load(K_TILE, K),
        Fill(scores, 0.0),
        Mma(scores, Q_TILE, K_TILE),
        Map.of(scaled := _tile("scaled", "mn"), "scores * scale", scores, scalar(SCALE)),
        Position(row, "m"),
        Position(column, "n"),
        Size(keys, "n"),
        Select.of(SEEN, "column <= row and column < keys", (row, column, keys), scaled, -INFINITY),
    )


def _update() -> tuple[Statement, ...]:
    """The running maximum, sum and result, with one tile of scores taken in."""
    return (
        Reduce(tile_max := _tile("tile_max", "m"), SEEN, "n", "max"),
        Map.of(new_max := _tile("new_max", "m"), "max(row_max, tile_max)", ROW_MAX, tile_max),
        Map.of(shrink := _tile("shrink", "m"), "exp(row_max - new_max)", ROW_MAX, new_max),
        Broadcast(max_mn := _tile("max_mn", "mn"), new_max),
        Map.of(p := _tile("p", "mn"), "exp(seen - max_mn)", SEEN, max_mn),
        Reduce(tile_sum := _tile("tile_sum", "m"), p, "n", "sum"),
        Map.of(ROW_SUM, "row_sum * shrink + tile_sum", ROW_SUM, shrink, tile_sum),
        Broadcast(shrink_md := _tile("shrink_md", "md"), shrink),
        Map.of(ACC, "acc * shrink_md", ACC, shrink_md),
        Cast(p_tile := _tile("p_tile", "mn", "bf16"), p),
        Load(V_TILE, V),
        Mma(ACC, p_tile, V_TILE),
        Map.of(ROW_MAX, "new_max", new_max),
    )


ATTENTION = """\
attention(q[b, h, m, d]: bf16, k[b, h, n, d]: bf16, v[b, h, n, d]: bf16, scale: f32) -> o[b, h, m, d]: bf16
parallel batch in range(b):
    parallel head in range(h):
        parallel m_tile in tiles(m):
            q_tile = load(q)
            row_max = fill(-inf)
            row_sum = fill(0)
            acc = fill(0)
            sequential n_tile in tiles(n) carrying row_max, row_sum, acc:
                k_tile = load(k)
                scores = fill(0)
                scores = mma(scores, q_tile, k_tile)
                scaled = scores * scale
                row = position(m)
                column = position(n)
                keys = size(n)
                seen = select(column <= row and column < keys, scaled, -inf)
                tile_max = max(seen, n)
                new_max = max(row_max, tile_max)
                shrink = exp(row_max - new_max)
                max_mn = broadcast(new_max, mn)
                p = exp(seen - max_mn)
                tile_sum = sum(p, n)
                row_sum = row_sum * shrink + tile_sum
                shrink_md = broadcast(shrink, md)
                acc = acc * shrink_md
                p_tile = cast(p, bf16)
                v_tile = load(v)
                acc = mma(acc, p_tile, v_tile)
                row_max = new_max
            sum_md = broadcast(row_sum, md)
            o_value = acc / sum_md
            o_tile = cast(o_value, bf16)
            store(o, o_tile)
"""


def rms_norm() -> Program:
    """Root-mean-square norm of whole rows: a tile spans all of c, no loop along it."""
    x, w, y = Tensor("x", "bf16", "rc"), Tensor("w", "bf16", "c"), Tensor("y", "bf16", "rc")
    eps = Tensor("eps", "f32", "")
    body = (
        Load(x_tile := _tile("x_tile", "rc", "bf16", Level.STAGED), x),
        Map.of(square := _tile("square", "rc"), "x_tile * x_tile", x_tile),
        Reduce(total := _tile("total", "r"), square, "c", "sum"),
        Size(columns := _tile("columns", "", "i32"), "c"),
        Map.of(scale := _tile("scale", "r"), "rsqrt(total / columns + eps)", total, columns, scalar(eps)),
        Broadcast(scale_rc := _tile("scale_rc", "rc"), scale),
        Load(w_tile := _tile("w_tile", "c", "bf16"), w),
        Broadcast(w_rc := _tile("w_rc", "rc", "bf16"), w_tile),
        Map.of(y_value := _tile("y_value", "rc"), "x_tile * scale_rc * w_rc", x_tile, scale_rc, w_rc),
        Cast(y_tile := _tile("y_tile", "rc", "bf16"), y_value),
        Store(y, y_tile),
    )
    return Program("rms_norm", (x, w, eps, y), (Loop(LoopKind.PARALLEL, "r_tile", "r", body),))


RMS_NORM = """\
rms_norm(x[r, c]: bf16, w[c]: bf16, eps: f32) -> y[r, c]: bf16
parallel r_tile in tiles(r):
    x_tile = load(x)
    square = x_tile * x_tile
    total = sum(square, c)
    columns = size(c)
    scale = rsqrt(total / columns + eps)
    scale_rc = broadcast(scale, rc)
    w_tile = load(w)
    w_rc = broadcast(w_tile, rc)
    y_value = x_tile * scale_rc * w_rc
    y_tile = cast(y_value, bf16)
    store(y, y_tile)
"""


def sum_of_squares() -> Program:
    """Rows too long for a tile: the reduction along c is a loop that carries the sum."""
    x, y = Tensor("x", "f32", "rc"), Tensor("y", "f32", "r")
    total = _tile("total", "r")
    step = (
        Load(x_tile := _tile("x_tile", "rc"), x),
        Map.of(square := _tile("square", "rc"), "x_tile * x_tile", x_tile),
        Reduce(part := _tile("part", "r"), square, "c", "sum"),
        Map.of(total, "total + part", total, part),
    )
    body = (Fill(total, 0.0), Loop(LoopKind.REDUCTION, "c_tile", "c", step, (total,)), Store(y, total))
    return Program("sum_of_squares", (x, y), (Loop(LoopKind.PARALLEL, "r_tile", "r", body),))


SUM_OF_SQUARES = """\
sum_of_squares(x[r, c]: f32) -> y[r]: f32
parallel r_tile in tiles(r):
    total = fill(0)
    reduction c_tile in tiles(c) carrying total:
        x_tile = load(x)
        square = x_tile * x_tile
        part = sum(square, c)
        total = total + part
    store(y, total)
"""


def grouped_gemm() -> Program:
    """Rows of a and c come in groups, one after another; group g is multiplied by its own b[g]."""
    a, c = Tensor("a", "bf16", "mk"), Tensor("c", "bf16", "mn")
    b, starts = Tensor("b", "bf16", "gnk"), Tensor("starts", "i32", "g")
    acc = _tile("acc", "mn", level=Level.ACCUMULATOR)
    step = (
        Load(a_tile := _tile("a_tile", "mk", "bf16", Level.STAGED), a),
        Load(b_tile := _tile("b_tile", "nk", "bf16", Level.STAGED), b),
        Mma(acc, a_tile, b_tile),
    )
    body: tuple[Statement, ...] = (
        Fill(acc, 0.0),
        Loop(LoopKind.REDUCTION, "k_tile", "k", step, (acc,)),
        Cast(c_tile := _tile("c_tile", "mn", "bf16"), acc),
        Store(c, c_tile),
    )
    columns = Loop(LoopKind.PARALLEL, "n_tile", "n", body)
    rows = Loop(LoopKind.PARALLEL, "m_tile", "m", (columns,), segments=starts)
    groups = Loop(LoopKind.PARALLEL, "group", "g", (rows,), unit=True)
    return Program("grouped_gemm", (a, b, starts, c), (groups,))


GROUPED_GEMM = """\
grouped_gemm(a[m, k]: bf16, b[g, n, k]: bf16, starts[g]: i32) -> c[m, n]: bf16
parallel group in range(g):
    parallel m_tile in tiles(m, starts):
        parallel n_tile in tiles(n):
            acc = fill(0)
            reduction k_tile in tiles(k) carrying acc:
                a_tile = load(a)
                b_tile = load(b)
                acc = mma(acc, a_tile, b_tile)
            c_tile = cast(acc, bf16)
            store(c, c_tile)
"""


@pytest.mark.parametrize(
    ("program", "text"),
    [
        (attention(), ATTENTION),
        (rms_norm(), RMS_NORM),
        (sum_of_squares(), SUM_OF_SQUARES),
        (grouped_gemm(), GROUPED_GEMM),
    ],
    ids=lambda value: value.name if isinstance(value, Program) else "",
)
def test_operators_are_well_formed_and_print(program: Program, text: str) -> None:
    assert validate(program) == ()
    assert program_text(program) == text


def test_operations_name_what_they_make() -> None:
    assert operations(grouped_gemm()) == (
        ("fill", "acc"),
        ("load", "a_tile"),
        ("load", "b_tile"),
        ("mma", "acc"),
        ("cast", "c_tile"),
        ("store", "c"),
    )
