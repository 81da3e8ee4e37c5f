"""Where a project is, which specs a selection means, and what the project says for all of them."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kgen.spec.diagnostic import Diagnostic

LOCK = "kgen.lock"
_MARKS = ("pyproject.toml", ".git")


def find_root(start: Path) -> Path:
    """The project that a spec or folder is in: the nearest folder above with a lock, else with pyproject.toml or .git.

    Without any, the folder itself. The result is absolute.
    """
    folder = start.absolute()
    folder = folder if folder.is_dir() else folder.parent
    above = _within_repository((folder, *folder.parents))
    locked = next((place for place in above if (place / LOCK).is_file()), None)
    marked = next((place for place in above if any((place / mark).exists() for mark in _MARKS)), None)
    return locked or marked or folder


def _within_repository(above: tuple[Path, ...]) -> tuple[Path, ...]:
    """Up to the root of the repository, where there is one: nothing outside it is the project's."""
    for index, place in enumerate(above):
        if (place / ".git").exists():
            return above[: index + 1]
    return above


def relative(path: Path, root: Path) -> str:
    """A path as messages and generated files show it: from the project root, with forward slashes."""
    return Path(os.path.relpath(path.absolute(), root.absolute())).as_posix()


@dataclass(frozen=True)
class Selection:
    """The spec files a command was given, and what was wrong with the request."""

    files: tuple[Path, ...]
    diagnostics: tuple[Diagnostic, ...]


def find_specs(paths: Sequence[Path], root: Path) -> Selection:
    """Files as given and, for a folder, every *.yaml below it in order of name; hidden folders are passed over.

    A path that is not there and a folder without specs are errors: a selection is never silently smaller.
    """
    files: dict[Path, None] = {}
    diagnostics: list[Diagnostic] = []
    for path in paths:
        name = relative(path, root)
        if path.is_dir():
            found = _below(path)
            if not found:
                fix = "name the file" if any(path.rglob("*.yml")) else "give a folder with *.yaml files"
                diagnostics.append(Diagnostic(name, 0, 0, "no-specs", "no *.yaml file in the folder", fix))
            files.update(dict.fromkeys(found))
        elif path.exists():
            files[path] = None
        else:
            diagnostics.append(Diagnostic(name, 0, 0, "no-such-file", "there is no such file or folder"))
    unique = {file.resolve(): file for file in reversed(files)}
    return Selection(tuple(file for file in files if unique[file.resolve()] is file), tuple(diagnostics))


def _below(folder: Path) -> list[Path]:
    found = (path for path in folder.rglob("*.yaml") if path.is_file())
    shown = (path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts))
    return sorted(shown, key=lambda path: path.relative_to(folder).parts)


def project_header(root: Path) -> tuple[str, ...] | Diagnostic:
    """Licence lines for every generated file: `header` of `[tool.kgen]` in pyproject.toml, or none."""
    name = "pyproject.toml"
    try:
        settings = tomllib.loads((root / name).read_text("utf-8"))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        return Diagnostic(name, 0, 0, "unreadable", str(error).replace(str(root), "."))
    tool = settings.get("tool")
    own = tool.get("kgen") if isinstance(tool, dict) else None
    lines = own.get("header", []) if isinstance(own, dict) else []
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        return Diagnostic(name, 0, 0, "type", "tool.kgen.header is no list of strings", "expected: a list of strings")
    fault = next(filter(None, map(header_fault, lines)), "")
    return Diagnostic(name, 0, 0, "header", f"tool.kgen.header: {fault}") if fault else tuple(lines)


def header_fault(line: str) -> str:
    """Why a line cannot stand in the comment at the top of a generated file; empty where it can."""
    if "*/" in line or '"""' in line or line.endswith("\\"):
        return 'a line with */ or """ or a backslash at its end would end or continue the comment'
    if not line.isascii() or (line and not line.isprintable()):
        return "a line holds a character that is not printable ASCII"
    return ""
