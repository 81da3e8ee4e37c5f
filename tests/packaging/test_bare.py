"""Bare kgen needs no numpy, jax or tool chain for anything but `verify`: their import and execution are forbidden."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPEC = ROOT / "specs" / "gemm_bias_gelu.yaml"
FORBIDDEN = ("numpy", "jax", "jaxlib", "ml_dtypes", "libtpu")
BLOCKER = f"""
import sys


class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {FORBIDDEN!r}:
            raise RuntimeError("import of " + name)


sys.meta_path.insert(0, Blocker())
from kgen.cli.main import main

main()
"""


def _bare(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`kgen`, with the heavy imports forbidden and no program on PATH."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": str(folder / "nothing")}
    command = [sys.executable, "-c", BLOCKER, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copy(SPEC, tmp_path)
    rendered = _bare(tmp_path, "render", SPEC.name, "-o", "out")
    assert rendered.returncode == 0, rendered.stderr
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", SPEC.name, "-o", "out"),
        ("diff", SPEC.name, "--between", "sm_80", "tpu-v6e"),
        ("explain", SPEC.name),
        ("list", SPEC.name),
        ("list", "archs"),
        ("list", "ops"),
        ("schema",),
        ("update", SPEC.name),
        ("--help",),
        ("verify", "--help"),
    ],
    ids=lambda arguments: "-".join(arguments[:2]).replace(SPEC.name, "spec"),
)
def test_bare_kgen(project: Path, arguments: tuple[str, ...]) -> None:
    done = _bare(project, *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout or arguments[0] in ("check", "update")


def test_blocker_blocks(project: Path) -> None:
    """The control: verification does need numpy, and runs into the blocker."""
    program = BLOCKER.replace("from kgen.cli.main import main\n\nmain()", "import numpy")
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert "RuntimeError: import of numpy" in done.stderr


HELP_MODULES = "import sys; import kgen.cli.main; print(*sorted(m for m in sys.modules if m.startswith('kgen')))"


def test_help_loads_click_and_nothing_else() -> None:
    """`kgen --help` is fast because the commands are imported when they run."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", HELP_MODULES]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["kgen", "kgen.cli", "kgen.cli.main"]
