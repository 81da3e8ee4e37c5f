"""What Pallas templates see: a plan as plain, typed data, with the texts they print already worded."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.plan.base import Plan, Step


@dataclass(frozen=True)
class Constant:
    """A constant of Config; `comment` is empty or begins with two blanks and a number sign."""

    name: str
    value: str
    comment: str = ""


@dataclass(frozen=True)
class NamedText:
    """A local name and the Python text of its value."""

    name: str
    value: str


@dataclass(frozen=True)
class Multiple:
    """A declared contract: the size of `dim` is a multiple of `value`."""

    dim: str
    value: int


@dataclass(frozen=True)
class OperandView:
    """An input or output as the wrapper and the grid see it. All fields but `name` are Python text."""

    name: str
    dtype: str
    dims: str
    """Tuple of dim names, e.g. `("m", "k")`."""
    doc: str
    block_spec: str
    shape: tuple[str, ...]
    """Sizes of an output, by local names of layer 3."""
    empty_shape: tuple[str, ...]
    """The same by layer 4's table of sizes."""
    argument: str
    """An input as the kernel takes it: scalars and vectors are reshaped to have a block."""
    as_array: str


@dataclass(frozen=True)
class FillStep(Step):
    """fill(name, value)."""

    value: str


@dataclass(frozen=True)
class LoadStep(Step):
    """name = load(ref); `k_axis` names the Config constant of an operand of the product, else it is empty."""

    ref: str
    k_axis: str = ""


@dataclass(frozen=True)
class MmaStep(Step):
    """mma(name, a, b)."""

    a: str
    b: str


@dataclass(frozen=True)
class MapStep(Step):
    """name = expression, broken over lines where it is long."""

    assignment: str


@dataclass(frozen=True)
class BroadcastStep(Step):
    """name = broadcast(source, shape)."""

    source: str
    shape: str


@dataclass(frozen=True)
class CastStep(Step):
    """name = cast(source, dtype)."""

    source: str
    dtype: str


@dataclass(frozen=True)
class StoreStep(Step):
    """store(ref, source)."""

    ref: str
    source: str


@dataclass(frozen=True)
class PallasPlan(Plan):
    """A Pallas TPU kernel with every decision made."""

    summary: str
    description: tuple[str, ...]
    imports: tuple[str, ...]
    kernel_signature: str
    k_axis: int
    """Position of the steps along k in the grid."""
    has_tail: bool
    """k may end inside a block."""
    steady: tuple[Step, ...]
    constants: tuple[Constant, ...]
    entry_signature: str
    sizes: tuple[NamedText, ...]
    bound_kernel: str
    grid: tuple[str, ...]
    inputs: tuple[OperandView, ...]
    outputs: tuple[OperandView, ...]
    has_scalars: bool
    client_signature: str
    has_multiples: bool
    multiples: tuple[Multiple, ...]
    is_empty: str
    zero_k: tuple[NamedText, ...]
    call: str
    result: str
    vmem_bytes: int
    """Analytic bound of the VMEM that the kernel needs."""

    @property
    def loop(self) -> tuple[Step, ...]:
        """Loads and the product of one block of k."""
        return self.steady
