"""Measuring child processes: processor time (user and system), which a busy machine distorts less than wall time."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Figure:
    """One row of the table. Times are processor seconds, the least of several runs."""

    what: str
    cpu_seconds: float
    limit: str
    """What bounds the figure."""
    files: int = 0
    bytes: int = 0
    target: float | None = None
    """Processor seconds that the project aims at."""

    @property
    def files_per_second(self) -> float:
        """Files made or compared in a processor second."""
        return self.files / self.cpu_seconds

    @property
    def megabytes_per_second(self) -> float:
        """Megabytes (10^6 bytes) of text in a processor second."""
        return self.bytes / self.cpu_seconds / 1e6


@dataclass(frozen=True)
class Missing:
    """A figure that could not be measured here."""

    what: str
    reason: str


def least(runs: int, once: Callable[[], float]) -> float:
    """The least of several measurements."""
    return min(once() for _ in range(runs))


def cpu_of(command: Sequence[str], cwd: Path, environment: Mapping[str, str] | None = None) -> float:
    """Processor seconds of a command and its children, its start included.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    before = _children()
    subprocess.run(command, cwd=cwd, env=environment, check=True, capture_output=True)
    return _children() - before


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def size_of(folder: Path) -> tuple[int, int]:
    """Files below a folder, and their bytes."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return len(sizes), sum(sizes)
