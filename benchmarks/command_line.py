"""The command line: its start, and rendering and checking the 1,000 kernels of one sweep."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Figure, cpu_of, least, size_of

SWEEP = Path(__file__).parent / "specs" / "sweep_1000.yaml"
KGEN = (sys.executable, "-c", "from kgen.cli.main import main; main()")


def figures(scratch: Path, runs: int) -> Iterator[Figure]:
    """Every figure of the command line; `scratch` is an empty folder."""
    start = least(runs, lambda: cpu_of([sys.executable, "-c", "pass"], scratch))
    yield Figure("python -c pass", start, "the interpreter: no command can be faster")
    shown = least(runs, lambda: cpu_of([*KGEN, "--help"], scratch))
    yield Figure("kgen --help", shown, "the interpreter and click; commands are imported when they run", target=0.12)
    shutil.copy(SWEEP, scratch)
    (scratch / "pyproject.toml").touch()
    out = scratch / "out"
    rendered = least(runs, lambda: _rendered(scratch, out))
    files, size = size_of(out)
    yield Figure(
        f"kgen render, sweep of {files - 1:,} kernels", rendered,
        "Jinja's interpretation of templates (about half), then plans and imports", files, size,
    )  # fmt: skip
    again = least(runs, lambda: cpu_of([*KGEN, "render", "-q", SWEEP.name, "-o", "out"], scratch))
    yield Figure("kgen render again, nothing to write", again, "as above, without writing", files, size)
    checked = least(runs, lambda: cpu_of([*KGEN, "check", "-q", SWEEP.name, "-o", "out"], scratch))
    yield Figure("kgen check, unchanged tree", checked, "all is planned and rendered anew to be compared", files, size)


def _rendered(scratch: Path, out: Path) -> float:
    shutil.rmtree(out, ignore_errors=True)
    return cpu_of([*KGEN, "render", "-q", SWEEP.name, "-o", out.name], scratch)
