"""TPU generations: capacities, rates and legality, with their sources.

Sources: the generation table of jax 0.10.2 (`jax/_src/pallas/mosaic/tpu_info.py`); scoped VMEM limits found by
ahead-of-time compilation with libtpu 0.0.52; clocks derived from published peak rates and MACs per cycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_MIB = 1 << 20


@dataclass(frozen=True)
class TpuArch:
    """One TPU generation, per TensorCore."""

    name: str
    topology: str
    """libtpu topology name for ahead-of-time compilation."""
    device_kind: str
    megacore: int
    """TensorCores that one device shares a grid between (2 on v4 and v5p)."""
    vmem_bytes: int
    scoped_vmem_bytes: int
    """VMEM a kernel gets without asking."""
    mxu_count: int
    mxu_dim: int
    clock_ghz: float
    hbm_gb_s: float
    bf16_tflops: float
    dtypes: tuple[str, ...]
    """dtypes of operands that the generation's compiler takes in a product or an epilogue."""


_FLOATS = ("bf16", "f32")
_TABLE = (
    TpuArch("tpu-v4", "v4:2x2x1", "TPU v4", 2, 16 * _MIB, 16 * _MIB, 4, 128, 1.05, 615.0, 137.5, _FLOATS),
    TpuArch("tpu-v5e", "v5e:1x1", "TPU v5 lite", 1, 128 * _MIB, 16 * _MIB, 4, 128, 1.503, 820.0, 197.0, _FLOATS),
    TpuArch("tpu-v5p", "v5p:2x2x1", "TPU v5", 2, 64 * _MIB, 16 * _MIB, 4, 128, 1.751, 1230.0, 229.5, _FLOATS),
    TpuArch("tpu-v6e", "v6e:1x1", "TPU v6 lite", 1, 128 * _MIB, 32 * _MIB, 2, 256, 1.755, 1640.0, 920.0, _FLOATS),
    TpuArch("tpu7x", "tpu7x:2x2x1", "TPU7x", 1, 64 * _MIB, 64 * _MIB, 2, 256, 2.203, 3700.0, 1155.0, _FLOATS),
)
TPU_ARCHS: Mapping[str, TpuArch] = MappingProxyType({arch.name: arch for arch in _TABLE})
LANES = 128
"""Minor tile dim of a vector register; blocks are multiples of it or span the array (Pallas TPU lowering)."""
SUBLANES = 8
