"""Folders of generated files: verdicts, and writing that touches only what differs."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kgen.render.files import body_digest, body_of
from kgen.render.tree import State, Verdict, compare, read_marks, write
from tests.render.outputs import outputs

ROOT = Path(__file__).parents[2]
SPEC = "specs/gemm_sweep.yaml"
FILES = {name: text for name, text in outputs().items() if name.startswith("gemm_sweep")}
ONE = "gemm_sweep_sm_80_s2.cu"


def states(folder: Path, files: dict[str, str] = FILES, specs: frozenset[str] = frozenset({SPEC})) -> dict[str, State]:
    return {verdict.path: verdict.state for verdict in compare(folder, files, specs, ROOT)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as `kgen render` leaves it."""
    write(tmp_path, compare(tmp_path, FILES, frozenset({SPEC}), ROOT))
    return tmp_path


def stale(text: str) -> str:
    """The text as an older kgen wrote it: another body under its own digest."""
    body = body_of(text)
    old = body.replace("tiles", "squares")
    return text.replace(body, old).replace(body_digest(body), body_digest(old))


def test_nothing_is_there_yet(tmp_path: Path) -> None:
    assert states(tmp_path / "none") == dict.fromkeys(sorted(FILES), State.MISSING)


def test_all_is_as_it_should_be(folder: Path) -> None:
    assert states(folder) == dict.fromkeys(sorted(FILES), State.SAME)
    assert all((folder / name).read_bytes() == text.encode() for name, text in FILES.items())


def test_each_state(folder: Path) -> None:
    place = folder / ONE
    for text, state in (
        (stale(FILES[ONE]), State.STALE),
        (FILES[ONE].replace("tiles", "squares"), State.EDITED),
        (FILES[ONE].replace(", body ", ", bodice "), State.EDITED),
        (FILES[ONE].replace("@generated", "written"), State.FOREIGN),
        ("", State.FOREIGN),
        ("int main() {}\n", State.FOREIGN),
    ):
        place.write_text(text)
        assert states(folder)[ONE] is state
    place.write_bytes(b"\xff\xfe\x00")
    assert states(folder)[ONE] is State.FOREIGN
    place.unlink()
    assert states(folder)[ONE] is State.MISSING


@pytest.mark.parametrize("ending", ["\r\n", "\n\n"])
def test_other_line_ends_are_an_edit(ending: str, folder: Path) -> None:
    (folder / ONE).write_bytes(FILES[ONE].replace("\n", ending).encode())
    assert states(folder)[ONE] is not State.SAME


def test_orphans_are_files_that_these_specs_no_longer_make(folder: Path) -> None:
    left = {name: text for name, text in FILES.items() if name != ONE}
    assert states(folder, left)[ONE] is State.ORPHAN
    assert ONE not in states(folder, left, frozenset({"specs/other.yaml"}))
    (folder / "notes.cu").write_text("// mine\n")
    (folder / "sub.cu").mkdir()
    assert set(states(folder)) == set(FILES)


def test_a_file_whose_spec_is_gone_is_an_orphan(folder: Path, tmp_path: Path) -> None:
    left = {name: text for name, text in FILES.items() if name != ONE}
    (verdict,) = (v for v in compare(folder, left, frozenset(), tmp_path / "project") if v.state is State.ORPHAN)
    assert verdict.path == ONE


def test_orphans_in_folders_below_are_found(folder: Path) -> None:
    (folder / "old").mkdir()
    (folder / "old" / ONE).write_text(FILES[ONE])
    assert states(folder)[f"old/{ONE}"] is State.ORPHAN


def test_orphans_are_never_written_over_or_removed(folder: Path) -> None:
    left = {name: text for name, text in FILES.items() if name != ONE}
    assert write(folder, compare(folder, left, frozenset({SPEC}), ROOT)) == []
    assert (folder / ONE).read_text() == FILES[ONE]


def test_only_what_differs_is_written(folder: Path) -> None:
    for name in FILES:
        os.utime(folder / name, ns=(1, 1))
    (folder / ONE).write_text("other")
    assert write(folder, compare(folder, FILES, frozenset({SPEC}), ROOT)) == [ONE]
    assert {name for name in FILES if (folder / name).stat().st_mtime_ns != 1} == {ONE}
    assert states(folder)[ONE] is State.SAME


def test_files_are_readable_by_all_and_lf_on_any_system(folder: Path) -> None:
    for name in FILES:
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o644
        assert b"\r" not in (folder / name).read_bytes()


def test_an_interrupted_write_leaves_the_old_file_and_no_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / ONE).write_text("old")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(folder, compare(folder, FILES, frozenset({SPEC}), ROOT))
    assert (folder / ONE).read_text() == "old"
    assert {path.name for path in folder.iterdir()} == set(FILES)


def test_verdicts_carry_both_texts(folder: Path) -> None:
    (folder / ONE).write_text("other")
    (verdict,) = (v for v in compare(folder, FILES, frozenset(), ROOT) if v.path == ONE)
    assert verdict == Verdict(ONE, State.FOREIGN, "other", FILES[ONE])


def test_marks_of_every_generated_file() -> None:
    for name, text in outputs().items():
        marks = read_marks(text)
        assert marks is not None, name
        assert marks.intact, name
        assert (Path(__file__).parents[2] / marks.spec).is_file(), name
    assert read_marks("# @generated by someone else\n") is None
