"""Device attributes of the emulated NVIDIA devices, by architecture.

Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", and the data sheets of one
common product of each architecture for counts of multiprocessors and cache sizes. Keys are cudaDeviceAttr enumerators
(driver_types.h)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_KB = 1024


@dataclass(frozen=True)
class _Figures:
    """What differs between architectures."""

    multiprocessors: int
    shared_per_multiprocessor: int
    shared_per_block_optin: int
    threads_per_multiprocessor: int
    blocks_per_multiprocessor: int
    l2_bytes: int


_DEVICES: Mapping[str, _Figures] = {
    "sm_75": _Figures(40, 64 * _KB, 64 * _KB, 1024, 16, 4 * _KB * _KB),  # T4
    "sm_80": _Figures(108, 164 * _KB, 163 * _KB, 2048, 32, 40 * _KB * _KB),  # A100
    "sm_86": _Figures(84, 100 * _KB, 99 * _KB, 1536, 16, 6 * _KB * _KB),  # A40
    "sm_89": _Figures(142, 100 * _KB, 99 * _KB, 1536, 24, 96 * _KB * _KB),  # L40
    "sm_90": _Figures(132, 228 * _KB, 227 * _KB, 2048, 32, 50 * _KB * _KB),  # H100 SXM
    "sm_100": _Figures(148, 228 * _KB, 227 * _KB, 2048, 32, 126 * _KB * _KB),  # B200
    "sm_120": _Figures(170, 100 * _KB, 99 * _KB, 1536, 24, 96 * _KB * _KB),  # RTX 5090
}


def architectures() -> tuple[str, ...]:
    """The architectures with a device table."""
    return tuple(_DEVICES)


def attributes(arch: str) -> dict[int, int]:
    """The device table of an architecture (``sm_90a`` is the device of ``sm_90``).

    Raises:
        ValueError: no such device is known.
    """
    match = re.fullmatch(r"(sm_(\d+)(\d))[af]?", arch)
    if not match or match.group(1) not in _DEVICES:
        raise ValueError(f"no device table for {arch!r}; known: {', '.join(_DEVICES)}")
    figures = _DEVICES[match.group(1)]
    return {
        1: 1024, 2: 1024, 3: 1024, 4: 64,  # threads per block; block dimensions
        5: 2**31 - 1, 6: 65535, 7: 65535,  # grid dimensions
        8: 48 * _KB, 9: 64 * _KB, 10: 32, 12: 65536,  # shared, constant memory, warp size, registers per block
        13: 1_400_000, 15: 1, 16: figures.multiprocessors, 17: 0, 18: 0, 19: 1, 20: 0, 31: 1, 32: 1,
        36: 1_500_000, 37: 5120, 38: figures.l2_bytes, 39: figures.threads_per_multiprocessor, 40: 3, 41: 1,
        75: int(match.group(2)), 76: int(match.group(3)),
        81: figures.shared_per_multiprocessor, 82: 65536, 83: 1, 89: 1, 95: 1, 97: figures.shared_per_block_optin,
        106: figures.blocks_per_multiprocessor, 111: 0 if arch == "sm_75" else _KB, 115: 1,
    }  # fmt: skip
