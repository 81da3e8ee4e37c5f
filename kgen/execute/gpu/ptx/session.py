"""A PTX module loaded into the engine: its kernels, variables, launches, findings and counters."""

from __future__ import annotations

import ctypes
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kgen.execute.gpu.buffers import Bytes
from kgen.execute.gpu.findings import Finding
from kgen.execute.gpu.ptx.library import engine, handler_addresses
from kgen.execute.gpu.ptx.module import Instruction, PtxError, Variable
from kgen.execute.gpu.ptx.parser import BITS, integer, literal, parse
from kgen.execute.gpu.ptx.program import CFindings, Program, pack
from kgen.execute.gpu.ptx.translate import Translation, constant_bits, translate

MODES = {"eager": 0, "late": 1}
NO_SITE = 0xFFFFFFFF

_KERNEL = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)
_VARIABLE = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_char_p)
_COPIED = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64)


class _COptions(ctypes.Structure):
    _fields_ = [
        ("kernel", _KERNEL), ("variable", _VARIABLE), ("copied", _COPIED), ("seed", ctypes.c_uint64),
        ("mode", ctypes.c_uint32), ("shared_poison", ctypes.c_uint32),
    ]  # fmt: skip


class _CCall(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("count", ctypes.c_uint64)]


@dataclass(frozen=True)
class Options:
    """How launches run: ``mode`` is ``eager`` or ``late``; ``seed`` 0 is the natural order of blocks and warps."""

    mode: str = "eager"
    seed: int = 0
    shared_poison: int = 0xFF
    max_findings: int = 32


class Session:
    """One PTX module in this process. Device variables keep their values from run to run until `reset`."""

    def __init__(self, text: str) -> None:
        self.library = engine()
        self.module = parse(text)
        self.programs: dict[str, Program] = {}
        self.by_index: list[Program] = []
        self.failures: dict[str, str] = {}
        self.copies: list[tuple[int, bytes]] = []
        self.variables = {v.name: _place(v) for v in self.module.variables if v.space in ("global", "const")}
        self.addresses = {name: int(a.ctypes.data) for name, a in self.variables.items()}
        self._library = self.library  # keeps the engine loaded
        self._callbacks = (_KERNEL(self._kernel), _VARIABLE(self._variable), _COPIED(self._copied))
        self._regions = ctypes.byref(ctypes.c_char.in_dll(self.library, "kg_global"))
        self._findings = CFindings.in_dll(self.library, "kg_findings")

    # ---- kernels ----

    def program(self, name: str) -> Program:
        """The translated kernel.

        Raises:
            PtxError: there is no such kernel, or it has instructions without a rule.
        """
        if name not in self.programs:
            if name not in self.module.entries:
                raise PtxError(f"no kernel {name!r}; the module has {', '.join(sorted(self.module.entries))}")
            self._add(translate(self.module, name, self.addresses))
        return self.programs[name]

    def prepare(self, names: Sequence[str] | None = None) -> None:
        """Translate kernels (all by default) and compile the handlers they need at once.

        Raises:
            PtxError: a kernel has instructions without a rule.
        """
        wanted = [n for n in (names if names is not None else self.module.entries) if n not in self.programs]
        translations = [translate(self.module, name, self.addresses) for name in wanted]
        handler_addresses({name: text for t in translations for name, text in t.handlers.items()})
        for translation in translations:
            self._add(translation)

    def _add(self, translation: Translation) -> Program:
        program = pack(translation, self.module.target, len(self.by_index))
        self.programs[translation.entry.name] = program
        self.by_index.append(program)
        return program

    def _kernel(self, name: bytes) -> int:
        key = name.decode()
        if key in self.failures:
            return 0
        try:
            return self.program(key).address
        except Exception as error:  # an exception must not cross the C frames; it becomes a finding
            self.failures[key] = str(error)
            print(f"kgen: {error}", file=sys.stderr)  # also when the program exits before its findings are read
            return 0

    def _variable(self, name: bytes) -> int:
        return self.addresses.get(name.decode(), 0)

    def _copied(self, kind: int, host: int, nbytes: int) -> None:
        self.copies.append((kind, ctypes.string_at(host, nbytes)))

    # ---- runs ----

    def begin(self, attributes: Mapping[int, int], options: Options, *, record_copies: bool = False) -> None:
        """Prepare a run: no buffers, no findings, counters at 0, module variables at their initial values."""
        self.library.kg_runtime_reset()
        self.library.kg_functions_reset()
        self.library.kg_findings_reset(ctypes.c_uint32(options.max_findings))
        self.library.kg_regions_clear(self._regions)
        for id_, value in attributes.items():
            self.library.kg_set_attribute(ctypes.c_int(id_), ctypes.c_int(value))
        settings = _COptions.in_dll(self.library, "kg_options")
        settings.kernel, settings.variable = self._callbacks[:2]
        settings.copied = self._callbacks[2] if record_copies else _COPIED()
        settings.seed, settings.mode, settings.shared_poison = options.seed, MODES[options.mode], options.shared_poison
        self.copies.clear()
        self.failures.clear()
        for variable in self.module.variables:
            if variable.name in self.variables:
                array = self.variables[variable.name]
                array[:] = np.frombuffer(initial_bytes(variable, self.addresses), np.uint8)
                self.register(variable.name, int(array.ctypes.data), array.size, variable.space == "global")
        for program in self.by_index:
            program.reset()

    def register(self, name: str, address: int, nbytes: int, writable: bool = True) -> None:
        """Make a range of memory accessible to device code.

        Raises:
            ValueError: it overlaps a range that is registered.
        """
        if nbytes <= 0:
            return
        args = (
            ctypes.c_char_p(name.encode()),
            ctypes.c_uint64(address),
            ctypes.c_uint64(nbytes),
            ctypes.c_uint32(writable),
        )
        if self.library.kg_regions_add(self._regions, *args):
            raise ValueError(f"buffer {name} overlaps another")

    def launch(self, name: str, params: bytes, grid: Sequence[int], block: Sequence[int], dynamic_shared: int) -> None:
        """Launch a kernel by name; ``params`` is its parameter space."""
        program = self.program(name)
        if len(params) != program.c.param_size:
            raise ValueError(f"{name} takes {program.c.param_size} bytes of parameters, not {len(params)}")
        space = np.zeros(len(params) + 64, np.uint8)
        space[: len(params)] = np.frombuffer(params, np.uint8)
        dims = [(ctypes.c_uint32 * 3)(*(*value, 1, 1)[:3]) for value in (grid, block)]
        self.library.kg_run(
            ctypes.c_void_p(program.address), dims[0], dims[1], ctypes.c_uint32(dynamic_shared),
            ctypes.c_void_p(int(space.ctypes.data)),
        )  # fmt: skip

    # ---- results ----

    def findings(self) -> list[Finding]:
        """Findings of the run so far."""
        found = [Finding("error", "unsupported", message, kernel) for kernel, message in self.failures.items()]
        for i in range(self._findings.n):
            found.append(self._finding(self._findings.items[i]))
        return found

    def _finding(self, c: ctypes.Structure) -> Finding:
        severity, message = ("error" if c.severity else "warning"), c.message.decode(errors="replace")
        kind = c.kind.decode()
        if c.program == NO_SITE:
            return Finding(severity, kind, message, count=c.count)  # type: ignore[arg-type]
        program = self.by_index[c.program]
        block = (int(c.block[0]), int(c.block[1]), int(c.block[2]))
        instruction = self._instruction(program, c.site)
        name = program.translation.entry.name
        message = self._name_shared(program, message)
        if instruction is None:
            return Finding(severity, kind, message, name, block, c.warp, c.lane, count=c.count)  # type: ignore[arg-type]
        source = self.module.source_of(instruction)
        return Finding(
            severity, kind, message, name, block, c.warp, c.lane, instruction.opcode, instruction.line, source, c.count,  # type: ignore[arg-type]
        )  # fmt: skip

    @staticmethod
    def _name_shared(program: Program, message: str) -> str:
        """Put the names of shared variables in a message of the engine, which numbers them."""
        names = program.translation.layout.shared
        return re.sub(r"shared variable (\d+)", lambda m: f"shared {names[int(m.group(1))][0]}", message)

    @staticmethod
    def _instruction(program: Program, site: int) -> Instruction | None:
        steps = program.translation.steps
        if site >= len(steps) or steps[site].instruction < 0:
            return None
        return program.translation.entry.instructions[steps[site].instruction]

    def counters(self) -> dict[str, int]:
        """Warp instructions executed, by kind, and calls of the runtime (``call.cudaMalloc``)."""
        total: Counter[str] = Counter()
        for program in self.by_index:
            counts = program.counts()
            total["instructions"] += int(counts.sum())
            for step, count in zip(program.translation.steps, counts, strict=True):
                if step.counter and count:
                    total[step.counter] += int(count)
        total["launches"] = ctypes.c_uint64.in_dll(self.library, "kg_launches").value
        for call in (_CCall * 256).in_dll(self.library, "kg_calls"):
            if call.name:
                total[f"call.{call.name.decode()}"] = call.count
        return dict(total)


def _place(variable: Variable) -> Bytes:
    """Zeroed memory for a module variable, aligned as the variable asks (256 bytes at least)."""
    align = max(256, variable.align)
    space = np.zeros(variable.size + 2 * align, np.uint8)
    begin = -int(space.ctypes.data) % align
    return space[begin : begin + variable.size]


def initial_bytes(variable: Variable, addresses: Mapping[str, int]) -> bytes:
    """Initial contents of a module variable (PTX ISA 5.4.4): literals and addresses; the rest is 0.

    Raises:
        PtxError: an initialiser that is not understood.
    """
    width = BITS[variable.type] // 8
    data = b""
    items = re.split(r"[{},]+", variable.initial or "")
    for item in filter(None, (x.strip() for x in items)):
        data += _initial(item, variable.type, addresses).to_bytes(width, "little")
    if len(data) > variable.size:
        raise PtxError(f"initialiser of {variable.name} has {len(data)} bytes, the variable {variable.size}")
    return data.ljust(variable.size, b"\0")


def _initial(item: str, type_: str, addresses: Mapping[str, int]) -> int:
    immediate = literal(item)
    if immediate:
        return constant_bits(immediate, type_)
    match = re.match(r"(?:generic\(\s*)?([\w$]+)\s*\)?\s*(?:\+\s*(\d+))?$", item)
    if match and match.group(1) in addresses:
        return addresses[match.group(1)] + (integer(match.group(2)) if match.group(2) else 0)
    if match:
        return 0  # the address of a function: it cannot be called
    raise PtxError(f"initialiser {item!r}")
