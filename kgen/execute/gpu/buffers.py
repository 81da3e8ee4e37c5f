"""Device buffers: described by the caller, mapped in the child process, guarded on both sides.

Mappings reserve address space only, so a buffer may be much larger than memory as long as few of its pages are
touched."""

from __future__ import annotations

import mmap
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_MAP_NORESERVE = 0x4000  # linux/mman.h
_GUARD_BYTE = 0xFF  # NaN in every float format

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class BufferSpec:
    """A device buffer.

    Attributes:
        name: by which pointers and findings name it.
        nbytes: size in bytes; accesses outside [0, nbytes) are findings.
        segments: (byte offset, array) pairs written before the run.
        background: byte that fills the rest, or None: untouched zero pages (for sparse buffers).
        guard_bytes: zone before and after, outside the buffer, whose bytes must not change.
        align: alignment of the buffer in bytes, a power of two.
        offset: bytes added to the aligned address (a deliberate misalignment).
        writable: whether device code may write it; a write to a read-only buffer is a finding.
    """

    name: str
    nbytes: int
    segments: tuple[tuple[int, npt.NDArray[np.generic]], ...] = ()
    background: int | None = _GUARD_BYTE
    guard_bytes: int = 4096
    align: int = 256
    offset: int = 0
    writable: bool = True

    @staticmethod
    def of(name: str, array: npt.NDArray[np.generic], *, writable: bool = True) -> BufferSpec:
        """A buffer that holds exactly an array."""
        return BufferSpec(name, array.nbytes, ((0, array),), writable=writable)


def as_bytes(array: npt.NDArray[np.generic]) -> Bytes:
    """The bytes of an array, in C order."""
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)


class Buffer:
    """A mapped buffer."""

    def __init__(self, spec: BufferSpec) -> None:
        if spec.nbytes < 0 or spec.align & (spec.align - 1) or spec.offset < 0:
            raise ValueError(f"buffer {spec.name}: size, alignment or offset is not usable")
        self.spec = spec
        self._lead = -(-spec.guard_bytes // spec.align) * spec.align + spec.offset
        size = self._lead + spec.nbytes + spec.guard_bytes + spec.align
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        self._map = mmap.mmap(-1, size + 4096, flags=flags)
        self._all: Bytes = np.frombuffer(self._map, np.uint8)
        shift = -int(self._all.ctypes.data) % max(spec.align, 1)
        self._begin = self._lead + shift
        self._fill()

    def _fill(self) -> None:
        self._guard_before()[:] = _GUARD_BYTE
        self._guard_after()[:] = _GUARD_BYTE
        view = self.view()
        if self.spec.background is not None:
            view[:] = self.spec.background
        for offset, array in self.spec.segments:
            data = as_bytes(array)
            if offset < 0 or offset + data.size > self.spec.nbytes:
                raise ValueError(
                    f"buffer {self.spec.name}: segment at {offset} does not fit in {self.spec.nbytes} bytes"
                )
            view[offset : offset + data.size] = data

    def _guard_before(self) -> Bytes:
        return self._all[self._begin - self.spec.guard_bytes : self._begin]

    def _guard_after(self) -> Bytes:
        end = self._begin + self.spec.nbytes
        return self._all[end : end + self.spec.guard_bytes]

    @property
    def address(self) -> int:
        """Address of the first byte."""
        return int(self._all.ctypes.data) + self._begin

    def view(self) -> Bytes:
        """The buffer's bytes."""
        return self._all[self._begin : self._begin + self.spec.nbytes]

    def read(self, offset: int, nbytes: int) -> Bytes:
        """A copy of some bytes."""
        if offset < 0 or nbytes < 0 or offset + nbytes > self.spec.nbytes:
            raise ValueError(
                f"buffer {self.spec.name}: read of {nbytes} bytes at {offset} is outside its {self.spec.nbytes}"
            )
        return self.view()[offset : offset + nbytes].copy()

    def damaged_guards(self) -> tuple[str, ...]:
        """Which guard zones have changed: ``before``, ``after``."""
        zones = (("before", self._guard_before()), ("after", self._guard_after()))
        return tuple(name for name, zone in zones if bool((zone != _GUARD_BYTE).any()))
