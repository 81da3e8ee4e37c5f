"""Jinja environments: one per target, templates from files, compiled once, undefined names are errors.

Delimiters are `<% %>`, `${ }` and `<# #>`: Jinja's own collide with C++ and inline PTX (`{%0, %1}`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


def template_root() -> Path:
    """The shipped templates: beside the package in a source tree, inside it in a wheel."""
    inside = Path(__file__).resolve().parents[1] / "templates"
    return inside if inside.is_dir() else inside.parents[1] / "templates"


@lru_cache(maxsize=16)
def environment(target: str, overrides: Path | None = None) -> Environment:
    """The environment of `target`; files under `overrides`/`target` replace shipped ones by name."""
    from jinja2 import ChoiceLoader, Environment, FileSystemLoader, StrictUndefined

    folders = [*([overrides / target] if overrides else []), template_root() / target]
    made = Environment(
        loader=ChoiceLoader([FileSystemLoader(folder) for folder in folders]),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
        cache_size=-1,
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="${",
        variable_end_string="}",
        comment_start_string="<#",
        comment_end_string="#>",
    )
    made.globals["emit"] = _emitter(made)
    return made


def _emitter(made: Environment) -> Callable[[str, object], str]:
    """`emit("family.macro", view)` prints `view` with the macro that the plan names, from tile/<family>.jinja."""
    modules: dict[str, object] = {}

    def emit(name: str, view: object) -> str:
        family, macro = name.split(".")
        module = modules.get(family)
        if module is None:
            module = modules[family] = made.get_template(f"tile/{family}.jinja").module
        return str(getattr(module, macro)(view)).strip("\n")

    return emit


def tidy(text: str, blank_lines: int) -> str:
    """`text` without trailing blanks, with at most `blank_lines` empty lines in a row and none at either end."""
    lines: list[str] = []
    blank = blank_lines
    for line in text.splitlines():
        stripped = line.rstrip()
        blank = 0 if stripped else blank + 1
        if blank <= blank_lines:
            lines.append(stripped)
    return "\n".join(lines).rstrip("\n") + "\n"


def unknown_overrides(overrides: Path) -> list[str]:
    """Files under `overrides` that replace no shipped template, relative to it."""
    found = (path.relative_to(overrides) for path in sorted(overrides.rglob("*")) if path.is_file())
    return [path.as_posix() for path in found if not (template_root() / path).is_file()]


@lru_cache(maxsize=16)
def template_digest(target: str) -> str:
    """Digest of the shipped templates of `target`: names and texts, in order of name."""
    digest = hashlib.sha256()
    root = template_root() / target
    for path in sorted(root.rglob("*.jinja")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
