"""Operands of a Pallas kernel: their blocks, index maps, shapes and checks, as Python text."""

from __future__ import annotations

from kgen.plan.pallas_algorithm import Block
from kgen.plan.pallas_steps import EXTENTS, JNP
from kgen.plan.pallas_text import fit
from kgen.plan.pallas_views import OperandView
from kgen.spec.kernel import Operand, Output, Signature

DIM_NAMES = {"b": "batch", "m": "m", "n": "n", "k": "k"}
"""Dim letter -> its name in the generated file."""


def block_of(operand: Operand) -> Block:
    """The block of a tensor in VMEM: two dims, the last one over lanes. A vector is a row: a column would take a tile
    of 8 x 128 for every 8 elements, in HBM too."""
    dims = operand.layout.replace("b", "").rjust(2, "1")
    return Block(dims[0], dims[1], operand.dtype)


def view(operand: Operand, signature: Signature) -> OperandView:
    """What the templates print of `operand`."""
    dims = [DIM_NAMES[dim] for dim in operand.layout]
    return OperandView(
        name=operand.name,
        dtype=JNP[operand.dtype],
        dims=_tuple([f'"{dim}"' for dim in dims]),
        doc=_doc(operand, dims, signature),
        block_spec=_block_spec(operand, signature),
        shape=tuple(dims),
        empty_shape=tuple(f'sizes["{dim}"]' for dim in dims),
        argument=_argument(operand),
        as_array=f"jnp.asarray({operand.name})" if dims else f"_scalar({operand.name}, {JNP[operand.dtype]})",
    )


def _tuple(items: list[str]) -> str:
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def _doc(operand: Operand, dims: list[str], signature: Signature) -> str:
    what = f"{operand.dtype}[{', '.join(dims)}]"
    if isinstance(operand, Output):
        return what
    return what if dims else f"{what}, or a Python number"


def _block_spec(operand: Operand, signature: Signature) -> str:
    if not operand.layout:
        return "pl.BlockSpec(memory_space=pltpu.SMEM)"
    block = block_of(operand)
    shape = [EXTENTS.get(name, "1") for name in (block.rows, block.columns)]
    index = [name if name in EXTENTS else "0" for name in (block.rows, block.columns)]
    if operand.batched:  # None: the kernel's block has no batch dim
        shape, index = ["None", *shape], ["batch", *index]
    grid = ", ".join(grid_dims(signature))
    return fit("pl.BlockSpec", [f"({', '.join(shape)})", f"lambda {grid}: ({', '.join(index)})"], "", 12)


def grid_dims(signature: Signature) -> list[str]:
    """Names of the grid's axes: the batch first, k last so that the visits to an output block follow each other."""
    return ["batch", "m", "n", "k"] if signature.batched else ["m", "n", "k"]


def _argument(operand: Operand) -> str:
    """An input as the kernel takes it: a scalar as f32 in SMEM, anything else in HBM, a vector as a matrix."""
    if not operand.layout:
        return f"{operand.name}.astype(jnp.float32).reshape(1)"
    block = block_of(operand)
    if "1" not in (block.rows, block.columns):
        return f"in_hbm({operand.name}, interpret)"
    batch = ["batch"] if operand.batched else []
    return f"in_hbm({operand.name}.reshape({', '.join([*batch, block.rows, block.columns])}), interpret)"
