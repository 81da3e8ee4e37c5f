"""`kgen diff`: compare generated sources, layer by layer."""

from __future__ import annotations

from pathlib import Path

import click

from kgen.cli.options import TEMPLATES, output
from kgen.cli.project import BAD, Output, Planned, Project
from kgen.render.diff import diff
from kgen.render.files import render_source, source_path
from kgen.spec.diagnostic import Diagnostic


@click.command()
@click.argument("specs", nargs=-1, required=True, type=click.Path())
@click.option("--between", nargs=2, metavar="NAME NAME", help="Two kernels or archs of the specs.")
@click.option("--layer", type=click.IntRange(1, 4), help="Only this layer.")
@click.option("--stat", is_flag=True, help="Only count the lines that differ.")
@TEMPLATES
@output
def command(
    specs: tuple[str, ...], between: tuple[str, str] | None, layer: int | None, stat: bool, templates: str | None,
    as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    """Compare the sources of two kernels: of one spec (`--between sm_80 tpu-v6e`), or of two specs that make one each.

    Every generated file has the same four layers, so files of different targets line up.
    """
    out = Output(as_json, quiet)
    planned = Project(specs, out).plan()
    first, second = _pair(planned, between, out)
    overrides = Path(templates) if templates else None
    texts = [render_source(one.plan, overrides) for one in (first, second)]
    found = []
    for part in diff(texts[0], texts[1], source_path(first.plan), source_path(second.plan)):
        if layer is not None and not part.layer.startswith(str(layer)):
            continue
        found.append({"layer": part.layer, "added": part.added, "removed": part.removed, "lines": list(part.lines)})
        out.say(f"== {part.layer}: {part.removed} removed, {part.added} added")
        if not stat and part.lines:
            out.say("\n".join(part.lines))
    out.result(found)


def _pair(planned: list[Planned], between: tuple[str, str] | None, out: Output) -> tuple[Planned, Planned]:
    if between is None:
        if len(planned) != 2:
            words = f"the specs make {len(planned)} kernels"
            names = ", ".join(one.kernel.name for one in planned)
            out.fail([Diagnostic("diff", 0, 0, "pair", words, f"name two with --between; there are: {names}")], BAD)
        return planned[0], planned[1]
    return _one(planned, between[0], out), _one(planned, between[1], out)


def _one(planned: list[Planned], name: str, out: Output) -> Planned:
    found = [one for one in planned if name in (one.kernel.name, one.kernel.arch)]
    if len(found) != 1:
        names = ", ".join(one.kernel.name for one in found or planned)
        words = f"{name!r} is {len(found)} kernels"
        out.fail([Diagnostic("diff", 0, 0, "pair", words, f"allowed: {names}")], BAD)
    return found[0]
