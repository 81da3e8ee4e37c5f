"""The format of a spec: pydantic models, one per mapping of the document. The JSON Schema is made from these.

What a single value may be stands here; rules that compare values stand in `rules`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, StringConstraints, Tag
from pydantic_core import CoreSchema, core_schema

from kgen.arch import CUDA_ARCHS, TARGETS, TPU_ARCHS
from kgen.ops import OPS
from kgen.spec.vocabulary import F32_MMA, OP_DTYPES, target_of

NAME = r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$"
"""Lower case, so that no two names meet on a file system that folds case; no `__`, which C++ reserves."""
Name = Annotated[str, StringConstraints(pattern=NAME)]


class OneOf:
    """Restricts a field to the rows of a table."""

    def __init__(self, allowed: Iterable[str | int]) -> None:
        self.allowed = list(allowed)

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> CoreSchema:
        return core_schema.literal_schema(self.allowed)


Dtype = Annotated[str, OneOf(dict.fromkeys(dtype for op in OP_DTYPES.values() for dtype in op.every))]
Acc = Annotated[str, OneOf(dict.fromkeys(acc for op in OP_DTYPES.values() for accs in op.acc.values() for acc in accs))]
Mma = Annotated[str, OneOf(F32_MMA)]
Size = Annotated[int, Field(ge=0, le=1 << 20)]
Count = Annotated[int, Field(ge=1, le=1 << 16)]
Bytes = Annotated[int, OneOf((2, 4, 8, 16))]
Line = Annotated[str, StringConstraints(pattern=r"^[ -~]*$", max_length=110)]


class Model(BaseModel):
    """Closed: an unknown field is an error. Strict: a string is no number and a number no boolean."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)
    what: ClassVar[str] = "the mapping"
    """What messages call it."""


class Input(Model):
    """An input: a tensor, or a scalar where there is no layout."""

    what: ClassVar[str] = "an input"
    dtype: Dtype = Field(description="Number format of the elements.")
    layout: str = Field("", min_length=1, description="Index order, slowest first; left out for a scalar.")


class Output(Model):
    """An output of the op."""

    what: ClassVar[str] = "an output"
    dtype: Dtype = Field(description="Number format the value is cast to.")
    layout: str = Field(min_length=1, description="Index order, slowest first.")
    value: str = Field("acc", description="Expression over acc and the inputs of the epilogue, in f32.")


class Dim(Model):
    """The declared contract of one dim."""

    what: ClassVar[str] = "a dim"
    multiple_of: Count = Field(description="Every size is a multiple of this; the launcher refuses others.")


class InputOverride(Model):
    """What a target changes of an input."""

    what: ClassVar[str] = "an input override"
    dtype: Dtype | None = None
    layout: Annotated[str, Field(min_length=1)] | None = None


class OutputOverride(Model):
    """What a target changes of an output."""

    what: ClassVar[str] = "an output override"
    dtype: Dtype | None = None
    layout: Annotated[str, Field(min_length=1)] | None = None
    value: str | None = None


class Tile(Model):
    """Extents of the block's tile."""

    what: ClassVar[str] = "a tile"
    m: Count | None = None
    n: Count | None = None
    k: Count | None = None


class Warps(Model):
    """How the warps of a block divide its tile."""

    what: ClassVar[str] = "warps"
    m: Count | None = None
    n: Count | None = None


class RasterOrder(Model):
    """Blocks in row-major order."""

    what: ClassVar[str] = "block order raster"
    kind: Literal["raster"]


class GroupedOrder(Model):
    """Blocks in groups of rows, column by column within a group, for reuse in the L2 cache."""

    what: ClassVar[str] = "a block order"
    kind: Annotated[str, OneOf(("raster", "grouped"))] | None = Field(None, json_schema_extra={"enum": ["grouped"]})
    group: Count | None = Field(None, description="Rows of blocks in a group.")


TAGS = frozenset({"<raster>", "<grouped>", "<all>", "<each>", *(f"<{target}>" for target in TARGETS)})
"""Members of unions, as locations of errors name them."""


def _order_tag(value: Any) -> str:
    raster = isinstance(value, dict) and value.get("kind") == "raster"
    return "<raster>" if raster else "<grouped>"


def _align_tag(value: Any) -> str:
    return "<each>" if isinstance(value, dict) else "<all>"


BlockOrder = Annotated[
    Annotated[RasterOrder, Tag("<raster>")] | Annotated[GroupedOrder, Tag("<grouped>")],
    Discriminator(_order_tag),
]
Align = Annotated[
    Annotated[Bytes, Tag("<all>")] | Annotated[dict[str, Bytes], Tag("<each>")],
    Discriminator(_align_tag),
]


class CudaAlgorithm(Model):
    """How a CUDA kernel computes. What is left out is chosen once and written to the lock."""

    what: ClassVar[str] = "a cuda target"
    tile: Tile | None = None
    warps: Warps | None = None
    instruction: Annotated[str, OneOf(dict.fromkeys(i.name for a in CUDA_ARCHS.values() for i in a.mma))] | None = None
    schedule: Literal["multistage"] | None = None
    stages: Count | None = Field(None, description="K tiles in flight in shared memory.")
    block_order: BlockOrder | None = None
    shared_bytes: Annotated[int, Field(ge=16, le=1 << 20, multiple_of=16)] | None = Field(
        None, description="Least dynamic shared memory a block asks for, in bytes, to limit blocks on an SM."
    )
    align: Align | None = Field(
        None, description="Bytes that pointers and strides are multiples of: one number, or one for each operand."
    )


class PallasAlgorithm(Model):
    """How a Pallas TPU kernel computes. What is left out is chosen once and written to the lock."""

    what: ClassVar[str] = "a pallas target"
    tile: Tile | None = None
    schedule: Literal["pipelined"] | None = None
    vmem_limit_mib: Count | None = Field(None, description="VMEM the kernel asks for, in MiB.")


class Target(Model):
    """What every entry of `targets` has."""

    target: str | None = Field(None, description="Needed only where an arch belongs to several targets.")
    arch: str
    inputs: dict[str, InputOverride] = Field({}, description="What this target changes of the inputs.")
    outputs: dict[str, OutputOverride] = Field({}, description="What this target changes of the outputs.")
    acc: Acc | None = None
    f32_mma: Mma | None = None
    as_: Name | None = Field(None, alias="as", description="Name of the file and symbol, instead of <kernel>_<arch>.")


class CudaTarget(CudaAlgorithm, Target):
    """A kernel for an NVIDIA GPU."""

    target: Literal["cuda"] | None = None
    arch: Annotated[str, OneOf(CUDA_ARCHS)]


class PallasTarget(PallasAlgorithm, Target):
    """A kernel for a TPU."""

    target: Literal["pallas"] | None = None
    arch: Annotated[str, OneOf(TPU_ARCHS)]


ALGORITHMS: dict[str, type[Model]] = {"cuda": CudaAlgorithm, "pallas": PallasAlgorithm}
"""target -> the fields that say how. `sweep` and the lock name these only."""
ENTRIES: dict[str, type[Target]] = {"cuda": CudaTarget, "pallas": PallasTarget}
"""target -> an entry of `targets`."""


def _target_tag(value: Any) -> str | None:
    target = target_of(value)
    return f"<{target}>" if target else None


Entry = Annotated[
    Annotated[CudaTarget, Tag("<cuda>")] | Annotated[PallasTarget, Tag("<pallas>")],
    Discriminator(_target_tag),
]


class Spec(Model):
    """One kernel, for one or more targets."""

    what: ClassVar[str] = "the spec"
    kgen: Literal[1] = Field(description="Version of the format.")
    kernel: Name = Field(description="Name of the kernel; files and symbols start with it.")
    op: Annotated[str, OneOf(OPS)] = Field(description="What is computed before the epilogue.")
    inputs: dict[Name, Input] = Field(min_length=1)
    outputs: dict[Name, Output] = Field(min_length=1)
    dims: dict[str, Dim] = Field({}, description="Dim -> its contract; any size from 0 where left out.")
    acc: Acc = Field("f32", description="Number format of the accumulator.")
    f32_mma: Mma | None = Field(None, description="How a product of f32 operands is computed; never implied.")
    targets: list[Entry] = Field(min_length=1)
    verify: list[dict[str, Size]] = Field([], description="Shapes to verify, each a size for every dim.")
    sweep: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(
        {}, description="targets.<index>.<field> -> values; one kernel for each combination."
    )
    header: list[Line] = Field([], description="Licence lines at the top of generated files.")
