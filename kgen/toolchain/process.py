"""Compilers and other programs run to their end, within limits of time and memory."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

SECONDS = 300.0
MEMORY_BYTES = 8 << 30
"""Data memory of one program: nvcc's largest step took 3.2 GB on a CUTLASS kernel."""


@dataclass(frozen=True)
class Finished:
    """A program that ended. `code` is negative where a signal or a limit ended it."""

    code: int
    stdout: str
    stderr: str

    @property
    def words(self) -> str:
        """What it said, wherever it said it."""
        return (self.stderr or self.stdout).strip()


def run(command: Sequence[str], seconds: float = SECONDS, memory_bytes: int = MEMORY_BYTES) -> Finished:
    """Runs a program in a process group of its own, which a time-out ends whole.

    FileNotFoundError or PermissionError: there is no such program.
    """
    process = subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    with suppress(ProcessLookupError):  # it has ended already
        resource.prlimit(process.pid, resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    try:
        stdout, stderr = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return Finished(-signal.SIGKILL, "", f"{command[0]} did not finish within {seconds:g} s")
    return Finished(process.returncode, stdout, stderr)
