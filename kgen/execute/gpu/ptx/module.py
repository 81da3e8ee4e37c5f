"""Typed form of a PTX module: what the parser produces and the translator consumes."""

from __future__ import annotations

from dataclasses import dataclass, field


class PtxError(Exception):
    """PTX text that cannot be parsed or executed; the message names the construct and its line."""


@dataclass(frozen=True, slots=True)
class Register:
    """A register or a special register such as ``%tid.x``."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A literal. ``kind`` is ``int``, ``f32`` or ``f64`` (``value`` holds the bit pattern) or ``float`` (decimal
    text)."""

    kind: str
    value: int
    text: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """Address of a variable, parameter or label, plus a byte offset."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """``[base+offset]``; the base is a register, a symbol or nothing (an absolute address)."""

    base: Register | Symbol | None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, ...}``."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """``d|p``: two destinations."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Not:
    """``!p``: a negated predicate."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Sink:
    """``_``: a destination that is not wanted."""


Operand = Register | Immediate | Symbol | Address | Vector | Pair | Not | Sink


@dataclass(frozen=True, slots=True)
class Guard:
    """``@p`` or ``@!p``."""

    register: str
    negated: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; ``line`` is 1-based in the PTX text, ``source`` is (file number, line) of the last
    ``.loc``."""

    opcode: str
    operands: tuple[Operand, ...]
    guard: Guard | None
    line: int
    source: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a state space; ``size`` and ``align`` in bytes, ``size`` 0 for an unsized extern array."""

    space: str
    name: str
    type: str
    size: int
    align: int
    initial: str | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A kernel parameter; ``offset``, ``size`` and ``align`` in bytes."""

    name: str
    offset: int
    size: int
    align: int


@dataclass(slots=True)
class Entry:
    """A kernel."""

    name: str
    line: int
    parameters: tuple[Parameter, ...]
    directives: dict[str, tuple[int, ...]]
    registers: dict[str, str] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    branch_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class Module:
    """A parsed PTX file. ``files`` maps the numbers of ``.file`` to paths."""

    target: str
    version: str
    files: dict[int, str]
    variables: list[Variable]
    entries: dict[str, Entry]

    def source_of(self, instruction: Instruction) -> str | None:
        """``file:line`` of the source statement, or None without line information."""
        if instruction.source is None:
            return None
        number, line = instruction.source
        return f"{self.files.get(number, '?')}:{line}"
