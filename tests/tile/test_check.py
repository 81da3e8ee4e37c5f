"""Every rule of tile programs, each broken once in an otherwise sound program."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgen.tile import (
    Broadcast,
    Cast,
    Fill,
    Load,
    Loop,
    LoopKind,
    Map,
    Mma,
    Plain,
    Position,
    Program,
    Reduce,
    Select,
    Size,
    Statement,
    Store,
    Tensor,
    Tile,
    Transpose,
    program_text,
    scalar,
    validate,
)

A, B, C = Tensor("a", "bf16", "mk"), Tensor("b", "bf16", "nk"), Tensor("c", "f32", "mn")
ALPHA = Tensor("alpha", "f32", "")
A_TILE, B_TILE = Tile("a_tile", "bf16", "mk"), Tile("b_tile", "bf16", "nk")
ACC, VALUE, ROW = Tile("acc", "f32", "mn"), Tile("value", "f32", "mn"), Tile("row", "f32", "m")
STEP: tuple[Statement, ...] = (Load(A_TILE, A), Load(B_TILE, B), Mma(ACC, A_TILE, B_TILE))
LOOP = Loop(LoopKind.REDUCTION, "k_tile", "k", STEP, (ACC,))
SCALED = Map.of(VALUE, "acc * alpha", ACC, scalar(ALPHA))


def _program(*epilogue: Statement, loop: Loop = LOOP) -> Program:
    body: tuple[Statement, ...] = (Fill(ACC, 0.0), loop, SCALED, *epilogue, Store(C, VALUE))
    for dim in "nm":
        body = (Loop(LoopKind.PARALLEL, f"{dim}_tile", dim, body),)
    return Program("gemm", (A, B, ALPHA, C), body)


def _messages(program: Program) -> list[str]:
    return [error.message for error in validate(program)]


def test_the_sound_program_has_no_errors() -> None:
    assert validate(_program()) == ()


I32 = Tile("place", "i32", "mn")
NARROW = Tile("narrow", "bf16", "mn")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (Load(Tile("t", "f32", "mk"), A), "t is f32 and a is bf16"),
        (Load(Tile("t", "bf16", "km"), A), "t has axes 'km'; a gives 'mk'"),
        (Load(Tile("t", "f32", ""), ALPHA), "scalar alpha is read by its name, not loaded"),
        (Load(Tile("t", "f32", "mn"), Tensor("d", "f32", "mn")), "d is not a tensor of the program"),
        (Fill(ROW, float("nan")), "the value is not a number"),
        (Fill(Tile("c", "f32", "mn"), 0.0), "tile c has the name of a tensor"),
        (Fill(Tile("acc", "f32", "m"), 0.0), "acc is acc[m, n]: f32 already"),
        (Position(ROW, "m"), "row[m]: f32 must be i32 and have the axis m"),
        (Position(I32, "k"), "place[m, n]: i32 must be i32 and have the axis k"),
        (Size(ROW, "m"), "row[m]: f32 must be an i32 scalar"),
        (Map.of(ROW, "acc + 1", ACC), "acc has axes 'mn'; broadcast it to 'm'"),
        (Map.of(NARROW, "acc + 1", ACC), "the expression is f32 and narrow is bf16"),
        (replace(SCALED, inputs=(ACC,)), "1 tiles for variables acc, alpha"),
        (Map.of(ROW, "missing * 2", Tile("missing", "f32", "m")), "missing[m]: f32 is read but not made before"),
        (Reduce(ROW, ACC, "n", "mean"), "no reduction 'mean': sum, max or min"),
        (Reduce(ROW, ACC, "m", "sum"), "acc[m, n]: f32 over m does not give row[m]: f32"),
        (Reduce(Tile("row", "bf16", "m"), ACC, "n", "sum"), "row is bf16 and acc is f32"),
        (Broadcast(Tile("t", "f32", "mn"), ACC), "acc[m, n]: f32 does not spread to t[m, n]: f32"),
        (Cast(Tile("t", "bf16", "m"), ACC), "t has axes 'm' and acc 'mn'"),
        (Select.of(VALUE, "acc > 0", (ACC,), ACC, NARROW), "value is f32 and narrow is bf16"),
        (replace(Select.of(VALUE, "acc > 0", (ACC,), ACC, 0.0), condition=SCALED.value, inputs=SCALED.inputs),
         "the condition is f32, not bool"),
        (Transpose(Tile("t", "f32", "mn"), ACC), "acc[m, n]: f32 transposed is not t[m, n]: f32"),
        (Store(C, NARROW), "c is f32 and narrow is bf16"),
        (Store(Tensor("c", "f32", "mn"), ROW), "row has axes 'm'; c takes ['m', 'n']"),
        (Mma(Tile("h", "bf16", "mn"), A_TILE, B_TILE), "h is bf16; products are summed in f32 or i32"),
        (Mma(ACC, A_TILE, Tile("w", "bf16", "kx")), "axes 'mk' and 'kx' do not multiply to 'mn'"),
    ],
)  # fmt: skip
def test_statements(statement: Plain, message: str) -> None:
    assert message in _messages(_program(statement))


@pytest.mark.parametrize(
    ("loop", "message"),
    [
        (replace(LOOP, carried=()), "the sum over k is cut: loop k_tile does not carry acc"),
        (replace(LOOP, carried=()), "acc is made outside the loop k_tile and not carried by it"),
        (replace(LOOP, kind=LoopKind.PARALLEL), "a parallel loop carries nothing, not acc"),
        (replace(LOOP, dim="m"), "an enclosing loop already runs over m"),
        (replace(LOOP, carried=(ACC, ROW)), "carried tile row is not made before the loop"),
        (replace(LOOP, carried=(ACC, ROW)), "carried tile row is not updated in the loop"),
        (replace(LOOP, body=(*STEP, Map.of(ACC, "acc - 1", ACC))),
         "a reduction loop may only accumulate into acc, not acc = acc - 1"),
        (replace(LOOP, body=(*STEP, Map.of(ACC, "acc + acc", ACC))),
         "a reduction loop may only accumulate into acc, not acc = acc + acc"),
        (replace(LOOP, body=(*STEP, Cast(NARROW, ACC))),
         "a reduction loop may only accumulate into acc, not narrow = cast(acc, bf16)"),
        (replace(LOOP, body=(*STEP, Store(C, ACC))), "iterations of k_tile store to the same elements of c"),
        (replace(LOOP, segments=Tensor("s", "i32", "g")), "s is not a tensor of the program"),
        (replace(LOOP, segments=A), "segments a must be i32 over the dim of an enclosing unit loop"),
    ],
)  # fmt: skip
def test_loops(loop: Loop, message: str) -> None:
    assert message in _messages(_program(loop=loop))


def test_tiles_of_a_loop_end_with_it() -> None:
    assert _messages(_program(Mma(ACC, A_TILE, B_TILE))) == [
        "a_tile[m, k]: bf16 is read but not made before",
        "b_tile[n, k]: bf16 is read but not made before",
    ]


def test_tensors() -> None:
    sound = _program()
    unused = replace(sound, tensors=(*sound.tensors, Tensor("d", "f32", "n")))
    assert _messages(unused) == ["tensor d is neither read nor written"]
    assert "two tensors are called alpha" in _messages(replace(sound, tensors=(*sound.tensors, ALPHA)))
    square = Tensor("a", "bf16", "mm")
    assert "tensor a: layout mm repeats a dim" in _messages(replace(sound, tensors=(square, B, ALPHA, C)))


def test_errors_name_their_statement() -> None:
    (error,) = validate(_program(Reduce(ROW, ACC, "n", "mean")))
    assert (error.statement, error.message) == ("row = mean(acc, n)", "no reduction 'mean': sum, max or min")


def test_accumulation_by_extremes_and_sums() -> None:
    for text in ("max(acc, more)", "more + acc", "min(more, acc)"):
        more = Tile("more", "f32", "mn")
        step = (*STEP[:2], Fill(more, 1.0), Map.of(ACC, text, ACC, more))
        assert validate(_program(loop=replace(LOOP, body=step))) == ()


@pytest.mark.parametrize("text", ["acc +", "acc + missing", "acc > 0"])
def test_ill_typed_text_is_refused_at_once(text: str) -> None:
    with pytest.raises(ValueError, match="acc"):
        Map.of(VALUE, text, ACC)


def test_transpose_select_and_names_print() -> None:
    turned = Tile("turned", "f32", "nm")
    epilogue = (Transpose(turned, ACC), Select.of(VALUE, "acc>0", (ACC,), ACC, VALUE))
    program = _program(*epilogue)
    assert validate(program) == ()
    assert "turned = transpose(acc)\n" in program_text(program)
    assert "value = select(acc>0, acc, value)\n" in program_text(program)
