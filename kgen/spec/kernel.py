"""What a validated spec means: signatures and kernels, free of YAML and pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kgen.expr import Typed
from kgen.spec.problem import Path


@dataclass(frozen=True)
class Operand:
    """A tensor or, with an empty layout, a scalar. `layout` is the index order, slowest first."""

    name: str
    dtype: str
    layout: str

    @property
    def batched(self) -> bool:
        """Whether the operand has a batch index of its own."""
        return "b" in self.layout


@dataclass(frozen=True)
class Output(Operand):
    """An output and the expression that makes it from `acc` and the extra inputs."""

    value: Typed


@dataclass(frozen=True)
class Signature:
    """What is computed: one per spec document after overrides of a target have been applied."""

    kernel: str
    op: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Output, ...]
    multiple_of: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Declared contract of each dim: sizes are multiples of this (absent: any size >= 0)."""
    acc: str = "f32"
    f32_mma: str | None = None
    """`exact`, `tf32` or `bf16x3`; None where no operand of the product is f32."""

    def operand(self, name: str) -> Operand:
        """The input or output called `name`."""
        return next(o for o in (*self.inputs, *self.outputs) if o.name == name)

    @property
    def extras(self) -> tuple[Operand, ...]:
        """Inputs that only the epilogue reads."""
        return tuple(o for o in self.inputs if o.name not in ("a", "b"))

    @property
    def batched(self) -> bool:
        """Whether any operand is indexed by the batch dim `b`."""
        return any(o.batched for o in (*self.inputs, *self.outputs))


Value = int | str | bool | tuple[tuple[str, "Value"], ...]
"""An algorithm field: a scalar or sorted (name, value) pairs, hashable."""


@dataclass(frozen=True)
class Kernel:
    """signature x (target, arch) x algorithm: the unit of planning, rendering and verification.

    `algorithm` holds only the fields the spec (or the lock) gives; the plan fills in the rest.
    """

    name: str
    """File and symbol name, e.g. `gemm_bias_gelu_sm_80`."""
    signature: Signature
    target: str
    arch: str
    algorithm: Mapping[str, Value]
    spec: str
    """Project-relative path of the spec, with forward slashes."""
    path: Path
    """Place of the target entry in the document, e.g. `("targets", 0)`."""
    verify: tuple[Mapping[str, int], ...] = ()
    """Shapes the spec asks to verify, each dim -> size."""
    header: tuple[str, ...] = ()
    """Licence lines the spec or project puts at the top of generated files."""
    swept: tuple[tuple[str, str, int], ...] = ()
    """What a sweep chose: (key of the sweep, algorithm field, index of the value), for locating problems."""
