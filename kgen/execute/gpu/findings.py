"""Findings: what an execution did that it must not do, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One kind of misbehaviour at one instruction, with its first occurrence.

    Attributes:
        severity: ``error``, or ``warning`` where hardware tolerates what the programming model forbids.
        kind: a stable word: ``out-of-bounds``, ``misaligned``, ``deadlock``, ``divergent-collective``, ...
        message: what happened, with the numbers.
        kernel: name of the kernel; None on the host side.
        block, warp, lane: the first occurrence; block is (x, y, z).
        opcode: text of the instruction's opcode.
        line: 1-based line in the device code (PTX).
        source: ``file:line`` in the source, where line information exists.
        count: number of occurrences.
    """

    severity: Severity
    kind: str
    message: str
    kernel: str | None = None
    block: tuple[int, int, int] | None = None
    warp: int | None = None
    lane: int | None = None
    opcode: str | None = None
    line: int | None = None
    source: str | None = None
    count: int = 1

    def __str__(self) -> str:
        where = [self.kernel or "host"]
        if self.block is not None:
            where.append(f"block {self.block} warp {self.warp} lane {self.lane}")
        if self.opcode:
            where.append(f"{self.opcode} (line {self.line})")
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.source or '-'}: {self.severity}: {self.kind}: {self.message}{times} [{'; '.join(where)}]"


def errors(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings that are errors."""
    return tuple(f for f in findings if f.severity == "error")
