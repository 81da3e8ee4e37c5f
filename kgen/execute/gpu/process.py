"""Child processes that execute runs: limits, crashes, restarts. The child's side is child.py."""

from __future__ import annotations

import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from kgen.execute.gpu.harness import Crash, Outcome, Run

_POLL_SECONDS = 0.05
_PACKAGE_ROOT = Path(__file__).resolve().parents[3]
_GROWTH = struct.Struct("<Q")


def send(fd: int, value: object) -> None:
    """Write one pickled value with its length to a pipe."""
    data = pickle.dumps(value, protocol=5)
    view = memoryview(_GROWTH.pack(len(data)) + data)
    while view:
        view = view[os.write(fd, view) :]


def receive(fd: int) -> Any:
    """Read one value that `send` wrote.

    Raises:
        EOFError: the other side has closed the pipe.
    """
    (length,) = _GROWTH.unpack(_read(fd, _GROWTH.size))
    return pickle.loads(_read(fd, length))


def _read(fd: int, count: int) -> bytes:
    parts: list[bytes] = []
    while count:
        data = os.read(fd, min(count, 1 << 20))
        if not data:
            raise EOFError
        parts.append(data)
        count -= len(data)
    return b"".join(parts)


def run_all(
    library: Path | None, ptx: Path, runs: Sequence[Run], *, timeout_s: float, memory_bytes: int
) -> tuple[Outcome | Crash, ...]:
    """See `harness.execute`."""
    results: list[Outcome | Crash] = []
    while len(results) < len(runs):
        with _Child(library, ptx) as child:
            for run in runs[len(results) :]:
                result = child.run(run, timeout_s, memory_bytes)
                results.append(result)
                if isinstance(result, Crash) and result.kind != "error":
                    break
    return tuple(results)


class _Child:
    def __init__(self, library: Path | None, ptx: Path) -> None:
        self.log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        to_child, self.to = os.pipe()
        self.back, from_child = os.pipe()
        command = [sys.executable, "-m", "kgen.execute.gpu.child", str(to_child), str(from_child)]
        path = os.pathsep.join(filter(None, (str(_PACKAGE_ROOT), os.environ.get("PYTHONPATH"))))
        env = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            pass_fds=(to_child, from_child),
            env=env,
        )
        os.close(to_child)
        os.close(from_child)
        self.log_at = 0
        self.first = (str(library.resolve()) if library else None, str(ptx.resolve()))

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.to)
        os.close(self.back)
        try:
            self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def run(self, run: Run, timeout_s: float, memory_bytes: int) -> Outcome | Crash:
        try:
            send(self.to, (*self.first, run))
            crash = self.wait(timeout_s, memory_bytes)
            return crash or self.finish(receive(self.back))
        except (EOFError, BrokenPipeError):
            return self.dead()

    def finish(self, result: Outcome | Crash) -> Outcome | Crash:
        output = self.output()
        if isinstance(result, Crash):
            return Crash(result.kind, result.message, output, result.findings)
        values = {name: getattr(result, name) for name in result.__dataclass_fields__}
        return Outcome(**{**values, "output": output})

    def wait(self, timeout_s: float, memory_bytes: int) -> Crash | None:
        """Wait until a result can be read; kill the child when it is over a limit."""
        deadline = time.monotonic() + timeout_s
        while not select.select([self.back], [], [], _POLL_SECONDS)[0]:
            if time.monotonic() > deadline:
                return self.kill(Crash("timeout", f"no result after {timeout_s:g} s"))
            used = _resident(self.process.pid)
            if used > memory_bytes:
                return self.kill(Crash("memory", f"{used} bytes of memory used; the limit is {memory_bytes}"))
        return None

    def kill(self, crash: Crash) -> Crash:
        self.process.kill()
        self.process.wait()
        return Crash(crash.kind, crash.message, self.output())

    def dead(self) -> Crash:
        code = self.process.wait()
        if code < 0:
            return Crash("signal", f"the run ended with signal {signal.Signals(-code).name}", self.output())
        return Crash("exit", f"the run ended its process with exit status {code}", self.output())

    def output(self) -> str:
        """What the child has written since the last call."""
        self.log.seek(self.log_at)
        data = self.log.read()
        self.log_at += len(data)
        return data[-65536:].decode(errors="replace")


def _resident(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
