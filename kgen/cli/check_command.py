"""`kgen check`: are the files on disk what the specs make?"""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

import click

from kgen.cli.options import ONLY, SPECS, TEMPLATES, output
from kgen.cli.project import DRIFT, Output, Project
from kgen.render.files import render
from kgen.render.tree import State, Verdict, compare

_WORDS = {
    State.MISSING: "missing",
    State.STALE: "stale: made from an older spec, lock or template",
    State.EDITED: "edited by hand",
    State.FOREIGN: "not made by kgen",
    State.ORPHAN: "orphan: its spec no longer makes it, or is gone",
}


@click.command()
@SPECS
@click.option("-o", "--out", "folder", default="build", show_default=True, type=click.Path(file_okay=False))
@ONLY
@TEMPLATES
@output
def command(
    specs: tuple[str, ...], folder: str, only: tuple[str, ...], templates: str | None, as_json: bool, quiet: bool
) -> None:
    """Compare the files in a folder with what SPECS make; exit 1 on any drift, with a diff."""
    out = Output(as_json, quiet)
    project = Project(specs, out, only)
    planned = project.plan(choose=False)
    files = render([one.plan for one in planned], Path(templates) if templates else None, project.declared())
    verdicts = compare(Path(folder), files, project.specs if not only else frozenset(), project.root)
    drifted = [v for v in verdicts if v.state is not State.SAME]
    if drifted:
        project.note_templates(planned)
    for verdict in drifted:
        out.say(f"{folder}/{verdict.path}: {_WORDS[verdict.state]}")
        if lines := _diff(folder, verdict):
            out.say(lines)
    out.note(f"{len(files)} files, {len(drifted)} drifted")
    out.result({"folder": folder, "drift": {v.path: v.state.value for v in drifted}, "files": len(files)})
    sys.exit(DRIFT if drifted else 0)


def _diff(folder: str, verdict: Verdict) -> str:
    if verdict.state in (State.MISSING, State.ORPHAN):
        return ""
    name = f"{folder}/{verdict.path}"
    lines = difflib.unified_diff(
        verdict.actual.splitlines(), verdict.expected.splitlines(), name, f"{name} (expected)", lineterm=""
    )
    return "\n".join(lines)
