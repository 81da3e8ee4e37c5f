"""gemm: acc[m,n] = sum_k a[m,k] * b[k,n], batched where an operand has the dim `b`, then one expression an output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from kgen.ops.base import Op, Operand, Output, Reference, Signature
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
    Program,
    Statement,
    Store,
    Tensor,
    Tile,
    scalar,
)

if TYPE_CHECKING:
    from kgen.ops.base import Array

_AXES = "mn"


def _tensor(operand: Operand) -> Tensor:
    return Tensor(operand.name, operand.dtype, operand.layout)


def _loaded(operand: Operand, level: Level) -> Load:
    """The load of an operand's tile. The batch dim is taken one index at a time, so that tiles lack it."""
    axes = operand.layout.replace("b", "")
    return Load(Tile(f"{operand.name}_tile", operand.dtype, axes, level), _tensor(operand))


def program(signature: Signature) -> Program:
    """The tile program: tiles of the result in parallel, a loop along k that accumulates, then the epilogue."""
    by_name = {operand.name: operand for operand in signature.inputs}
    a, b = _loaded(by_name["a"], Level.STAGED), _loaded(by_name["b"], Level.STAGED)
    acc = Tile("acc", signature.acc, _AXES, Level.ACCUMULATOR)
    product = Loop(LoopKind.REDUCTION, "k_tile", "k", (a, b, Mma(acc, a.dst, b.dst)), carried=(acc,))
    body: tuple[Statement, ...] = (Fill(acc, 0.0), product, *_epilogue(signature, acc))
    for dim in reversed(_AXES):
        body = (Loop(LoopKind.PARALLEL, f"{dim}_tile", dim, body),)
    operands = (*signature.inputs, *signature.outputs)
    if any("b" in operand.layout for operand in operands):
        body = (Loop(LoopKind.PARALLEL, "batch", "b", body, unit=True),)
    return Program("gemm", tuple(_tensor(operand) for operand in operands), body)


def _epilogue(signature: Signature, acc: Tile) -> Iterator[Statement]:
    """Extra inputs loaded and spread over the tile, then every output computed, rounded and stored."""
    values = {"acc": acc}
    for operand in signature.inputs:
        if operand.name not in ("a", "b"):
            yield from _extra(operand, values)
    for output in signature.outputs:
        yield from _output(output, values)


def _extra(operand: Operand, values: dict[str, Tile]) -> Iterator[Statement]:
    """Statements that make an extra input's tile, which is added to `values` under the input's name."""
    if not operand.layout:
        values[operand.name] = scalar(_tensor(operand))
        return
    load = _loaded(operand, Level.LOCAL)
    values[operand.name] = load.dst
    yield load
    if load.dst.axes != _AXES:
        values[operand.name] = Tile(f"{operand.name}_{_AXES}", operand.dtype, _AXES)
        yield Broadcast(values[operand.name], load.dst)


def _output(output: Output, values: Mapping[str, Tile]) -> Iterator[Statement]:
    value = Tile(f"{output.name}_value", output.value.dtype, _AXES)
    tile = Tile(f"{output.name}_tile", output.dtype, _AXES)
    yield Map(value, output.value, tuple(values[name] for name in output.value.names))
    yield Cast(tile, value)
    yield Store(_tensor(output), tile)


def reference(signature: Signature, arrays: Mapping[str, Array]) -> Reference:
    """acc and the sum of |a| |b|, in float64, of shape (m, n), or (b, m, n) where a or b is batched."""
    import numpy as np

    layouts = {operand.name: operand.layout for operand in signature.inputs}
    a, b = arrays["a"], arrays["b"]
    rows = a.swapaxes(-1, -2) if layouts["a"].endswith("km") else a
    columns = b.swapaxes(-1, -2) if layouts["b"].endswith("nk") else b
    return Reference(np.matmul(rows, columns), np.matmul(np.abs(rows), np.abs(columns)))


def flops(sizes: Mapping[str, int]) -> int:
    """Multiplications and additions of the product."""
    return 2 * sizes["m"] * sizes["n"] * sizes["k"] * sizes.get("b", 1)


OP = Op(
    name="gemm",
    summary="acc[m,n] = sum_k a[m,k] * b[k,n]",
    dims=MappingProxyType({"m": "rows of the result", "n": "columns of the result", "k": "summed", "b": "batch"}),
    batch="b",
    result="acc",
    result_axes=_AXES,
    operands=MappingProxyType({"a": ("mk", "km"), "b": ("nk", "kn")}),
    extras=("", "m", "n", "mn"),
    outputs=("mn",),
    program=program,
    reference=reference,
    flops=flops,
)
