"""Selections are never silently smaller, and the project root is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgen.spec.load import load
from kgen.spec.project import find_root, find_specs, project_header, relative
from tests.spec.good_spec import GOOD


def files(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(GOOD)


def test_folders_give_all_their_specs_in_order(tmp_path: Path) -> None:
    files(tmp_path, "b.yaml", "a/z.yaml", "a/deep/x.yaml", ".hidden/h.yaml", "note.txt")
    found = find_specs([tmp_path, tmp_path / "b.yaml"], tmp_path)
    assert [relative(file, tmp_path) for file in found.files] == ["a/deep/x.yaml", "a/z.yaml", "b.yaml"]
    assert found.diagnostics == ()


def test_nothing_found_and_nothing_there_are_errors(tmp_path: Path) -> None:
    files(tmp_path, "full/a.yaml", "other/a.yml")
    (tmp_path / "empty").mkdir()
    paths = [tmp_path / name for name in ("full", "empty", "other", "none.yaml")]
    found = find_specs(paths, tmp_path)
    assert len(found.files) == 1
    assert [str(line) for line in found.diagnostics] == [
        "empty: no-specs: no *.yaml file in the folder; give a folder with *.yaml files",
        "other: no-specs: no *.yaml file in the folder; name the file",
        "none.yaml: no-such-file: there is no such file or folder",
    ]


def test_a_file_given_twice_counts_once(tmp_path: Path) -> None:
    files(tmp_path, "a.yaml")
    (tmp_path / "link.yaml").symlink_to(tmp_path / "a.yaml")
    found = find_specs([tmp_path / "a.yaml", tmp_path / "." / "a.yaml", tmp_path / "link.yaml"], tmp_path)
    assert found.files == (tmp_path / "a.yaml",)


def test_the_root_is_where_the_lock_is_else_the_project_else_the_folder(tmp_path: Path) -> None:
    files(tmp_path, "p/sub/specs/a.yaml")
    spec = tmp_path / "p/sub/specs/a.yaml"
    (tmp_path / "p/sub/pyproject.toml").touch()
    assert find_root(spec) == tmp_path / "p/sub"
    (tmp_path / "p/kgen.lock").touch()
    assert find_root(spec) == tmp_path / "p"
    assert load(spec, tmp_path / "p").documents[0].file == "sub/specs/a.yaml"


def test_the_projects_licence_serves_specs_without_one(tmp_path: Path) -> None:
    files(tmp_path, "a.yaml")
    (tmp_path / "b.yaml").write_text(GOOD + "header: [own]\n")
    (tmp_path / "pyproject.toml").write_text('[tool.kgen]\nheader = ["SPDX-License-Identifier: MIT"]\n')
    headers = [load(tmp_path / name, tmp_path).documents[0].header for name in ("a.yaml", "b.yaml")]
    assert headers == [("SPDX-License-Identifier: MIT",), ("own",)]
    assert project_header(tmp_path / "nowhere") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool", "pyproject.toml: unreadable: "),
        ("[tool.kgen]\nheader = 'x'", "pyproject.toml: type: tool.kgen.header is no list of strings"),
        ("[tool.kgen]\nheader = ['*/ int x;']", "pyproject.toml: header: tool.kgen.header: a line with */"),
        ("[tool.kgen]\nheader = ['\u00e9']", "pyproject.toml: header: tool.kgen.header: a line holds a character"),
    ],
)
def test_a_wrong_project_setting_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    files(tmp_path, "a.yaml")
    (tmp_path / "pyproject.toml").write_text(text, "utf-8")
    (line,) = load(tmp_path / "a.yaml", tmp_path).diagnostics
    assert str(line).startswith(message)
