"""The number formats kgen knows, under the names of ml_dtypes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class DType:
    """A number format. `precision` counts significant bits, the hidden one included (0 for integers)."""

    name: str
    bits: int
    kind: str
    """`float` or `int`."""
    precision: int = 0
    largest: float = 0.0
    """Largest finite magnitude (of an integer type: the largest value; its smallest is `-largest - 1`)."""
    smallest_normal: float = 0.0
    """Smallest positive number with full precision."""

    @property
    def bytes(self) -> int:
        """Size of one element in bytes."""
        return self.bits // 8

    @property
    def unit_roundoff(self) -> float:
        """u: the largest relative error of rounding to nearest (Higham, Accuracy and Stability, 2.2)."""
        return 2.0**-self.precision if self.kind == "float" else 0.5

    @property
    def smallest(self) -> float:
        """Spacing of the subnormal numbers, the smallest positive number of a float format."""
        return self.smallest_normal * 2.0 ** (1 - self.precision)


_TABLE = (
    DType("f32", 32, "float", 24, float.fromhex("0x1.fffffep127"), 2.0**-126),
    DType("f16", 16, "float", 11, 65504.0, 2.0**-14),
    DType("bf16", 16, "float", 8, float.fromhex("0x1.fep127"), 2.0**-126),
    DType("i32", 32, "int", 0, 2.0**31 - 1),
    DType("i8", 8, "int", 0, 127.0),
)
DTYPES: Mapping[str, DType] = MappingProxyType({dtype.name: dtype for dtype in _TABLE})
