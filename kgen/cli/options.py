"""Options that commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

SPECS = click.argument("specs", nargs=-1, required=True, type=click.Path())
ONLY = click.option(
    "--only", "only", multiple=True, metavar="NAME", help="Only this kernel, arch or target (repeatable)."
)


def _overrides(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    from kgen.render.environment import unknown_overrides

    if value is None:
        return None
    folder = Path(value).resolve()  # environments are kept by path
    if unknown := unknown_overrides(folder):
        raise click.BadParameter(f"these replace no shipped template: {', '.join(unknown)}")
    return str(folder)


TEMPLATES = click.option(
    "--templates",
    type=click.Path(exists=True, file_okay=False),
    callback=_overrides,
    help="Folder whose files replace shipped templates.",
)


def output(command: F) -> F:
    """`--json` and `--quiet`."""
    command = click.option("--quiet", "-q", is_flag=True, help="No output but errors.")(command)
    return click.option("--json", "as_json", is_flag=True, help="One JSON value on standard output.")(command)
