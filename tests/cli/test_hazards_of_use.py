"""What happens around a command: others at work, odd paths, broken templates, folders that cannot be written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import SPEC, Kgen

SHIPPED = Path(__file__).parents[2] / "templates" / "cuda"


def test_renders_at_the_same_time_lose_no_lock_entry(project: Path) -> None:
    names = [f"k{i}" for i in range(4)]
    for name in names:
        (project / f"{name}.yaml").write_text(SPEC.replace("kernel: small", f"kernel: {name}"))
    command = [sys.executable, "-c", "from kgen.cli.main import main; main()", "render", "-o", "out", "-q"]
    running = [subprocess.Popen([*command, f"{name}.yaml"]) for name in names]
    assert [process.wait() for process in running] == [0] * len(names)
    locked = json.loads((project / "kgen.lock").read_text())["kernels"]
    assert {f"{name}_sm_80" for name in names} <= locked.keys()


def test_a_selection_leaves_shared_headers_whole(project: Path, kgen: Kgen) -> None:
    entry = "  - {arch: sm_80, as: other, tile: {m: 64, n: 32, k: 32}, warps: {m: 1, n: 1}, stages: 2}\n"
    (project / "small.yaml").write_text(SPEC + entry)
    kgen("render", "small.yaml", "-o", "out")
    whole = (project / "out" / "small.h").read_text()
    assert "other_check" in whole
    kgen("render", "small.yaml", "-o", "out", "--only", "small_sm_80")
    assert (project / "out" / "small.h").read_text() == whole


def test_a_header_says_what_differs_between_kernels(project: Path, kgen: Kgen) -> None:
    entry = "  - {arch: sm_80, as: other, inputs: {a: {dtype: f16, layout: km}, b: {dtype: f16}}}\n"
    (project / "small.yaml").write_text(SPEC + entry)
    kgen("render", "small.yaml", "-o", "out")
    text = (project / "out" / "small.h").read_text()
    assert " * small_sm_80:\n *   acc[m,n] = sum over k of a[m,k] * b[n,k]\n" in text
    assert " *   f16 a[k,m]\n" in text
    assert "const void *a; /* see above */" in text


def test_a_path_with_blanks_is_recognised_again(project: Path, kgen: Kgen) -> None:
    (project / "my specs").mkdir()
    (project / "small.yaml").rename(project / "my specs" / "small.yaml")
    kgen("render", "my specs", "-o", "out")
    assert "run: kgen render 'my specs/small.yaml'" in (project / "out" / "small_sm_80.cu").read_text()
    edited = project / "my specs" / "small.yaml"
    edited.write_text(edited.read_text().replace("stages: 2", "stages: 3"))
    kgen("update", "my specs")
    assert kgen("render", "my specs", "-o", "out").exit_code == 0


def test_files_of_a_deleted_spec_are_orphans(project: Path, kgen: Kgen) -> None:
    (project / "gone.yaml").write_text(SPEC.replace("kernel: small", "kernel: gone"))
    kgen("render", ".", "-o", "out")
    (project / "gone.yaml").unlink()
    drift = json.loads(kgen("check", ".", "-o", "out", "--json").stdout)["drift"]
    assert drift == dict.fromkeys(("gone.h", "gone_sm_80.cu", "gone_tpu_v5e.py"), "orphan")


def test_a_lock_entry_that_lacks_a_field_is_stale(project: Path, kgen: Kgen) -> None:
    kgen("render", "small.yaml", "-o", "out")
    data = json.loads((project / "kgen.lock").read_text())
    del data["kernels"]["small_sm_80"]["chosen"]["block_order.group"]
    (project / "kgen.lock").write_text(json.dumps(data))
    for command in ("render", "check"):
        result = kgen(command, "small.yaml", "-o", "out")
        assert result.exit_code == 1
        assert "small_sm_80: the lock does not say block_order.group" in result.stderr


def test_a_lock_outside_the_repository_is_not_the_projects(tmp_path: Path, kgen: Kgen) -> None:
    (tmp_path / "kgen.lock").write_text("not a lock")
    repository = tmp_path / "repository"
    (repository / ".git").mkdir(parents=True)
    (repository / "small.yaml").write_text(SPEC)
    result = kgen("render", str(repository / "small.yaml"), "-o", str(repository / "out"))
    assert result.exit_code == 0, result.stderr
    assert (repository / "kgen.lock").is_file()


def test_an_override_that_replaces_nothing_is_refused(project: Path, kgen: Kgen) -> None:
    (project / "templates" / "cdua").mkdir(parents=True)
    (project / "templates" / "cdua" / "x.jinja").write_text("")
    result = kgen("render", "small.yaml", "-o", "out", "--templates", "templates")
    assert result.exit_code == 2
    assert "these replace no shipped template: cdua/x.jinja" in result.stderr


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("<% macro fill(step) %>", "<% macro fill(step) %", "tile/mma.jinja"),
        ("${ step.value }", "${ step.valeu }", "mma.jinja:"),
    ],
)
def test_a_broken_template_is_located(project: Path, kgen: Kgen, old: str, new: str, words: str) -> None:
    folder = project / "templates" / "cuda" / "tile"
    folder.mkdir(parents=True)
    (folder / "mma.jinja").write_text((SHIPPED / "tile" / "mma.jinja").read_text().replace(old, new))
    result = kgen("render", "small.yaml", "-o", "out", "--templates", "templates")
    assert result.exit_code == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_an_output_folder_that_cannot_be_made_is_said(project: Path, kgen: Kgen) -> None:
    result = kgen("render", "small.yaml", "-o", "/proc/kgen-out")
    assert result.exit_code == 2
    assert "/proc/kgen-out" in result.stderr


def test_a_spec_that_is_no_file_and_a_name_that_cannot_be_printed(project: Path, kgen: Kgen) -> None:
    assert kgen("render", "/dev/zero").exit_code == 2
    (project / "x\ny.yaml").write_text(SPEC)
    result = kgen("render", "x\ny.yaml", "-o", "out")
    assert result.exit_code == 2
    assert "unprintable" in result.stderr
