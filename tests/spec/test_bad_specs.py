"""Every wrong spec gives exactly the messages recorded beside it. See tests/bad_specs/README.md for rewriting them."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from kgen.spec.document import Document
from kgen.spec.load import load

ROOT = Path(__file__).parents[1] / "bad_specs"
SPECS = sorted(ROOT.glob("*.yaml"))


def found(spec: Path) -> list[str]:
    """All messages of a spec: of loading it, and where that is well, of planning its kernels."""
    result = load(spec, ROOT)
    diagnostics = list(result.diagnostics)
    for document in result.documents:
        diagnostics += _planned(document)
    return [str(diagnostic) for diagnostic in diagnostics]


def _planned(document: Document) -> list[object]:
    plan_kernel = importlib.import_module("kgen.plan").plan_kernel
    diagnostics: list[object] = []
    for kernel in document.kernels():
        plan = plan_kernel(kernel)
        if isinstance(plan, tuple):
            diagnostics += document.diagnose(plan, kernel)
    return diagnostics


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_messages(spec: Path, rewrite_golden: bool) -> None:
    text = "".join(f"{line}\n" for line in found(spec))
    expected = spec.with_suffix(".txt")
    if rewrite_golden:
        expected.write_text(text, "utf-8")
    assert text, "the spec is not wrong"
    assert text == expected.read_text("utf-8")


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_every_message_has_a_place_a_clause_and_a_text(spec: Path) -> None:
    lines = spec.read_bytes().count(b"\n") + 1
    for message in found(spec):
        shape = re.fullmatch(r"(.+\.yaml):(\d+):(\d+): [a-z0-9-]+: \S.+", message)
        assert shape, message
        assert shape[1] == spec.name
        assert 1 <= int(shape[2]) <= lines
        assert int(shape[3]) >= 1


def test_there_are_enough_and_none_is_left_over() -> None:
    assert len(SPECS) >= 50
    assert {text.stem for text in ROOT.glob("*.txt")} == {spec.stem for spec in SPECS}
    numbers = [spec.name[:2] for spec in SPECS]
    assert numbers == sorted(set(numbers)), "one number each"
