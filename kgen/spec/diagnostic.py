"""What the user reads: a problem at a place in a file, as text and as JSON; and the words that suggest a fix."""

from __future__ import annotations

import difflib
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, order=True)
class Diagnostic:
    """One problem of one file. `line` and `col` count from 1; 0 where the whole file is meant."""

    file: str
    line: int
    col: int
    clause: str
    message: str
    fix: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.col}" if self.line else self.file
        tail = f"; {self.fix}" if self.fix else ""
        return f"{place}: {self.clause}: {self.message}{tail}"

    def to_json(self) -> dict[str, str | int]:
        """The same as plain data, for `--json`."""
        names = ("file", "line", "col", "clause", "message", "fix")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Source:
    """The text of a file and where its lines start."""

    file: str
    """Project-relative name, with forward slashes."""
    text: str
    starts: Sequence[int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        starts = [0, *(i + 1 for i, char in enumerate(self.text) if char == "\n")]
        object.__setattr__(self, "starts", starts)

    def place(self, index: int) -> tuple[int, int]:
        """Line and column of the character at `index`, from 1."""
        line = bisect_right(self.starts, index)
        return line, index - self.starts[line - 1] + 1

    def diagnostic(self, index: int, clause: str, message: str, fix: str = "") -> Diagnostic:
        """A diagnostic at the character at `index`."""
        return Diagnostic(self.file, *self.place(index), clause, message, fix)


def closest(word: str, known: Iterable[str], aliases: Mapping[str, str] | None = None) -> str | None:
    """The known word that was most likely meant, or None. `aliases` maps lower-case words of other tools."""
    known = list(known)
    folded = {name.lower(): name for name in reversed(known)}
    alias = (aliases or {}).get(word.lower())
    if alias in known:
        return alias
    if near := difflib.get_close_matches(word.lower(), folded, n=1, cutoff=0.6):
        return folded[near[0]]
    return None


def choices(known: Iterable[object]) -> str:
    """`allowed: x, y`, or nothing where nothing is allowed."""
    listed = ", ".join(str(word) for word in known)
    return f"allowed: {listed}" if listed else ""


def suggest(word: object, known: Iterable[str], aliases: Mapping[str, str] | None = None) -> str:
    """The fix of a word that is none of `known`: what is allowed, and what was most likely meant."""
    known = list(known)
    near = closest(word, known, aliases) if isinstance(word, str) else None
    return "; ".join(filter(None, (choices(known), f"did you mean {near}?" if near else "")))
