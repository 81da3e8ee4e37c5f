"""`kgen verify` end to end on small kernels, and what it says when something is wrong or missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kgen.execute.gpu.ptx import library
from kgen.toolchain import nvcc
from kgen.toolchain.cc import CompilerError
from tests.cli.conftest import Kgen


def _statuses(text: str) -> dict[str, str]:
    return {rung["name"]: rung["status"] for rung in json.loads(text)[0]["rungs"]}


def test_a_cuda_kernel_climbs_the_ladder(project: Path, kgen: Kgen) -> None:
    arguments = ("verify", "small.yaml", "--only", "sm_80", "--require", "compile,execute,hazards", "--json")
    result = kgen(*arguments, "--records", "records")
    assert result.exit_code == 0, result.stdout
    assert _statuses(result.stdout) == {
        "compile": "passed", "execute": "passed", "hazards": "passed", "device": "not run",
    }  # fmt: skip
    record = json.loads((project / "records" / "small_sm_80.json").read_text())
    assert len(record["rungs"][1]["shapes"]) >= 10
    assert kgen(*arguments, "--records", "again").exit_code == 0
    again = (project / "again" / "small_sm_80.json").read_bytes()
    assert again == (project / "records" / "small_sm_80.json").read_bytes()


@pytest.mark.verify_all
def test_a_tpu_kernel_climbs_the_ladder(project: Path, kgen: Kgen) -> None:
    result = kgen("verify", "small.yaml", "--only", "tpu-v5e", "--require", "compile,execute,hazards", "--json")
    assert result.exit_code == 0, result.stdout


def test_an_edited_copy_is_verified_as_it_is(project: Path, kgen: Kgen) -> None:
    kgen("render", "small.yaml", "-o", "out")
    edited = project / "edited.cu"
    text = (project / "out" / "small_sm_80.cu").read_text()
    assert "c_value[e] = acc_tile[e];" in text
    edited.write_text(text.replace("c_value[e] = acc_tile[e];", "c_value[e] = acc_tile[e] * 1.01f;"))
    result = kgen("verify", "small.yaml", "--only", "sm_80", "--source", str(edited))
    assert result.exit_code == 1
    assert "c: " in result.stdout
    assert "elements are wrong; worst: c[" in result.stdout


def test_a_source_that_does_not_compile_fails_at_the_first_rung(project: Path, kgen: Kgen) -> None:
    (project / "edited.cu").write_text("int broken(\n")
    result = kgen("verify", "small.yaml", "--only", "sm_80", "--source", "edited.cu", "--json")
    assert result.exit_code == 1
    assert _statuses(result.stdout)["compile"] == "failed"
    assert _statuses(result.stdout)["execute"] == "not run"


def test_source_wants_one_kernel(project: Path, kgen: Kgen) -> None:
    (project / "edited.cu").write_text("")
    assert kgen("verify", "small.yaml", "--source", "edited.cu").exit_code == 2


def test_a_missing_tool_is_said_and_fails_only_where_required(
    project: Path, kgen: Kgen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvcc, "find", lambda: nvcc.ToolMissing("nvcc", "install it"))
    result = kgen("verify", "small.yaml", "--only", "sm_80")
    assert result.exit_code == 1
    assert "compile  not run : no nvcc: install it" in result.stdout
    assert "nothing was verified of small_sm_80" in result.stderr
    required = kgen("verify", "small.yaml", "--only", "sm_80", "--require", "compile")
    assert required.exit_code == 1
    assert "compile was required and did not run" in required.stderr


def test_a_missing_c_compiler_is_said(project: Path, kgen: Kgen, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Path:
        raise CompilerError("no C compiler: install one\nand more words")

    monkeypatch.setattr(library, "engine_path", missing)
    monkeypatch.setattr(nvcc, "find", lambda: nvcc.Nvcc("nvcc", "13.0", None))
    result = kgen("verify", "small.yaml", "--only", "sm_80", "--json")
    rungs = json.loads(result.stdout)[0]["rungs"]
    assert [(rung["status"], rung["detail"]) for rung in rungs[:3]] == [("not run", "no C compiler: install one")] * 3


def test_an_unknown_rung_is_a_usage_error(project: Path, kgen: Kgen) -> None:
    result = kgen("verify", "small.yaml", "--require", "compiel")
    assert result.exit_code == 2
    assert "did you mean compile?" in result.stderr


def test_doctor_names_tools_and_needs(kgen: Kgen) -> None:
    rows = {row["tool"]: row for row in json.loads(kgen("doctor", "--json").stdout)}
    assert rows["nvcc"]["needed for"] == "verify cuda: compile, execute"
    assert rows["kgen"]["found"]
