"""The shape the code has to keep: rooms import only downward, functions and modules stay short, all is annotated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median

import pytest

from benchmarks.shape import PACKAGE, ModuleShape, modules, room_of

ROOMS: Mapping[str, tuple[str, ...]] = {
    "expr": (),
    "arch": (),
    "transform": (),
    "schedule": (),
    "tile": ("expr",),
    "ops": ("tile", "expr"),
    "spec": ("ops", "arch"),
    "plan": ("expr", "arch", "tile", "ops", "spec", "transform", "schedule"),
    "render": ("plan",),
    "toolchain": ("arch",),
    "execute": ("toolchain",),
    "measure": ("execute", "plan"),
    "verify": ("execute", "render", "ops"),
    "cli": ("verify", "measure"),
}
"""Room -> the rooms right below it, as the design's table has them. A room may import these and all below them."""


def below(room: str) -> set[str]:
    """Every room that `room` may import."""
    return {room for direct in ROOMS[room] for room in (direct, *below(direct))}


def upward(module: ModuleShape) -> Iterator[str]:
    """Imports of a module that its room may not make."""
    allowed = {"", module.room, *below(module.room)}
    yield from (f"{module.path} imports {name}" for name in sorted(module.imports) if room_of(name) not in allowed)


SHAPES = modules()


def test_every_folder_is_a_room() -> None:
    found = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert found <= ROOMS.keys()


def test_rooms_import_only_downward() -> None:
    assert not [fault for module in SHAPES if module.room for fault in upward(module)]


def test_package_itself_imports_no_room() -> None:
    assert not [module.path for module in SHAPES if not module.room and any(map(room_of, module.imports))]


@pytest.mark.parametrize(
    "text",
    [
        "from kgen.plan import plan_kernel",
        "import kgen.plan.base",
        "from kgen import plan",
        "def lazy() -> None:\n    from kgen.cli.main import main",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from kgen.verify.record import Record",
        "from ..plan import base",
    ],
)
def test_control_upward_imports_are_found(tmp_path: Path, text: str) -> None:
    """Controls: each of these lines in a module of `expr` is caught, wherever it stands."""
    place = tmp_path / "kgen" / "expr"
    place.mkdir(parents=True)
    (place / "bad.py").write_text(text)
    (module,) = modules(tmp_path / "kgen")
    assert list(upward(module))


def test_functions_are_short() -> None:
    lengths = [function.lines for module in SHAPES for function in module.functions]
    over = [function.place for module in SHAPES for function in module.functions if function.lines > 40]
    assert median(lengths) <= 10
    assert len(over) <= 8, over
    assert max(lengths) <= 60, over


def test_modules_are_short() -> None:
    assert not [f"{module.path}: {module.lines} lines" for module in SHAPES if module.lines > 600]


def test_all_is_annotated() -> None:
    assert not [function.place for module in SHAPES for function in module.functions if not function.annotated]


def test_native_sources_are_short() -> None:
    sources = [path for path in PACKAGE.rglob("native/*") if path.is_file()]
    assert sources
    assert not [path.name for path in sources if len(path.read_text("utf-8").splitlines()) > 700]


def test_no_two_tests_are_one_module() -> None:
    """pytest names a test module by its file alone where the folder is no package: there, names must differ."""
    files = sorted((PACKAGE.parent / "tests").rglob("test_*.py"))
    names = [file.name for file in files if not (file.parent / "__init__.py").exists()]
    assert len(names) == len(set(names))
