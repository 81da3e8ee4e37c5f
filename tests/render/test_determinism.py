"""The same specs give the same bytes: under any hash seed, from any folder, into any folder, in any order."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KGEN = "from kgen.cli.main import main; main()"
SEEDS = ("0", "1", "2", "3", "7", "42", "1000", "65537", "123456789", "4294967295")


def render(specs: list[Path], out: Path, cwd: Path, seed: str) -> dict[str, bytes]:
    """The files that a fresh process makes of `specs`, by name."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed}
    command = [sys.executable, "-c", KGEN, "render", "--quiet", *map(str, specs), "-o", str(out)]
    subprocess.run(command, cwd=cwd, env=environment, check=True, capture_output=True)
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


def project(folder: Path) -> Path:
    """A project with all specs and no lock, so that choices are made too."""
    shutil.copytree(ROOT / "specs", folder / "specs")
    (folder / "pyproject.toml").touch()
    return folder


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], bytes]:
    """Files and lock of one run, to which all others are compared."""
    folder = project(tmp_path_factory.mktemp("first"))
    files = render([folder / "specs"], folder / "out", folder, "0")
    assert len(files) > 40
    return files, (folder / "kgen.lock").read_bytes()


@pytest.mark.parametrize("seed", SEEDS)
def test_hash_seed_and_place(first: tuple[dict[str, bytes], bytes], tmp_path: Path, seed: str) -> None:
    """Another seed, another project folder, another working folder, another -o."""
    folder = project(tmp_path / f"project {seed}")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert render([folder / "specs"], tmp_path / "deep" / "out", elsewhere, seed) == first[0]
    assert (folder / "kgen.lock").read_bytes() == first[1]


def test_order_of_specs(first: tuple[dict[str, bytes], bytes], tmp_path: Path) -> None:
    folder = project(tmp_path)
    specs = sorted((folder / "specs").glob("*.yaml"), reverse=True)
    assert render(specs, folder / "out", folder, "5") == first[0]
    assert (folder / "kgen.lock").read_bytes() == first[1]


def test_one_spec_alone(first: tuple[dict[str, bytes], bytes], tmp_path: Path) -> None:
    """A file does not depend on what else is rendered with it."""
    folder = project(tmp_path)
    files = render([folder / "specs" / "gemm_two_outputs.yaml"], folder / "out", folder, "5")
    assert files and files.items() <= first[0].items()


def test_lock_makes_no_difference(first: tuple[dict[str, bytes], bytes], tmp_path: Path) -> None:
    """What is chosen anew and what the lock recorded are one."""
    folder = project(tmp_path)
    (folder / "kgen.lock").write_bytes(first[1])
    assert render([folder / "specs"], folder / "out", folder, "5") == first[0]
