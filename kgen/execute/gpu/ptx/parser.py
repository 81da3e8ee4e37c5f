"""PTX text to a typed module (PTX ISA chapter 4, 5 and 10)."""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Iterator

from kgen.execute.gpu.ptx.module import (
    Address,
    Entry,
    Guard,
    Immediate,
    Instruction,
    Module,
    Not,
    Operand,
    Pair,
    Parameter,
    PtxError,
    Register,
    Sink,
    Symbol,
    Variable,
    Vector,
)

BITS = {
    **{f"{k}{n}": n for k in "bus" for n in (8, 16, 32, 64)},
    "f16": 16, "bf16": 16, "f32": 32, "f64": 64, "f16x2": 32, "bf16x2": 32, "pred": 1, "b128": 128, "tf32": 32,
}  # fmt: skip

_COMMENT = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', re.S)
_SECTION = re.compile(r"\.section\b[^{]*\{[^}]*\}")
_LINE_DIRECTIVE = re.compile(r"\.(version|target|address_size|file|loc)\b([^\n]*)")
_FUNCTION = re.compile(r"(?:\.(?:visible|weak|extern)\s+)*\.(entry|func)\b")
_LABEL = re.compile(r"([A-Za-z_$%][\w$]*)\s*:(?!:)")
_STATEMENT = re.compile(r'(?:"[^"]*"|[^;"])*;')
_BLANK = re.compile(r"[\s;]*")
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+"
    r"(?:\.ptr\s*(?:\.(?:global|shared|const|local|generic)\s*)?(?:\.align\s+\d+\s+)?)?([\w$%]+)\s*(?:\[(\d+)\])?$"
)
_VARIABLE = re.compile(
    r"(?:\.(?:visible|extern|weak|common)\s+)*\.(shared|global|const|local)\s+(?:\.attribute\([^)]*\)\s*)?"
    r"(?:\.align\s+(\d+)\s+)?(?:\.v(\d)\s+)?\.(\w+)\s+([\w$%]+)\s*((?:\[\s*\d*\s*\]\s*)*)(?:=\s*(.*))?$",
    re.S,
)
_DIRECTIVE = re.compile(
    r"\.(maxntid|reqntid|minnctapersm|maxnreg|maxclusterrank|reqnctapercluster|explicitcluster)\b([\s\d,]*)"
)
_INSTRUCTION = re.compile(r"(?:@(!?)\s*([%\w$]+)\s+)?([a-z][\w.:]*)\s*(.*);$", re.S)
_OPERANDS = re.compile(r"\s*(\{[^}]*\}|\[[^\]]*\]|[^,]+)\s*(?:,|$)")
_ADDRESS = re.compile(r"\[\s*([%\w$.]+)\s*(?:\+\s*(-?\s*\w+)\s*)?\]$")
_INTEGER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?$")
_FLOAT = re.compile(r"-?\d+\.\d*(?:[eE][+-]?\d+)?$")
_NAME = re.compile(r"[A-Za-z_$%][\w$.]*$")
_SYMBOL = re.compile(r"([A-Za-z_$%][\w$.]*)\s*\+\s*(-?\w+)$")


def parse(text: str) -> Module:
    """Parse a PTX module.

    Raises:
        PtxError: the text is not understood; the message states the line.
    """
    return _Parser(text).parse()


def integer(text: str) -> int:
    """Value of a PTX integer literal (PTX ISA 4.5.1): decimal, hexadecimal, binary or octal, with an optional U."""
    text = text.rstrip("U")
    digits = text.lstrip("-")
    if len(digits) > 1 and digits[0] == "0" and digits.isdigit():
        return int(text, 8)
    return int(text, 0)


def literal(text: str) -> Immediate | None:
    """A literal operand, or None when the text is not one."""
    if _INTEGER.match(text):
        return Immediate("int", integer(text), text)
    if text[:2] in ("0f", "0F") and len(text) == 10:
        return Immediate("f32", int(text[2:], 16), text)
    if text[:2] in ("0d", "0D") and len(text) == 18:
        return Immediate("f64", int(text[2:], 16), text)
    if _FLOAT.match(text):
        return Immediate("float", struct.unpack("<Q", struct.pack("<d", float(text)))[0], text)
    if text == "WARP_SZ":
        return Immediate("int", 32, text)
    return None


def _keep_lines(match: re.Match[str]) -> str:
    text = match.group(0)
    return text if text[0] == '"' else "\n" * text.count("\n") or " "


class _Scope:
    """A brace-delimited scope: registers and labels declared in it hide outer ones."""

    def __init__(self, number: int, parent: _Scope | None) -> None:
        self.suffix = f"@{number}" if parent else ""
        self.parent = parent
        self.names: dict[str, str] = {}
        self.operands: dict[str, Operand] = {}

    def declare(self, name: str) -> str:
        unique = name + self.suffix
        self.names[name] = unique
        self.operands.pop(name, None)
        return unique

    def resolve(self, name: str) -> str:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return name


class _Parser:
    def __init__(self, text: str) -> None:
        text = _COMMENT.sub(_keep_lines, text)
        self.text = _SECTION.sub(lambda m: "\n" * m.group(0).count("\n"), text)
        self.starts = [0] + [m.end() for m in re.finditer("\n", self.text)]
        self.at = 0
        self.source: tuple[int, int] | None = None
        self.scopes = 0
        self.module = Module(target="", version="", files={}, variables=[], entries={})

    def line(self) -> int:
        return bisect_right(self.starts, self.at)

    def error(self, message: str) -> PtxError:
        return PtxError(f"PTX line {self.line()}: {message}")

    def parse(self) -> Module:
        while self.skip():
            if self.line_directive():
                continue
            match = _FUNCTION.match(self.text, self.at)
            if match:
                self.function(match.group(1))
                continue
            statement = self.statement()
            if re.match(r"(?:\.\w+\s+)*\.(?:shared|global|const)\b", statement):
                self.module.variables.append(self.variable(statement))
            elif not statement.startswith((".pragma", ".alias")):
                raise self.error(f"unknown statement {statement[:60]!r}")
        return self.module

    def skip(self) -> bool:
        """Skip blanks; False at the end of the text."""
        match = _BLANK.match(self.text, self.at)
        if match:
            self.at = match.end()
        return self.at < len(self.text)

    def statement(self) -> str:
        match = _STATEMENT.match(self.text, self.at)
        if not match:
            raise self.error(f"statement without ';': {self.text[self.at : self.at + 60]!r}")
        self.at = match.end()
        return match.group(0)[:-1].strip()

    def line_directive(self) -> bool:
        match = _LINE_DIRECTIVE.match(self.text, self.at)
        if not match:
            return False
        self.at = match.end()
        name, rest = match.groups()
        if name == "loc":
            number, line = rest.split()[:2]
            self.source = (int(number), int(line))
        elif name == "file":
            number, path = rest.strip().split(None, 1)
            self.module.files[int(number)] = path.split('"')[1]
        elif name == "target":
            self.module.target = rest.split(",")[0].strip()
        elif name == "version":
            self.module.version = rest.strip()
        return True

    def function(self, kind: str) -> None:
        line, begin = self.line(), self.at
        end = re.compile(r"[{;]").search(self.text, begin)
        if not end:
            raise self.error("function without a body")
        header = self.text[begin : end.start()]
        self.at = end.end()
        if end.group(0) == ";":
            return
        if kind == "func":
            self.skip_body()
            return
        entry = self.header(header, line)
        self.module.entries[entry.name] = entry
        self.body(entry)

    def skip_body(self) -> None:
        depth = 1
        for match in re.compile(r"[{}]").finditer(self.text, self.at):
            depth += 1 if match.group(0) == "{" else -1
            if depth == 0:
                self.at = match.end()
                return
        raise self.error("unbalanced braces")

    def header(self, header: str, line: int) -> Entry:
        match = re.search(r"\.entry\s+([\w$]+)\s*(?:\(([^)]*)\))?(.*)$", header, re.S)
        if not match:
            raise self.error(f"entry header {header[:60]!r}")
        name, parameters, directives = match.groups()
        found = {
            key: tuple(int(x) for x in value.replace(",", " ").split()) for key, value in _DIRECTIVE.findall(directives)
        }
        return Entry(name=name, line=line, parameters=tuple(self.parameters(parameters or "")), directives=found)

    def parameters(self, text: str) -> Iterator[Parameter]:
        offset = 0
        for item in filter(None, (" ".join(x.split()) for x in text.split(","))):
            match = _PARAMETER.match(item)
            if not match:
                raise self.error(f"parameter {item!r}")
            align, type_, name, count = match.groups()
            width = BITS[type_] // 8
            alignment = int(align or width)
            offset = -(-offset // alignment) * alignment
            size = width * int(count or 1)
            yield Parameter(name, offset, size, alignment)
            offset += size

    def variable(self, statement: str) -> Variable:
        match = _VARIABLE.match(statement)
        if not match:
            raise self.error(f"variable {statement[:80]!r}")
        space, align, vector, type_, name, dims, initial = match.groups()
        width = BITS[type_] // 8 * int(vector or 1)
        size = width
        for dim in re.findall(r"\[\s*(\d*)\s*\]", dims):
            size *= int(dim or 0)
        return Variable(space, name, type_, size, int(align or width), initial)

    def body(self, entry: Entry) -> None:
        scope = _Scope(0, None)
        jumps: list[tuple[int, _Scope]] = []
        self.source = None
        while True:
            if not self.skip():
                raise self.error("unbalanced braces")
            char = self.text[self.at]
            if char == "{":
                self.at += 1
                self.scopes += 1
                scope = _Scope(self.scopes, scope)
            elif char == "}":
                self.at += 1
                if scope.parent is None:
                    break
                scope = scope.parent
            elif char == ".":
                if not self.line_directive():
                    self.declaration(entry, scope)
            else:
                self.instruction(entry, scope, jumps)
        self.link(entry, jumps)

    def declaration(self, entry: Entry, scope: _Scope) -> None:
        statement = self.statement()
        if statement.startswith(".reg"):
            self.registers(entry, scope, statement)
        elif re.match(r"\.(shared|local)\b", statement):
            entry.variables.append(self.variable(statement))
        elif not statement.startswith((".pragma", ".noreturn")):
            raise self.error(f"unsupported directive {statement[:60]!r}")

    def registers(self, entry: Entry, scope: _Scope, statement: str) -> None:
        match = re.match(r"\.reg\s+\.(\w+)\s+(.*)$", statement, re.S)
        if not match or match.group(1) not in BITS:
            raise self.error(f"register declaration {statement[:60]!r}")
        type_ = match.group(1)
        for item in match.group(2).split(","):
            ranged = re.match(r"\s*([%\w$]+)<(\d+)>\s*$", item)
            names = [f"{ranged.group(1)}{i}" for i in range(int(ranged.group(2)))] if ranged else [item.strip()]
            for name in names:
                entry.registers[scope.declare(name)] = type_

    def instruction(self, entry: Entry, scope: _Scope, jumps: list[tuple[int, _Scope]]) -> None:
        label = _LABEL.match(self.text, self.at)
        if label:
            self.at = label.end()
            self.skip()
            name = scope.declare(label.group(1))
            if self.text.startswith(".branchtargets", self.at):
                targets = self.statement()[len(".branchtargets") :].split(",")
                entry.branch_targets[name] = tuple(t.strip() for t in targets)
            else:
                entry.labels[name] = len(entry.instructions)
            return
        line, begin = self.line(), self.at
        statement = _STATEMENT.match(self.text, begin)
        match = _INSTRUCTION.match(statement.group(0)) if statement else None
        if not statement or not match:
            raise self.error(f"instruction {self.text[begin : begin + 60]!r}")
        self.at = statement.end()
        negated, predicate, opcode, rest = match.groups()
        guard = Guard(scope.resolve(predicate), negated == "!") if predicate else None
        operands = tuple(self.operand(text.strip(), scope) for text in _OPERANDS.findall(rest)) if rest else ()
        if opcode.startswith("br"):
            jumps.append((len(entry.instructions), scope))
        entry.instructions.append(Instruction(opcode, operands, guard, line, self.source))

    def operand(self, text: str, scope: _Scope) -> Operand:
        found = scope.operands.get(text)
        if found is None:
            found = scope.operands[text] = self.new_operand(text, scope)
        return found

    def new_operand(self, text: str, scope: _Scope) -> Operand:
        if text[0] == "{":
            return Vector(tuple(self.operand(x.strip(), scope) for x in text[1:-1].split(",")))
        if text[0] == "[":
            return self.address(text, scope)
        if text[0] == "!":
            return Not(self.operand(text[1:].strip(), scope))
        if text == "_":
            return Sink()
        if "|" in text:
            first, second = text.split("|")
            return Pair(self.operand(first.strip(), scope), self.operand(second.strip(), scope))
        immediate = literal(text)
        if immediate:
            return immediate
        return self.name(text, scope)

    def name(self, text: str, scope: _Scope) -> Register | Symbol:
        name = scope.resolve(text)
        if name != text or text[0] == "%" or text in scope.names:
            return Register(name)
        if _NAME.match(text):
            return Symbol(text)
        match = _SYMBOL.match(text)
        if match:
            return Symbol(match.group(1), integer(match.group(2)))
        raise self.error(f"operand {text!r}")

    def address(self, text: str, scope: _Scope) -> Address:
        match = _ADDRESS.match(text)
        if not match:
            raise self.error(f"address {text!r}")
        base, offset = match.groups()
        displacement = integer(offset.replace(" ", "")) if offset else 0
        if _INTEGER.match(base):
            return Address(None, integer(base) + displacement)
        return Address(self.name(base, scope), displacement)

    def link(self, entry: Entry, jumps: list[tuple[int, _Scope]]) -> None:
        """Resolve the labels of branches, which may be used before they are declared."""
        for index, scope in jumps:
            instruction = entry.instructions[index]
            operands = tuple(
                Symbol(scope.resolve(op.name))
                if isinstance(op, (Symbol, Register)) and op.name not in entry.registers
                else op
                for op in instruction.operands
            )
            entry.instructions[index] = Instruction(
                instruction.opcode, operands, instruction.guard, instruction.line, instruction.source
            )
