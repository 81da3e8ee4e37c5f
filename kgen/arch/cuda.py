"""NVIDIA GPU architectures: capacities, rates and matrix instructions, with their sources.

Sources: CUDA C++ Programming Guide 13, "Compute Capabilities" (technical specifications per compute capability);
NVIDIA A100 Tensor Core GPU Architecture whitepaper (rates, SM count, bandwidth); PTX ISA 9.0 §9.7.14 (mma shapes).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class MmaInstruction:
    """A warp-level matrix instruction D[m,n] += A[m,k] B[k,n]."""

    name: str
    m: int
    n: int
    k: int
    operand: str
    """dtype of A and B."""
    cycles: int
    """Issue cycles on one SM sub-partition (dense rate of the whitepaper)."""


@dataclass(frozen=True)
class CudaArch:
    """One compute capability. Bytes and threads unless said otherwise."""

    name: str
    major: int
    minor: int
    sm_count: int
    shared_per_sm: int
    shared_per_block: int
    """Opt-in limit of dynamic plus static shared memory of one block."""
    shared_reserved_per_block: int
    registers_per_sm: int
    registers_per_thread: int
    threads_per_block: int
    threads_per_sm: int
    blocks_per_sm: int
    warp: int
    banks: int
    bank_bytes: int
    clock_ghz: float
    dram_gb_s: float
    l2_gb_s: float
    shared_bytes_per_cycle: int
    mma: tuple[MmaInstruction, ...]
    minimum_nvcc: str


def _sm_80() -> CudaArch:
    mma = (
        MmaInstruction("m16n8k16", 16, 8, 16, "bf16", 8),
        MmaInstruction("m16n8k16", 16, 8, 16, "f16", 8),
        MmaInstruction("m16n8k8", 16, 8, 8, "f32", 8),
    )
    return CudaArch(
        name="sm_80", major=8, minor=0, sm_count=108, shared_per_sm=167936, shared_per_block=166912,
        shared_reserved_per_block=1024, registers_per_sm=65536, registers_per_thread=255, threads_per_block=1024,
        threads_per_sm=2048, blocks_per_sm=32, warp=32, banks=32, bank_bytes=4, clock_ghz=1.41, dram_gb_s=1555.0,
        l2_gb_s=5120.0 * 1.41, shared_bytes_per_cycle=128, mma=mma, minimum_nvcc="11.1",
    )  # fmt: skip


CUDA_ARCHS: Mapping[str, CudaArch] = MappingProxyType({arch.name: arch for arch in (_sm_80(),)})
