"""Errors as values: what is wrong, where in the document, and what would satisfy it."""

from __future__ import annotations

from dataclasses import dataclass

Path = tuple[str | int, ...]
"""Keys and indices from the document's root: `("targets", 0, "tile", "m")`."""


@dataclass(frozen=True)
class Problem:
    """One broken rule. `path` is resolved to file:line:col by the document that holds it.

    `offset` counts characters into the scalar at `path` (for expressions). `message` states the failing
    clause with its numbers; `fix` says what would satisfy it (`allowed: ...`, `did you mean ...`).
    """

    path: Path
    clause: str
    message: str
    fix: str = ""
    offset: int = 0
    on_key: bool = False
    """The place is the key itself, not its value (unknown or missing fields)."""
