"""A wheel works on its own: templates and native sources inside, no source tree near, no optional package needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPEC = ROOT / "specs" / "gemm_bias_gelu.yaml"
SHIPPED = ("kgen", "templates", "pyproject.toml", "setup.py", "README.md", "LICENSE")
NATIVE = (".c", ".h", ".cpp", ".cu")
KGEN = "from kgen.cli.main import main; main()"


def _files(folder: Path, *suffixes: str) -> set[str]:
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix in suffixes)
    return {path.relative_to(folder).as_posix() for path in found}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of a copy of the source tree, made without the network."""
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    source.mkdir()
    for name in SHIPPED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source / name)
    options = ["--no-build-isolation", "--no-deps", "--no-index", "--quiet", "--wheel-dir", str(place)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(source)], check=True, capture_output=True)
    (made,) = place.glob("kgen-*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's content in a folder of its own."""
    target = tmp_path_factory.mktemp("installed")
    options = ["--no-deps", "--no-index", "--quiet", "--target", str(target)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(wheel)], check=True, capture_output=True)
    return target


def _run(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`kgen` of the wheel, run in `folder`; the wheel comes before whatever else Python would find."""
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-c", KGEN, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_wheel_carries_every_file(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {f"kgen/{name}" for name in _files(ROOT / "kgen", ".py", ".typed", *NATIVE)}
    wanted |= {f"kgen/templates/{name}" for name in _files(ROOT / "templates", ".jinja")}
    assert "kgen/py.typed" in wanted
    assert wanted <= names
    strangers = {name for name in names - wanted if not name.split("/")[0].endswith(".dist-info")}
    assert not strangers


def test_wheel_is_used(installed: Path, tmp_path: Path) -> None:
    program = "import kgen, kgen.render.environment as e; print(kgen.__file__); print(e.template_root())"
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-c", program]
    shown = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    assert shown.split() == [str(installed / "kgen" / "__init__.py"), str(installed / "kgen" / "templates")]


def test_wheel_renders_what_the_source_tree_renders(installed: Path, tmp_path: Path) -> None:
    """From an empty folder that holds one spec, in the order of the README."""
    made = {}
    for name, place in (("wheel", installed), ("source", ROOT)):
        folder = tmp_path / name
        folder.mkdir()
        shutil.copy(SPEC, folder)
        rendered = _run(place, folder, "render", SPEC.name, "-o", "out")
        assert rendered.returncode == 0, rendered.stderr
        made[name] = {path.name: path.read_bytes() for path in sorted((folder / "out").iterdir())}
        made[name]["kgen.lock"] = (folder / "kgen.lock").read_bytes()
    assert made["wheel"] == made["source"]
    assert {"gemm_bias_gelu.h", "gemm_bias_gelu_sm_80.cu", "gemm_bias_gelu_tpu_v6e.py"} <= made["wheel"].keys()


def test_wheel_checks_and_lists(installed: Path, tmp_path: Path) -> None:
    shutil.copy(SPEC, tmp_path)
    assert _run(installed, tmp_path, "render", SPEC.name, "-o", "out").returncode == 0
    assert _run(installed, tmp_path, "check", SPEC.name, "-o", "out").returncode == 0
    (tmp_path / "out" / "gemm_bias_gelu_sm_80.cu").unlink()
    assert _run(installed, tmp_path, "check", SPEC.name, "-o", "out").returncode == 1
    archs = _run(installed, tmp_path, "list", "archs")
    assert archs.returncode == 0 and "sm_80" in archs.stdout and "tpu7x" in archs.stdout
