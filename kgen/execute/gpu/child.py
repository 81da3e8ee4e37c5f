"""The child process of process.py: ``python -m kgen.execute.gpu.child <read fd> <write fd>``."""

from __future__ import annotations

import ctypes
import faulthandler
import sys
import time
from pathlib import Path

from kgen.execute.gpu.buffers import Buffer
from kgen.execute.gpu.devices import attributes
from kgen.execute.gpu.findings import Finding
from kgen.execute.gpu.harness import Call, Crash, KernelLaunch, Main, Outcome, Run, pack_params, pack_struct
from kgen.execute.gpu.process import receive, send
from kgen.execute.gpu.ptx.session import Options, Session

_COPY_NAMES = {1: "to device", 2: "from device"}


class _Worker:
    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.libraries: dict[str, ctypes.CDLL] = {}
        self.libc = ctypes.CDLL(None)

    def session(self, ptx: str) -> Session:
        if ptx not in self.sessions:
            self.sessions[ptx] = Session(Path(ptx).read_text(encoding="utf-8", errors="replace"))
        return self.sessions[ptx]

    def library(self, path: str | None) -> ctypes.CDLL:
        if path is None:
            raise ValueError("the run calls a C function but no library was given")
        if path not in self.libraries:
            self.libraries[path] = ctypes.CDLL(path)
        return self.libraries[path]

    def run(self, library: str | None, ptx: str, run: Run) -> Outcome:
        session = self.session(ptx)
        options = Options(run.mode, run.seed, run.shared_poison, run.max_findings)
        session.begin(attributes(run.arch), options, record_copies=run.record_copies)
        buffers = {spec.name: Buffer(spec) for spec in run.buffers}
        for name, buffer in buffers.items():
            session.register(name, buffer.address, buffer.spec.nbytes, buffer.spec.writable)
        addresses = {name: buffer.address for name, buffer in buffers.items()}
        begin = time.process_time()
        results = [self.call(session, library, item, addresses) for item in run.calls]
        seconds = time.process_time() - begin
        self.libc.fflush(None)
        return Outcome(
            returned=tuple(r[0] for r in results),
            clauses=tuple(r[1] for r in results),
            reads=tuple(buffers[name].read(offset, count) for name, offset, count in run.read),
            findings=(*session.findings(), *_guard_findings(buffers)),
            counters=session.counters(),
            copies=tuple((_COPY_NAMES[kind], data) for kind, data in session.copies),
            cpu_seconds=seconds,
        )

    def call(
        self, session: Session, library: str | None, item: Call | KernelLaunch | Main, addresses: dict[str, int]
    ) -> tuple[int, str | None]:
        if isinstance(item, KernelLaunch):
            session.launch(item.entry, pack_params(item.params, addresses), item.grid, item.block, item.dynamic_shared)
            return 0, None
        if isinstance(item, Main):
            return self.main(library, item), None
        return self.function(library, item, addresses)

    def function(self, library: str | None, item: Call, addresses: dict[str, int]) -> tuple[int, str | None]:
        function = getattr(self.library(library), item.symbol)
        function.restype = ctypes.c_int32 if item.returns == "i32" else ctypes.c_uint64
        packed = pack_struct(item.fields, addresses)
        space = (ctypes.c_uint64 * (len(packed) // 8 + 1))()
        ctypes.memmove(space, packed, len(packed))
        clause = ctypes.c_char_p()
        more = (ctypes.byref(clause),) if item.clause else ()
        value = int(function(ctypes.byref(space), *more))
        return value, clause.value.decode(errors="replace") if clause.value is not None else None

    def main(self, library: str | None, item: Main) -> int:
        loaded = self.library(library)
        function = getattr(loaded, item.symbol, None) or getattr(loaded, f"_Z{len(item.symbol)}{item.symbol}iPPc")
        function.restype = ctypes.c_int32
        arguments = [ctypes.c_char_p(text.encode()) for text in ("program", *item.argv)]
        argv = (ctypes.c_char_p * (len(arguments) + 1))(*arguments, None)
        return int(function(ctypes.c_int(len(arguments)), argv))


def _guard_findings(buffers: dict[str, Buffer]) -> list[Finding]:
    return [
        Finding("error", "guard", f"the guard zone {zone} buffer {name} was overwritten")
        for name, buffer in buffers.items()
        for zone in buffer.damaged_guards()
    ]


def main() -> int:
    """Serve runs until the parent closes its pipe."""
    faulthandler.enable()
    incoming, outgoing = int(sys.argv[1]), int(sys.argv[2])
    worker = _Worker()
    while True:
        try:
            library, ptx, run = receive(incoming)
        except EOFError:
            return 0
        result: Outcome | Crash
        try:
            result = worker.run(library, ptx, run)
        except Exception as error:  # whatever the run's set-up raises is the parent's to report
            result = Crash("error", f"{type(error).__name__}: {error}")
        send(outgoing, result)


if __name__ == "__main__":
    sys.exit(main())
