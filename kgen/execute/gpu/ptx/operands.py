"""Binding of an instruction's operands to the operand list of its rule (notation: ops/table.py)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from kgen.execute.gpu.ptx.module import Address, Not, Operand, Pair, PtxError, Register, Sink, Vector

_SCALAR = re.compile(
    r"(?P<optional>\??)(?P<out>=?)(?P<name>\w+)(?:=(?P<default>\w+))?(?:\*(?P<count>\d+))?(?::(?P<type>[\w|]+))?$"
)
_PAIR = re.compile(r"=(?P<name>\w+)(?::(?P<type>\w+))?\|(?P<second>\w+):(?P<second_type>\w+)$")
_ADDRESS = re.compile(r"\[(?P<name>\w+)(?::(?P<space>\w+):(?P<bytes>\d+):(?P<mode>[rw]))?\]$")


@dataclass(frozen=True, slots=True)
class Token:
    """One item of an operand list."""

    kind: str  # scalar, pair, address, implicit
    name: str
    type: str = ""
    out: bool = False
    optional: bool = False
    count: int = 0
    second: str = ""
    second_type: str = ""
    space: str = ""
    bytes: int = 0
    write: bool = False
    default: str = ""  # the operand whose value an absent one takes


@dataclass(frozen=True, slots=True)
class Slot:
    """An operand of an instruction with its role.

    ``role`` is in, out, inout, address (checked memory access) or number (address as a value). ``operand`` is None
    where an optional operand is absent."""

    name: str
    type: str
    role: str
    operand: Operand | None
    token: Token
    vector: str = ""  # name of the vector it belongs to


@cache
def tokens(spec: str) -> tuple[Token, ...]:
    """Parse an operand list."""
    return tuple(_token(text) for text in spec.split())


def _token(text: str) -> Token:
    if text[0] == "%":
        name, type_ = text[1:].split(":")
        return Token("implicit", name, type_)
    if match := _ADDRESS.match(text):
        size, mode = match["bytes"], match["mode"]
        return Token("address", match["name"], space=match["space"] or "", bytes=int(size or 0), write=mode == "w")
    if match := _PAIR.match(text):
        first = match["type"] or match["second_type"]
        return Token("pair", match["name"], first, out=True, second=match["second"], second_type=match["second_type"])
    if match := _SCALAR.match(text):
        count = int(match["count"] or 0)
        return Token(
            "scalar", match["name"], match["type"] or "", bool(match["out"]), bool(match["optional"]), count,
            default=match["default"] or "",
        )  # fmt: skip
    raise ValueError(f"operand list item {text!r}")


def bind(spec: str, operands: tuple[Operand, ...]) -> list[Slot]:
    """Match operands with an operand list.

    Raises:
        PtxError: number or form of the operands do not fit.
    """
    items = tokens(spec)
    explicit = [t for t in items if t.kind != "implicit"]
    optional = [t for t in explicit if t.optional]
    absent = len(explicit) - len(operands)
    if absent < 0 or absent > len(optional):
        raise PtxError(f"{len(operands)} operands, expected {len(explicit)}")
    missing = {id(t) for t in optional[len(optional) - absent :]}
    slots: list[Slot] = []
    rest = iter(operands)
    for token in items:
        if token.kind == "implicit":
            slots.append(Slot(token.name, token.type, "inout", Register("%" + token.name), token))
        elif id(token) in missing:
            slots.append(Slot(token.name, token.type.split("|")[0], "in", None, token))
        else:
            slots.extend(_slots(token, next(rest)))
    return slots


def _slots(token: Token, operand: Operand) -> Iterator[Slot]:
    role = "out" if token.out else "in"
    if token.kind == "address":
        if not isinstance(operand, Address):
            raise PtxError(f"operand {token.name} must be an address")
        yield Slot(token.name, "", "address" if token.space else "number", operand, token)
    elif token.kind == "pair":
        first, second = (operand.first, operand.second) if isinstance(operand, Pair) else (operand, None)
        yield Slot(token.name, token.type, "out", first, token)
        yield Slot(token.second, token.second_type, "out", second, token)
    elif token.count:
        if isinstance(operand, Vector):
            items = operand.items
        elif token.count == 1 and not isinstance(operand, (Address, Pair)):
            items = (operand,)
        else:
            items = ()
        if len(items) != token.count:
            raise PtxError(f"operand {token.name} must be a vector of {token.count}")
        for i, item in enumerate(items):
            yield Slot(f"{token.name}{i}", token.type, role, item, token, token.name)
    else:
        if isinstance(operand, (Address, Pair, Vector)) or (
            isinstance(operand, (Not, Sink)) and not _may(token, operand)
        ):
            raise PtxError(f"operand {token.name} has the wrong form")
        yield Slot(token.name, token.type, role, operand, token)


def _may(token: Token, operand: Operand) -> bool:
    return token.out if isinstance(operand, Sink) else "pred" in token.type
