"""The operators, one file each: tile program, NumPy reference, operation and byte counts."""

from collections.abc import Mapping
from types import MappingProxyType

from kgen.ops import gemm
from kgen.ops.base import Op, Operand, Output, Reference, Signature, minimal_bytes

OPS: Mapping[str, Op] = MappingProxyType({op.name: op for op in (gemm.OP,)})
"""Every op by the name a spec gives it."""

__all__ = ["OPS", "Op", "Operand", "Output", "Reference", "Signature", "minimal_bytes"]
