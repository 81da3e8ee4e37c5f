"""Differences between generated files, layer by layer, so that files of different targets or tiles line up."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass

_HEADING = re.compile(r"^\W{1,3} ?=+ (?P<title>[1-4]\. [^=]+?) =+$")
LAYERS = ("header", "1. tile operators", "2. kernel", "3. instantiation", "4. client API")


@dataclass(frozen=True)
class LayerDiff:
    """The unified diff of one layer; no lines where the layers are equal."""

    layer: str
    lines: tuple[str, ...]

    @property
    def added(self) -> int:
        """Lines that only the second file has."""
        return sum(line.startswith("+") for line in self.lines[2:])

    @property
    def removed(self) -> int:
        """Lines that only the first file has."""
        return sum(line.startswith("-") for line in self.lines[2:])


def layers(text: str) -> dict[str, list[str]]:
    """The lines of a generated file under each heading; what stands before the first is the header."""
    found: dict[str, list[str]] = {layer: [] for layer in LAYERS}
    current = LAYERS[0]
    for line in text.splitlines():
        heading = _HEADING.match(line)
        if heading and heading["title"] in found:
            current = heading["title"]
        else:
            found[current].append(line)
    return found


def diff(old: str, new: str, old_name: str, new_name: str, context: int = 3) -> Iterator[LayerDiff]:
    """The diff of every layer, in order."""
    before, after = layers(old), layers(new)
    for layer in LAYERS:
        lines = difflib.unified_diff(before[layer], after[layer], old_name, new_name, lineterm="", n=context)
        yield LayerDiff(layer, tuple(lines))
