"""Translation of a kernel: a table of (handler, operand rows) for the interpreter."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from kgen.execute.gpu.ptx import ops
from kgen.execute.gpu.ptx.emit import Part, lane_handler, raw_handler
from kgen.execute.gpu.ptx.module import (
    Address,
    Entry,
    Immediate,
    Instruction,
    Module,
    Not,
    Operand,
    PtxError,
    Register,
    Sink,
    Symbol,
    Variable,
    Vector,
)
from kgen.execute.gpu.ptx.operands import Slot, bind
from kgen.execute.gpu.ptx.ops import Groups, Kind, Rule
from kgen.execute.gpu.ptx.parser import BITS

SHARED_BASE = 1024  # mirrored in native/engine.h
RED_ZONE = 32  # bytes between static shared variables, so that an overrun does not land in the next one
NO_ROW = 0xFFFFFFFF

# special registers by number; mirrored in native/engine.c (PTX ISA 10)
SPECIALS = {
    "%laneid": 0, "%tid.x": 1, "%tid.y": 2, "%tid.z": 3, "%warpid": 4, "%ctaid.x": 5, "%ctaid.y": 6, "%ctaid.z": 7,
    "%ntid.x": 8, "%ntid.y": 9, "%ntid.z": 10, "%nctaid.x": 11, "%nctaid.y": 12, "%nctaid.z": 13, "%nwarpid": 14,
    "%dynamic_smem_size": 15, "%total_smem_size": 16, "%lanemask_lt": 17, "%lanemask_le": 18, "%lanemask_eq": 19,
    "%lanemask_ge": 20, "%lanemask_gt": 21, "%nsmid": 22, "%smid": 23, "%gridid": 23,
}  # fmt: skip
CLOCKS = frozenset({"%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"})


@dataclass(frozen=True, slots=True)
class Step:
    """One entry of the interpreter's table. ``instruction`` indexes the kernel's instructions, -1 for a merge
    point."""

    kind: Kind
    handler: str | None = None
    imm: int = 0
    rows: tuple[int, ...] = ()
    guard: int = NO_ROW
    negated: int = 0
    target: int = 0
    members: int = NO_ROW
    table: tuple[int, ...] = ()
    instruction: int = -1
    counter: str | None = None


@dataclass(slots=True)
class Layout:
    """Where the variables of a kernel lie; sizes and addresses in bytes."""

    symbols: dict[str, int] = field(default_factory=dict)
    spaces: dict[str, str] = field(default_factory=dict)
    shared: list[tuple[str, int, int]] = field(default_factory=list)
    static_size: int = 0
    dynamic_at: int = SHARED_BASE
    local_size: int = 0


@dataclass(slots=True)
class Translation:
    """A kernel ready for the interpreter, but for the addresses of its handlers."""

    entry: Entry
    layout: Layout
    steps: list[Step]
    handlers: dict[str, str]  # name -> C text
    constants: list[tuple[int, int, int]]  # row, bits, value
    specials: list[tuple[int, int]]  # row, number
    rows: int


def translate(module: Module, name: str, addresses: Mapping[str, int]) -> Translation:
    """Translate a kernel.

    Args:
        module: the parsed PTX.
        name: the entry.
        addresses: addresses of the module's global and constant variables.

    Raises:
        PtxError: naming each instruction that has no rule, with its PTX line.
    """
    return _Translator(module, module.entries[name], addresses).run()


def _align(value: int, to: int) -> int:
    return -(-value // to) * to


def lay_out(module: Module, entry: Entry, addresses: Mapping[str, int]) -> Layout:
    """Place parameters, shared and local variables; the dynamic shared array begins after the static ones."""
    layout = Layout(symbols=dict(addresses), spaces=dict.fromkeys(addresses, "global"))
    for parameter in entry.parameters:
        layout.symbols[parameter.name] = parameter.offset
        layout.spaces[parameter.name] = "param"
    used = _symbols_used(entry)
    shared = [v for v in (*module.variables, *entry.variables) if v.space == "shared" and v.name in used]
    at = SHARED_BASE
    for variable in (v for v in shared if v.size):
        at = _align(at, variable.align)
        layout.shared.append((variable.name, at, variable.size))
        layout.static_size = _align(layout.static_size, variable.align) + variable.size
        _place(layout, variable, at)
        at += variable.size + RED_ZONE
    dynamic = [v for v in shared if not v.size]
    layout.dynamic_at = _align(at, max([16, *(v.align for v in dynamic)]))
    for variable in dynamic:
        _place(layout, variable, layout.dynamic_at)
    for variable in (v for v in entry.variables if v.space == "local"):
        at = _align(layout.local_size, variable.align)
        _place(layout, variable, at)
        layout.local_size = at + variable.size
    layout.local_size = _align(layout.local_size, 16)
    return layout


def _place(layout: Layout, variable: Variable, at: int) -> None:
    layout.symbols[variable.name] = at
    layout.spaces[variable.name] = variable.space


def _symbols_used(entry: Entry) -> set[str]:
    used: set[str] = set()

    def visit(operand: Operand | None) -> None:
        if isinstance(operand, Symbol):
            used.add(operand.name)
        elif isinstance(operand, Address):
            visit(operand.base)
        elif isinstance(operand, Vector):
            for item in operand.items:
                visit(item)

    for instruction in entry.instructions:
        for operand in instruction.operands:
            visit(operand)
    return used


def constant_bits(immediate: Immediate, type_: str) -> int:
    """Bit pattern of a literal used as a type (PTX ISA 4.5)."""
    kind, value = immediate.kind, immediate.value
    if type_ in ("f32", "f64"):
        if kind == type_:
            return value
        number = _number(immediate)
        return int.from_bytes(struct.pack("<f" if type_ == "f32" else "<d", number), "little")
    if kind == "float":
        return int.from_bytes(struct.pack("<f" if BITS[type_] == 32 else "<d", _number(immediate)), "little")
    return int(value != 0) if type_ == "pred" else value & ((1 << BITS[type_]) - 1)


def _number(immediate: Immediate) -> float:
    if immediate.kind == "int":
        return float(immediate.value)
    if immediate.kind == "f32":
        return float(struct.unpack("<f", struct.pack("<I", immediate.value))[0])
    return float(struct.unpack("<d", struct.pack("<Q", immediate.value))[0])


_TEXTS: dict[object, tuple[str, str]] = {}


def handler(key: object, make: Callable[[], str]) -> tuple[str, str]:
    """Name and text of a handler; ``make`` produces the text when the key is new."""
    found = _TEXTS.get(key)
    if found is None:
        text = make()
        name = "h_" + hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        found = _TEXTS[key] = name, text.replace("@", name, 1)
    return found


class _Translator:
    def __init__(self, module: Module, entry: Entry, addresses: Mapping[str, int]) -> None:
        self.module = module
        self.entry = entry
        self.layout = lay_out(module, entry, addresses)
        self.row_of: dict[object, int] = {}
        self.rows = 0
        self.constants: list[tuple[int, int, int]] = []
        self.specials: list[tuple[int, int]] = []
        self.handlers: dict[str, str] = {}
        self.steps: list[Step] = []
        self.starts: list[int] = []  # step of each instruction, including its merge point
        self.errors: list[str] = []

    def run(self) -> Translation:
        labelled = set(self.entry.labels.values())
        for index, instruction in enumerate(self.entry.instructions):
            self.starts.append(len(self.steps))
            if index in labelled:
                self.steps.append(Step(Kind.MERGE))
            try:
                self.instruction(index, instruction)
            except PtxError as error:
                self.errors.append(f"PTX line {instruction.line}: {instruction.opcode}: {error}")
        self.starts.append(len(self.steps))
        self.steps += [Step(Kind.MERGE), Step(Kind.EXIT)]
        if self.errors:
            more = f"\n... and {len(self.errors) - 20} more" if len(self.errors) > 20 else ""
            raise PtxError(f"{self.entry.name}: " + "\n".join(self.errors[:20]) + more)
        self.resolve()
        return Translation(self.entry, self.layout, self.steps, self.handlers, self.constants, self.specials, self.rows)

    def resolve(self) -> None:
        """Turn branch targets from instruction numbers into steps."""
        for i, step in enumerate(self.steps):
            if step.kind is Kind.BRANCH:
                self.steps[i] = replace(step, target=self.starts[step.target])
            elif step.kind is Kind.BRANCH_TABLE:
                self.steps[i] = replace(step, table=tuple(self.starts[t] for t in step.table))

    # ---- rows ----

    def row(self, key: object, bits: int) -> int:
        found = self.row_of.get(key)
        if found is None:
            found = self.row_of[key] = self.rows
            self.rows += 2 if bits == 64 else 1
        return found

    def constant(self, bits: int, value: int) -> int:
        key = ("constant", bits, value)
        if key not in self.row_of:
            self.constants.append((self.row(key, bits), bits, value))
        return self.row_of[key]

    def special(self, name: str) -> int:
        key = ("special", name)
        if key not in self.row_of:
            self.specials.append((self.row(key, 32), SPECIALS[name]))
        return self.row_of[key]

    def register_bits(self, name: str) -> int:
        type_ = self.entry.registers.get(name)
        if type_ is None:
            if name == "%cc":
                return 32
            raise PtxError(f"unknown register {name}")
        return BITS[type_]

    # ---- instructions ----

    def instruction(self, index: int, instruction: Instruction) -> None:
        found = ops.find(instruction.opcode)
        if instruction.opcode.startswith("mov.") and any(isinstance(x, Vector) for x in instruction.operands):
            self.lane(index, instruction, *self.packing(instruction))
            return
        if found is None:
            raise PtxError("no rule for this instruction" + self.text(instruction))
        rule, groups = found
        if rule.kind is Kind.LANE or rule.kind is Kind.WARP:
            operands, body = rule.expand(groups)
            self.lane(index, instruction, rule, groups, operands, body)
        else:
            self.control(index, instruction, rule, groups)

    def text(self, instruction: Instruction) -> str:
        source = self.module.source_of(instruction)
        return f" (source {source})" if source else ""

    def packing(self, instruction: Instruction) -> tuple[Rule, Groups, str, str]:
        """A mov that packs or unpacks a vector (PTX ISA 9.7.9.4)."""
        rule = ops.find("mov.b32")
        width = BITS.get(instruction.opcode.split(".")[-1], 0)
        first, second = instruction.operands
        if rule is None or width not in (16, 32, 64, 128):
            raise PtxError("not a packing mov")
        if width == 128:
            raise PtxError("128-bit registers are not supported")
        if isinstance(first, Vector):
            return rule[0], {"unpack": ""}, *ops.convert.unpack(width, len(first.items))
        if isinstance(second, Vector):
            return rule[0], {"pack": ""}, *ops.convert.pack(width, len(second.items))
        raise PtxError("not a packing mov")

    def guard(self, instruction: Instruction) -> tuple[int, int]:
        if instruction.guard is None:
            return NO_ROW, 0
        if self.register_bits(instruction.guard.register) != 1:
            raise PtxError("the guard is not a predicate")
        return self.row(instruction.guard.register, 1), int(instruction.guard.negated)

    def lane(self, index: int, instruction: Instruction, rule: Rule, groups: Groups, operands: str, body: str) -> None:
        rows: list[int] = []
        parts: list[Part] = []
        imm = 0
        imm_used = False
        for slot in bind(operands, instruction.operands):
            if slot.role in ("address", "number"):
                part, displacement = self.address(slot, rows, imm_used)
                if not part.extra:
                    imm, imm_used = displacement, True
            else:
                part = self.value(slot, rows, rule.raw)
            parts.append(part)
        make = (lambda: raw_handler(parts, body)) if rule.raw else (lambda: lane_handler(parts, body, groups))
        name, text = handler((rule.syntax, body, tuple(sorted(groups)), tuple(parts)), make)
        self.handlers[name] = text
        guard, negated = self.guard(instruction)
        members, target = NO_ROW, 0
        if rule.kind is Kind.WARP:
            target = len(self.steps)
            self.steps.append(Step(Kind.MERGE, instruction=index))
            if rule.members:
                members = next(rows[p.index] for p in parts if p.name == rule.members)
        step = Step(rule.kind, name, imm, tuple(rows), guard, negated, target, members, (), index, rule.counter)
        self.steps.append(step)

    def value(self, slot: Slot, rows: list[int], raw: bool) -> Part:
        """Row of a register, constant or special register."""
        form, bits, row = self.source(slot, raw)
        index = len(rows)
        if row is not None:
            rows.append(row)
        type_ = slot.type
        if "|" in type_:
            type_ = "pred" if bits == 1 else type_.split("|")[0]
        return Part(slot.name, type_, slot.role, form, bits, index, slot.vector, default=slot.token.default)

    def source(self, slot: Slot, raw: bool) -> tuple[str, int, int | None]:
        operand = slot.operand
        type_ = slot.type.split("|")[0]
        if operand is None:
            return "none", 0, None
        if isinstance(operand, Sink):
            return ("row", BITS[type_], self.row("sink", 64)) if raw else ("none", 0, None)
        if isinstance(operand, Not):
            _, bits, row = self.source(Slot(slot.name, "pred", slot.role, operand.operand, slot.token), raw)
            return "not", bits, row
        if isinstance(operand, Immediate) and slot.role == "in":
            return "row", BITS[type_], self.constant(BITS[type_], constant_bits(operand, type_))
        if isinstance(operand, Symbol) and slot.role == "in":
            value = self.symbol(operand) & ((1 << BITS[type_]) - 1)
            return "row", BITS[type_], self.constant(BITS[type_], value)
        if isinstance(operand, Register):
            return self.register(operand.name, type_, slot.role)
        raise PtxError(f"operand {slot.name} has the wrong form")

    def register(self, name: str, type_: str, role: str) -> tuple[str, int, int | None]:
        if name in SPECIALS and role == "in":
            return "row", 32, self.special(name)
        if name in CLOCKS and role == "in":
            return "clock", 0, None
        bits = self.register_bits(name)
        if (bits == 1) != (type_ == "pred") and not (bits == 1 and role == "in" and type_ == "u32"):
            raise PtxError(f"register {name} is {'' if bits == 1 else 'not '}a predicate")
        if bits < BITS[type_]:
            raise PtxError(f"register {name} is narrower than {type_}")
        return "row", bits, self.row(name, bits)

    def symbol(self, symbol: Symbol) -> int:
        if symbol.name not in self.layout.symbols:
            raise PtxError(f"unknown symbol {symbol.name}")
        return self.layout.symbols[symbol.name] + symbol.offset

    def address(self, slot: Slot, rows: list[int], imm_used: bool) -> tuple[Part, int]:
        operand = slot.operand
        assert isinstance(operand, Address)
        index, displacement, form, space = len(rows), operand.offset, "fixed", slot.token.space
        if isinstance(operand.base, Symbol):
            displacement += self.symbol(operand.base)
            if space == "generic":
                space = self.layout.spaces[operand.base.name]
        elif isinstance(operand.base, Register):
            bits = self.register_bits(operand.base.name)
            if bits not in (32, 64):
                raise PtxError("an address needs a register of 32 or 64 bits")
            form = f"base{bits}"
            rows.append(self.row(operand.base.name, bits))
        if imm_used:
            rows.append(self.constant(64, displacement & (1 << 64) - 1))
        token = slot.token
        return Part(
            slot.name, "", slot.role, form, 0, index, "", space, token.bytes, token.write, imm_used
        ), displacement

    def control(self, index: int, instruction: Instruction, rule: Rule, groups: Groups) -> None:
        guard, negated = self.guard(instruction)
        if rule.kind is Kind.BRANCH:
            target = self.label(instruction.operands[0])
            self.steps.append(Step(Kind.BRANCH, guard=guard, negated=negated, target=target, instruction=index))
        elif rule.kind is Kind.BRANCH_TABLE:
            register, targets = instruction.operands
            if not isinstance(register, Register) or not isinstance(targets, Symbol):
                raise PtxError("brx.idx needs a register and a list of labels")
            row = self.row(register.name, self.register_bits(register.name))
            table = tuple(self.entry.labels[name] for name in self.entry.branch_targets[targets.name])
            step = Step(rule.kind, rows=(row,), guard=guard, negated=negated, table=table, instruction=index)
            self.steps.append(step)
        elif rule.kind is Kind.EXIT:
            self.steps.append(Step(Kind.EXIT, guard=guard, negated=negated, instruction=index))
        else:
            self.barrier(index, instruction, rule, groups)
        if rule.kind is not Kind.BARRIER and guard == NO_ROW:
            return
        self.steps.append(Step(Kind.MERGE))

    def label(self, operand: Operand) -> int:
        if not isinstance(operand, Symbol) or operand.name not in self.entry.labels:
            raise PtxError(f"unknown label {operand}")
        return self.entry.labels[operand.name]

    def barrier(self, index: int, instruction: Instruction, rule: Rule, groups: Groups) -> None:
        """Rows of a barrier: id, thread count, result and predicate of a reduction."""
        operands, _ = rule.expand(groups)
        slots = {slot.name: slot for slot in bind(operands, instruction.operands)}
        flags = ops.control.barrier_flags(
            instruction.opcode, groups, "count" in slots and slots["count"].operand is not None
        )
        rows = [0, 0, 0, 0]
        guard, negated = self.guard(instruction)
        for position, name in enumerate(("id", "count", "d", "a")):
            if name in slots and slots[name].operand is not None:
                form, _, row = self.source(slots[name], True)
                rows[position] = row or 0
                negated |= 2 if form == "not" else 0
        target = len(self.steps)
        self.steps.append(Step(Kind.MERGE, instruction=index))
        self.steps.append(
            Step(Kind.BARRIER, None, flags, tuple(rows), guard, negated, target, NO_ROW, (), index, rule.counter)
        )
