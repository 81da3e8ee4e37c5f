"""What CUDA templates see: a plan as plain, typed data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kgen.plan.base import Plan, Step
from kgen.plan.cabi import Abi


@dataclass(frozen=True)
class Constant:
    """A compile-time constant of Config."""

    name: str
    value: int
    comment: str = ""

    @property
    def remark(self) -> str:
        """The comment as it stands behind the constant, or nothing."""
        return f"  // {self.comment}" if self.comment else ""


@dataclass(frozen=True)
class IndexMap:
    """A static function of Config, printed from a coordinate transform."""

    result: str
    name: str
    parameters: str
    text: str
    comment: str


@dataclass(frozen=True)
class GridField:
    """A grid extent that the launcher computes and the kernel reads."""

    field: str
    value: str


@dataclass(frozen=True)
class Conversion:
    """How `x` of a C type becomes a float, or a float `x` is rounded to it."""

    c_type: str
    text: str


@dataclass(frozen=True)
class Instruction:
    """The warp-level matrix instruction."""

    shape: str
    operand: str
    """Operand type as PTX spells it."""


@dataclass(frozen=True)
class Device:
    """The compute capability the code is for."""

    major: int
    minor: int


@dataclass(frozen=True)
class Operand:
    """One operand of the product: how its chunks are copied and its fragments loaded."""

    name: str
    c_type: str
    bytes: int
    """Size of an element."""
    chunk: int
    """Elements moved by one copy."""
    chunk_bytes: int
    transposed: str
    """`.trans` where k is not the fastest dim in shared memory, else empty."""
    rounds_to_tf32: bool
    copy_macro: str
    """The tile operator that moves one chunk."""
    fragment_macro: str
    """The tile operator that fills one fragment."""


@dataclass(frozen=True)
class FillStep(Step):
    """acc = fill(value)."""

    value: str


@dataclass(frozen=True)
class CopyStep(Step):
    """A tile of an operand of the product is copied to shared memory."""

    operand: str
    row: str
    """The operand's dim that is not k."""
    partial: bool
    """The last round of copies has fewer chunks than threads."""


@dataclass(frozen=True)
class VectorStep(Step):
    """A step of the epilogue on `vector` consecutive columns of one row."""

    tensor: str
    source: str
    vector: int
    packet: int
    """Elements of one global access."""
    expression: str
    c_type: str


@dataclass(frozen=True)
class CudaPlan(Plan):
    """A CUDA kernel with every decision made."""

    abi: Abi
    device: Device
    includes: tuple[str, ...]
    function: str
    mma: Instruction
    operands: tuple[Operand, ...]
    widenings: tuple[Conversion, ...]
    narrowings: tuple[Conversion, ...]
    constants: tuple[Constant, ...]
    maps: tuple[IndexMap, ...]
    grid: tuple[GridField, ...]
    blocks: str
    grid_limit: int
    vector: int
    odd_k_steps: bool
    copies: tuple[Step, ...]
    products: tuple[Step, ...]
    threads: int
    shared_bytes: int
    align: Mapping[str, int]
    """Promised alignment of each tensor and its strides, in bytes."""

    def constant(self, name: str) -> int:
        """A constant of Config; 0 where it has none of this name."""
        return next((constant.value for constant in self.constants if constant.name == name), 0)

    @property
    def loop(self) -> tuple[Step, ...]:
        """Copies, then products."""
        return (*self.copies, *self.products)
