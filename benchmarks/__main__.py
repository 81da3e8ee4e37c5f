"""`python -m benchmarks`: a table of every figure, or JSON."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from benchmarks import command_line, executor, peer
from benchmarks.measure import Figure, Missing

PARTS = {"kgen": command_line.figures, "peer": peer.figures, "executor": executor.figures}
HEADINGS = ("what", "CPU s", "target", "files", "MB", "files/s", "MB/s", "limited by")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="CPU seconds, the least of several runs.")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--runs", type=int, default=3, help="measurements of each figure (3)")
    parser.add_argument("--json", action="store_true", help="one JSON value")
    options = parser.parse_args()
    found = list(_measure(options.parts or list(PARTS), options.runs))
    print(json.dumps([asdict(figure) for figure in found], indent=2) if options.json else table(found))


def _measure(parts: list[str], runs: int) -> Iterator[Figure | Missing]:
    for part in parts:
        with tempfile.TemporaryDirectory(prefix="kgen-bench-") as folder:
            yield from PARTS[part](Path(folder), runs)


def table(found: list[Figure | Missing]) -> str:
    """The figures as aligned text."""
    rows = [HEADINGS, *map(_row, found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _row(figure: Figure | Missing) -> tuple[str, ...]:
    if isinstance(figure, Missing):
        return figure.what, "not run", "", "", "", "", "", figure.reason
    target = "" if figure.target is None else f"{figure.target:.2f}"
    files = ("", "", "", "")
    if figure.files:
        rates = f"{figure.files_per_second:,.0f}", f"{figure.megabytes_per_second:.1f}"
        files = f"{figure.files:,}", f"{figure.bytes / 1e6:.1f}", *rates
    return figure.what, f"{figure.cpu_seconds:.3f}", target, *files, figure.limit


if __name__ == "__main__":
    main()
