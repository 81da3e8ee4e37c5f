"""What an op is to the rest of kgen. Specs build on ops, so a signature is typed here by what ops read of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Protocol

from kgen.expr import DTYPES, Typed
from kgen.tile import Program

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


class Operand(Protocol):
    """A tensor or, with an empty layout, a scalar."""

    @property
    def name(self) -> str:
        """The name in the spec."""
        ...

    @property
    def dtype(self) -> str:
        """A key of `DTYPES`."""
        ...

    @property
    def layout(self) -> str:
        """Index order, slowest first."""
        ...


class Output(Operand, Protocol):
    """An output and the expression that makes it."""

    @property
    def value(self) -> Typed:
        """Over the op's result and the extra inputs."""
        ...


class Signature(Protocol):
    """What is computed. `kgen.spec.kernel.Signature` is one."""

    @property
    def inputs(self) -> Sequence[Operand]:
        """In the order of the spec."""
        ...

    @property
    def outputs(self) -> Sequence[Output]:
        """In the order of the spec."""
        ...

    @property
    def acc(self) -> str:
        """The dtype sums are kept in."""
        ...


@dataclass(frozen=True)
class Reference:
    """The op's result before the epilogue, in float64, and the sum of the magnitudes of what was summed."""

    result: Array
    magnitude: Array


@dataclass(frozen=True)
class Op:
    """One operator. Sizes map each dim letter to its size; a dim that a signature lacks counts as 1."""

    name: str
    summary: str
    """The formula, as the spec's reference page shows it."""
    dims: Mapping[str, str]
    """Dim letter -> what it counts, in the order the op's documents list them."""
    batch: str
    """The dim that is optional in every operand."""
    result: str
    """The name under which output expressions see the op's result."""
    result_axes: str
    operands: Mapping[str, tuple[str, ...]]
    """Required input -> its allowed layouts without the batch dim."""
    extras: tuple[str, ...]
    """Allowed layouts of further inputs, without the batch dim; "" is a scalar."""
    outputs: tuple[str, ...]
    """Allowed layouts of outputs, without the batch dim."""
    program: Callable[[Signature], Program]
    reference: Callable[[Signature, Mapping[str, Array]], Reference]
    """Inputs by name, in their layouts, as float64 of values already rounded to their dtypes."""
    flops: Callable[[Mapping[str, int]], int]

    def layouts(self, name: str) -> tuple[str, ...]:
        """All layouts an input may have, batched ones last."""
        plain = self.operands.get(name, self.extras)
        return (*plain, *(self.batch + layout for layout in plain if layout))

    @property
    def output_layouts(self) -> tuple[str, ...]:
        """All layouts an output may have, the batched one last."""
        return (*self.outputs, *(self.batch + layout for layout in self.outputs))


def minimal_bytes(signature: Signature, sizes: Mapping[str, int]) -> int:
    """Bytes that must cross the memory bus at least: every operand once."""
    return sum(
        DTYPES[operand.dtype].bytes * prod(sizes.get(dim, 1) for dim in operand.layout)
        for operand in (*signature.inputs, *signature.outputs)
    )
