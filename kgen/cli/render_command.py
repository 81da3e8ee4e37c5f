"""`kgen render`: write the source files that specs make."""

from __future__ import annotations

from pathlib import Path

import click

from kgen.cli.options import ONLY, SPECS, TEMPLATES, output
from kgen.cli.project import DRIFT, Output, Project
from kgen.render.files import render
from kgen.render.tree import State, compare, write
from kgen.spec.diagnostic import Diagnostic


@click.command()
@SPECS
@click.option("-o", "--out", "folder", default="build", show_default=True, type=click.Path(file_okay=False))
@click.option("--force", is_flag=True, help="Also replace files that were edited by hand or not made by kgen.")
@ONLY
@TEMPLATES
@output
def command(
    specs: tuple[str, ...], folder: str, force: bool, only: tuple[str, ...], templates: str | None,
    as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    """Write the source files that SPECS (files or folders) make.

    What a spec leaves out is chosen once and recorded in kgen.lock. Only files that change are written.
    """
    out = Output(as_json, quiet)
    project = Project(specs, out, only)
    planned = project.plan()
    files = render([one.plan for one in planned], Path(templates) if templates else None, project.declared())
    verdicts = compare(Path(folder), files, project.specs, project.root)
    refused = [v for v in verdicts if v.state in (State.EDITED, State.FOREIGN)]
    if refused and not force:
        out.fail((_refusal(folder, v.path, v.state) for v in refused), DRIFT)
    written = write(Path(folder), verdicts)
    if project.relock(planned):
        out.note(f"{project.lock_path.name}: recorded what the specs leave out")
    for path in written:
        out.say(f"{folder}/{path}")
    out.note(f"{len(files)} files, {len(written)} written")
    out.result({"folder": folder, "files": sorted(files), "written": written})


def _refusal(folder: str, path: str, state: State) -> Diagnostic:
    words = "was edited by hand" if state is State.EDITED else "was not made by kgen"
    fix = "keep a copy of it elsewhere, or replace it with --force"
    return Diagnostic(f"{folder}/{path}", 0, 0, state.value, f"the file {words}; nothing is written", fix)
