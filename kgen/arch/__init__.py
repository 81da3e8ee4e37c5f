"""Which targets and architectures there are. One table per vendor stands beside this module."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kgen.arch.cuda import CUDA_ARCHS, CudaArch, MmaInstruction
from kgen.arch.tpu import TPU_ARCHS, TpuArch

Arch = CudaArch | TpuArch
TARGETS: Mapping[str, Mapping[str, Arch]] = MappingProxyType({"cuda": CUDA_ARCHS, "pallas": TPU_ARCHS})
"""target -> arch name -> table."""


def targets_of(arch: str) -> tuple[str, ...]:
    """The targets that can render for `arch`; empty for an unknown arch."""
    return tuple(target for target, archs in TARGETS.items() if arch in archs)


__all__ = ["CUDA_ARCHS", "TARGETS", "TPU_ARCHS", "Arch", "CudaArch", "MmaInstruction", "TpuArch", "targets_of"]
