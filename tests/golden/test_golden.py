"""Golden copies: one kernel for every arch there is, byte by byte. `make golden` rewrites them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgen.arch import TARGETS
from kgen.render.files import render
from tests.render.outputs import plans

KERNEL = "gemm_bias_gelu"
HERE = Path(__file__).parent
FILES = render(plan for plan in plans() if plan.header.spec == f"specs/{KERNEL}.yaml")


@pytest.mark.parametrize("name", sorted(FILES))
def test_files_are_as_recorded(name: str, rewrite_golden: bool) -> None:
    place = HERE / name
    if rewrite_golden:
        place.write_bytes(FILES[name].encode())
    assert place.read_bytes() == FILES[name].encode(), "after a deliberate change, run: make golden"


def test_every_arch_has_one_and_no_other_is_left() -> None:
    recorded = {path.name for path in HERE.iterdir() if path.name.startswith(KERNEL)}
    assert recorded == set(FILES)
    archs = {arch.replace("-", "_") for archs in TARGETS.values() for arch in archs}
    assert {Path(name).stem for name in FILES} == {KERNEL} | {f"{KERNEL}_{arch}" for arch in archs}
