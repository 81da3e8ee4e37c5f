"""Commands as a user meets them: what they write, what they say, and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kgen.cli.main import COMMANDS
from tests.cli.conftest import SPEC, Kgen

FILES = {"small.h", "small_sm_80.cu", "small_tpu_v5e.py"}
BAD_SPECS = sorted((Path(__file__).parents[1] / "bad_specs").glob("*.yaml"))


def test_render_writes_files_and_lock_once(project: Path, kgen: Kgen) -> None:
    assert kgen("render", "small.yaml", "-o", "out").exit_code == 0
    assert {path.name for path in (project / "out").iterdir()} == FILES
    assert (project / "kgen.lock").is_file()
    before = {path: path.stat().st_mtime_ns for path in (project / "out").iterdir()}
    again = kgen("render", "small.yaml", "-o", "out", "--json")
    assert json.loads(again.stdout)["written"] == []
    assert before == {path: path.stat().st_mtime_ns for path in (project / "out").iterdir()}


def test_check_passes_after_render(project: Path, kgen: Kgen) -> None:
    kgen("render", "small.yaml", "-o", "out")
    assert kgen("check", "small.yaml", "-o", "out").exit_code == 0


def test_check_without_a_lock_entry_is_drift(project: Path, kgen: Kgen) -> None:
    result = kgen("check", "small.yaml", "-o", "out")
    assert result.exit_code == 1
    assert "kgen.lock: stale: small_sm_80: the lock has no entry for it" in result.stderr
    assert not (project / "kgen.lock").exists()


def test_hand_edits_are_told_from_stale_output(project: Path, kgen: Kgen) -> None:
    kgen("render", "small.yaml", "-o", "out")
    edited = project / "out" / "small_sm_80.cu"
    edited.write_text(edited.read_text().replace("int lane =", "int  lane ="))
    result = kgen("check", "small.yaml", "-o", "out")
    assert result.exit_code == 1
    assert "out/small_sm_80.cu: edited by hand" in result.stdout
    assert "+++ out/small_sm_80.cu (expected)" in result.stdout
    refused = kgen("render", "small.yaml", "-o", "out")
    assert refused.exit_code == 1
    assert "out/small_sm_80.cu: edited: the file was edited by hand; nothing is written; " in refused.stderr
    assert kgen("render", "small.yaml", "-o", "out", "--force").exit_code == 0
    assert kgen("check", "small.yaml", "-o", "out").exit_code == 0


def test_a_changed_spec_makes_output_stale(project: Path, kgen: Kgen) -> None:
    kgen("render", "small.yaml", "-o", "out")
    (project / "small.yaml").write_text(SPEC.replace("dtype: f32, layout: mn", "dtype: bf16, layout: mn"))
    locked = kgen("check", "small.yaml", "-o", "out")
    assert locked.exit_code == 1
    assert "the spec of the kernel has changed since; run `kgen update small.yaml`" in locked.stderr
    assert kgen("update", "small.yaml").exit_code == 0
    result = kgen("check", "small.yaml", "-o", "out")
    assert result.exit_code == 1
    assert "out/small_sm_80.cu: stale" in result.stdout
    assert kgen("render", "small.yaml", "-o", "out").exit_code == 0


def test_orphans_and_foreign_files(project: Path, kgen: Kgen) -> None:
    kgen("render", "small.yaml", "-o", "out")
    (project / "out" / "small_tpu_v5e.py").rename(project / "out" / "small_tpu_old.py")
    (project / "out" / "mine.cu").write_text("// mine\n")
    result = kgen("check", "small.yaml", "-o", "out", "--json")
    assert json.loads(result.stdout)["drift"] == {"small_tpu_v5e.py": "missing", "small_tpu_old.py": "orphan"}
    (project / "out" / "small_tpu_v5e.py").write_text("# mine\n")
    refused = kgen("render", "small.yaml", "-o", "out")
    assert refused.exit_code == 1
    assert "the file was not made by kgen" in refused.stderr
    assert (project / "out" / "small_tpu_v5e.py").read_text() == "# mine\n"


def test_output_does_not_depend_on_the_working_folder(
    project: Path, kgen: Kgen, monkeypatch: pytest.MonkeyPatch
) -> None:
    kgen("render", "small.yaml", "-o", "out")
    (project / "sub").mkdir()
    monkeypatch.chdir(project / "sub")
    kgen("render", "../small.yaml", "-o", "elsewhere")
    for name in FILES:
        assert (project / "out" / name).read_bytes() == (project / "sub" / "elsewhere" / name).read_bytes()


def test_names_of_two_specs_collide(project: Path, kgen: Kgen) -> None:
    (project / "twin.yaml").write_text(SPEC)
    result = kgen("render", "small.yaml", "twin.yaml", "-o", "out")
    assert result.exit_code == 2
    assert "as:" in result.stderr
    assert not (project / "out").exists()


@pytest.mark.parametrize("arguments", [("none.yaml",), (".hidden",), ("empty",)])
def test_an_empty_selection_is_an_error(project: Path, kgen: Kgen, arguments: tuple[str, ...]) -> None:
    (project / "empty").mkdir()
    for command in ("render", "check", "explain", "verify", "update", "list"):
        assert kgen(command, *arguments).exit_code == 2


def test_only_selects_or_fails(project: Path, kgen: Kgen) -> None:
    assert kgen("render", "small.yaml", "-o", "out", "--only", "sm_80").exit_code == 0
    assert {path.name for path in (project / "out").iterdir()} == {"small.h", "small_sm_80.cu"}
    result = kgen("render", "small.yaml", "-o", "out", "--only", "sm_90")
    assert result.exit_code == 2
    assert "no kernel, arch or target 'sm_90'" in result.stderr


def test_update_chooses_anew_and_says_what_changed(project: Path, kgen: Kgen) -> None:
    kgen("render", "small.yaml", "-o", "out")
    lock = project / "kgen.lock"
    data = json.loads(lock.read_text())
    assert data["kernels"]["small_sm_80"]["chosen"] == {"block_order.group": 8, "block_order.kind": "grouped"}
    data["kernels"]["small_sm_80"]["chosen"]["block_order.group"] = 4
    lock.write_text(json.dumps(data))
    assert kgen("check", "small.yaml", "-o", "out").exit_code == 1  # the lock is obeyed: the output would be another
    result = kgen("update", "small.yaml")
    assert "block_order.group 4 -> 8" in result.stdout
    assert kgen("check", "small.yaml", "-o", "out").exit_code == 0


def test_a_broken_lock_is_located(project: Path, kgen: Kgen) -> None:
    (project / "kgen.lock").write_text('{"lock": 1,\n oops}')
    result = kgen("render", "small.yaml", "-o", "out")
    assert result.exit_code == 2
    assert result.stderr.startswith("kgen.lock:2:")


def test_diff_shows_layers(project: Path, kgen: Kgen) -> None:
    result = kgen("diff", "small.yaml", "--json")
    layers = [part["layer"] for part in json.loads(result.stdout)]
    assert layers == ["header", "1. tile operators", "2. kernel", "3. instantiation", "4. client API"]
    one = kgen("diff", "small.yaml", "--between", "sm_80", "tpu-v5e", "--layer", "2", "--stat")
    assert one.stdout.startswith("== 2. kernel:")
    assert kgen("diff", "small.yaml", "--between", "sm_80", "sm_81").exit_code == 2


def test_a_tile_changes_the_instantiation_only(project: Path, kgen: Kgen) -> None:
    (project / "small.yaml").write_text(
        SPEC.replace("  - {arch: tpu-v5e, tile: {m: 128, n: 128, k: 128}}\n", "sweep: {targets.0.tile.m: [32, 64]}\n")
    )
    parts = json.loads(kgen("diff", "small.yaml", "--json").stdout)
    changed = {part["layer"] for part in parts if part["lines"]}
    assert "3. instantiation" in changed
    assert not changed & {"1. tile operators", "2. kernel"}


def test_explain_lists_decisions_and_what_they_beat(project: Path, kgen: Kgen) -> None:
    given = ", tile: {m: 32, n: 32, k: 32}, warps: {m: 1, n: 1}, stages: 2"
    (project / "small.yaml").write_text(SPEC.replace(given, ""))
    data = json.loads(kgen("explain", "small.yaml", "--only", "sm_80", "--json").stdout)[0]
    chosen = {decision["field"]: decision["value"] for decision in data["decisions"]}
    assert {"tile.m", "tile.n", "tile.k", "warps.m", "warps.n", "stages", "block_order.group"} <= chosen.keys()
    times = [alternative["microseconds"] for alternative in data["alternatives"]]
    assert times == sorted(times)
    assert data["steps"][0] == "acc = fill(0)"


def test_lists(project: Path, kgen: Kgen) -> None:
    assert "cuda  sm_80" in kgen("list", "archs").stdout
    assert kgen("list", "ops").stdout.startswith("gemm  ")
    names = [row["kernel"] for row in json.loads(kgen("list", "small.yaml", "--json").stdout)]
    assert names == ["small_sm_80", "small_tpu_v5e"]


def test_schema_is_json(kgen: Kgen) -> None:
    assert json.loads(kgen("schema").stdout)["title"] == "kgen spec"


def test_help_names_every_command(kgen: Kgen) -> None:
    text = kgen("--help").stdout
    assert all(f"  {name} " in text for name in COMMANDS)
    for name in COMMANDS:
        assert kgen(name, "--help").exit_code == 0


def test_a_misspelt_command_gets_a_suggestion(kgen: Kgen) -> None:
    result = kgen("rendr")
    assert result.exit_code == 2
    assert "Did you mean render?" in result.stderr


def test_quiet_says_nothing(project: Path, kgen: Kgen) -> None:
    assert kgen("render", "small.yaml", "-o", "out", "--quiet").output == ""


@pytest.mark.parametrize("path", BAD_SPECS, ids=lambda path: path.stem)
def test_every_bad_spec_exits_with_2(path: Path, kgen: Kgen, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    result = kgen("render", str(copy), "-o", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert result.stderr.startswith(path.name)
    assert not (tmp_path / "out").exists()


def test_errors_as_json(project: Path, kgen: Kgen) -> None:
    (project / "small.yaml").write_text(SPEC.replace("bf16, layout: mk", "bf61, layout: mk"))
    errors = json.loads(kgen("check", "small.yaml", "--json").stdout)["errors"]
    assert [(error["line"], error["clause"]) for error in errors] == [(5, "unknown-dtype")]


def test_templates_can_be_replaced_file_by_file(project: Path, kgen: Kgen) -> None:
    folder = project / "templates" / "cuda" / "tile"
    folder.mkdir(parents=True)
    shipped = Path(__file__).parents[2] / "templates" / "cuda" / "tile" / "mma.jinja"
    (folder / "mma.jinja").write_text(shipped.read_text().replace("// acc += a b", "// ours: acc += a b"))
    kgen("render", "small.yaml", "-o", "out", "--templates", "templates")
    assert "// ours: acc += a b" in (project / "out" / "small_sm_80.cu").read_text()
