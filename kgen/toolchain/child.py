"""Python functions run in child processes, with limits: what the child does to itself stays in the child.

`run` hands items one by one to a function in a child and yields one result an item, in order. A crash, a time-out or an
uncaught exception costs that item only: it becomes a `ChildError`, and a new child takes the next item.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import TracebackType
from typing import IO

_OUTPUT_TAIL = 4000
"""Characters of a child's output kept with an error."""


@dataclass(frozen=True)
class ChildError:
    """An item that gave no result. `kind` is `exception`, `crash`, `timeout` or `memory`."""

    kind: str
    message: str
    output: str = ""
    """The end of what the child wrote."""


@dataclass(frozen=True)
class Limits:
    """What one child may use: seconds for each item (start-up is part of the first), and bytes of data memory."""

    seconds: float = 120.0
    memory_bytes: int = 6 << 30


class Retire(Exception):
    """Raised by a function to give its result from a process that must not be used again."""

    def __init__(self, result: object) -> None:
        super().__init__("retire")
        self.result = result


@dataclass
class Worker:
    """A child process that serves one function, started when it is first needed."""

    function: str
    """`package.module:name` of a function of one item."""
    environment: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)
    _pipe: Connection | None = field(default=None, init=False, repr=False)
    _output: IO[bytes] | None = field(default=None, init=False, repr=False)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def call(self, item: object) -> object:
        """The function's result for `item`, or a ChildError. Items and results are pickled."""
        pipe = self._pipe or self._start()
        try:
            pipe.send(item)
            if not pipe.poll(self.limits.seconds):
                return self._fail("timeout", f"no result after {self.limits.seconds:g} s")
            status, value = pipe.recv()
        except (EOFError, OSError):
            return self._died()
        if status == "result":
            return value
        if status == "retire":
            self.close()
            return value
        return self._fail(status, value)

    def close(self) -> None:
        """Ends the child. The next call starts another."""
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if self._output is not None:
            self._output.close()
        self._process = self._pipe = self._output = None

    def _start(self) -> Connection:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the child)
        self._pipe, theirs = Pipe()
        command = [sys.executable, "-X", "faulthandler", "-m", __name__, self.function, str(theirs.fileno())]
        self._process = subprocess.Popen(
            [*command, str(self.limits.memory_bytes)],
            env={**os.environ, "PYTHONPATH": _python_path(), **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()
        return self._pipe

    def _died(self) -> ChildError:
        assert self._process is not None
        try:
            code = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            return self._fail("crash", "the child closed its pipe")
        name = signal.Signals(-code).name if code < 0 else f"exit {code}"
        return self._fail("crash", f"the child ended with {name}")

    def _fail(self, kind: str, message: str) -> ChildError:
        output = self._tail()
        if kind == "crash" and "bad_alloc" in output:
            kind = "memory"
        self.close()
        return ChildError(kind, message, output)

    def _tail(self) -> str:
        assert self._output is not None
        self._output.seek(0)
        return self._output.read().decode(errors="replace")[-_OUTPUT_TAIL:]


def run(
    function: str, items: Iterable[object], environment: Mapping[str, str], limits: Limits
) -> Iterator[object | ChildError]:
    """One result an item, in order, from one child as long as it lives."""
    with Worker(function, environment, limits) as worker:
        for item in items:
            yield worker.call(item)


def _python_path() -> str:
    """This package's folder before what the caller has, so that a child sees the same kgen."""
    root = str(Path(__file__).resolve().parents[2])
    return os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])


# ---- in the child ---------------------------------------------------------------------------------------------------


def _limit_memory(bytes_: int) -> None:
    import resource

    # Data, not address space: jaxlib and libtpu reserve far more addresses than they use.
    resource.setrlimit(resource.RLIMIT_DATA, (bytes_, bytes_))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _answer(function: object, item: object) -> tuple[str, object]:
    assert callable(function)
    try:
        return "result", function(item)
    except Retire as retired:
        return "retire", retired.result
    except MemoryError:
        return "memory", "out of the memory that a child may use"
    except Exception as error:
        traceback.print_exc()
        sys.stderr.flush()
        return "exception", f"{type(error).__name__}: {error}"


def main(function: str, descriptor: int, memory_bytes: int) -> None:
    """Serves items from the pipe until its other end closes or the function retires."""
    _limit_memory(memory_bytes)
    pipe = Connection(descriptor)
    module, name = function.split(":")
    called = None
    while True:
        try:
            item = pipe.recv()
        except EOFError:
            return
        called = called or getattr(import_module(module), name)
        answer = _answer(called, item)
        pipe.send(answer)
        if answer[0] != "result":
            return


if __name__ == "__main__":
    # The imported module, not this `__main__`: functions raise its Retire.
    import_module("kgen.toolchain.child").main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
