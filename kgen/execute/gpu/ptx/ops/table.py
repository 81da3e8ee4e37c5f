"""The table of PTX semantics: one rule for each form of an instruction.

A rule has a *syntax*, an *operand list* and a *C body*.

Syntax, close to the ISA's own notation: ``add[.ftz].{t:f32|f64}`` has an optional modifier and a required choice
named ``t``; ``[.rnd:rz|rm]`` is an optional choice. A modifier that a rule does not state is not accepted.

Operands, in PTX order: ``=d:u32`` a destination, ``a:u32`` a source, ``?b=a:u32`` a source that may be absent (it is
then a; ``?b=a:u32|pred`` may also be a predicate: 0 where it holds, else a), ``=d|q:pred`` a pair whose second part
may be absent, ``=d*4:b32`` a vector (``d0`` ... ``d3`` in the body), ``[p:global:16:r]`` an address of which 16 bytes
are read (``p`` is their host address in the body), ``[p]`` an address passed as a number, ``%cc:u32`` an implicit
register that is read and written. ``<t>`` stands for the modifier named ``t``.

Body: a C expression (the value of ``d``), or statements that end with ``;``. 16-bit floats are f32 values within it,
packed pairs run it once for each half, and the modifiers ``ftz`` and ``sat`` are applied around it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from kgen.execute.gpu.ptx.parser import BITS

Groups = Mapping[str, str]


class Kind(IntEnum):
    """What the interpreter does with an instruction; mirrored in native/engine.h."""

    LANE = 0
    MERGE = 1
    WARP = 2
    BRANCH = 3
    EXIT = 4
    BARRIER = 5
    BRANCH_TABLE = 6


@dataclass(frozen=True, slots=True)
class Rule:
    """Semantics of one form of an instruction.

    Attributes:
        syntax: the form, in the notation above.
        isa: PTX ISA section.
        expand: operand list and body for the modifiers matched.
        kind: LANE bodies run for each lane; WARP bodies run once, over rows; others are the interpreter's.
        raw: the body is a whole function body over rows and the lane mask ``M``.
        members: name of the operand that holds the member mask of a WARP instruction.
        counter: name of the counter that executions add to.
    """

    syntax: str
    isa: str
    expand: Callable[[Groups], tuple[str, str]]
    kind: Kind = Kind.LANE
    raw: bool = False
    members: str | None = None
    counter: str | None = None


_RULES: dict[str, list[tuple[re.Pattern[str], Rule]]] = {}
_FOUND: dict[str, tuple[Rule, dict[str, str]] | None] = {}

_OPTIONAL_CHOICE = re.compile(r"\[\.(\w+):([^\]]*)\]")
_OPTIONAL_FLAG = re.compile(r"\[\.(\w+)\]")
_CHOICE = re.compile(r"\.\{(\w+):([^}]*)\}")
_PLACEHOLDER = re.compile(r"<(\w+)(?::(\w+))?>")


def _pattern(syntax: str) -> re.Pattern[str]:
    parts = re.split(r"(\[[^\]]*\]|\.\{[^}]*\})", syntax)
    out = []
    for part in parts:
        if match := _OPTIONAL_CHOICE.fullmatch(part):
            out.append(rf"(?:\.(?P<{match.group(1)}>{match.group(2)}))?")
        elif match := _OPTIONAL_FLAG.fullmatch(part):
            out.append(rf"(?:\.(?P<{match.group(1)}>{match.group(1)}))?")
        elif match := _CHOICE.fullmatch(part):
            out.append(rf"\.(?P<{match.group(1)}>{match.group(2)})")
        else:
            out.append(re.escape(part))
    return re.compile("".join(out))


def register(rule: Rule) -> None:
    """Add a rule to the table."""
    root = re.split(r"[.\[]", rule.syntax, maxsplit=1)[0]
    _RULES.setdefault(root, []).append((_pattern(rule.syntax), rule))


def rule(
    syntax: str,
    operands: str | Callable[[Groups], str],
    body: str | Callable[[Groups], str],
    *,
    isa: str,
    kind: Kind = Kind.LANE,
    raw: bool = False,
    members: str | None = None,
    counter: str | None = None,
) -> None:
    """Register a rule whose operands and body are templates (``<name>``) or functions of the modifiers matched."""

    def expand(groups: Groups) -> tuple[str, str]:
        ops = operands if isinstance(operands, str) else operands(groups)
        text = body if isinstance(body, str) else body(groups)
        return substitute(ops, groups), substitute(text, groups)

    register(Rule(syntax, isa, expand, kind, raw, members, counter))


def find(opcode: str) -> tuple[Rule, dict[str, str]] | None:
    """The rule of an opcode with its modifiers, or None when the table has none."""
    if opcode not in _FOUND:
        _FOUND[opcode] = _search(opcode)
    return _FOUND[opcode]


def rules() -> list[Rule]:
    """All rules, in order of registration within each root opcode."""
    return [rule for entries in _RULES.values() for _, rule in entries]


def _search(opcode: str) -> tuple[Rule, dict[str, str]] | None:
    for pattern, candidate in _RULES.get(opcode.split(".", 1)[0], ()):
        match = pattern.fullmatch(opcode)
        if match:
            return candidate, {key: value for key, value in match.groupdict().items() if value is not None}
    return None


def substitute(text: str, groups: Groups) -> str:
    """Replace ``<t>``, and ``<t:wide>``, ``<t:bits>``, ``<t:unsigned>``, ``<t:width>`` derived from a type, in a
    template."""

    def value(match: re.Match[str]) -> str:
        name, derived = match.groups()
        if name not in groups:
            return match.group(0)
        return _derive(groups[name], derived)

    return _PLACEHOLDER.sub(value, text)


def _derive(type_: str, derived: str | None) -> str:
    if derived is None:
        return type_
    bits = BITS[type_]
    if derived == "wide":
        return f"{type_[0]}{2 * bits}"
    if derived == "width":
        return str(bits)
    if derived == "bytes":
        return str(bits // 8)
    if bits == 1:
        return "pred"
    return f"{'u' if derived == 'unsigned' else 'b'}{bits}"
