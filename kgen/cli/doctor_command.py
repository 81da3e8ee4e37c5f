"""`kgen doctor`: which tools are here, and what is missing."""

from __future__ import annotations

import platform
from collections.abc import Iterator

import click

from kgen import __version__
from kgen.cli.options import output
from kgen.cli.project import Output
from kgen.toolchain import cache, cc, jax_env, nvcc


@click.command()
@output
def command(as_json: bool, quiet: bool) -> None:
    """Say which tools were found, in which versions, and what each missing one is needed for."""
    out = Output(as_json, quiet)
    rows = list(_rows())
    for row in rows:
        out.say(f"{row['tool']:12} {row['found'] or 'missing':40} {row['needed for']}")
        if row["fix"]:
            out.say(f"{'':12} {row['fix']}")
    out.result(rows)


def _rows() -> Iterator[dict[str, str]]:
    yield _row("kgen", __version__, "everything")
    yield _row("python", platform.python_version(), "everything")
    yield _row("cache", str(cache.root()), "tool results; may be deleted")
    yield _compiler()
    found = nvcc.find()
    if isinstance(found, nvcc.ToolMissing):
        yield _row("nvcc", "", "verify cuda: compile, execute", found.fix)
    else:
        yield _row("nvcc", f"{found.version} ({found.path})", "verify cuda: compile, execute")
        yield _row("nvdisasm", found.nvdisasm or "", "verify cuda: counting HMMA", "pip install 'kgen[cuda]'")
    yield _packages("jax", jax_env.interpreter_versions(), "verify pallas: execute")
    yield _packages("libtpu", jax_env.compiler_versions(), "verify pallas: compile")


def _compiler() -> dict[str, str]:
    try:
        return _row("cc", cc.compiler().version, "verify cuda: execute")
    except cc.CompilerError as error:
        return _row("cc", "", "verify cuda: execute", str(error))


def _packages(tool: str, found: object, needed: str) -> dict[str, str]:
    if isinstance(found, jax_env.MissingTool):
        return _row(tool, "", needed, found.message)
    assert isinstance(found, dict)
    return _row(tool, ", ".join(f"{name} {version}" for name, version in found.items()), needed)


def _row(tool: str, found: str, needed: str, fix: str = "") -> dict[str, str]:
    return {"tool": tool, "found": found, "needed for": needed, "fix": "" if found else fix}
