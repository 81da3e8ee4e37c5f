"""`kgen update`: choose anew what specs leave out."""

from __future__ import annotations

import click

from kgen.cli.options import ONLY, SPECS, output
from kgen.cli.project import Output, Project


@click.command()
@SPECS
@ONLY
@output
def command(specs: tuple[str, ...], only: tuple[str, ...], as_json: bool, quiet: bool) -> None:
    """Choose anew what SPECS leave out, write kgen.lock, and say what changed."""
    out = Output(as_json, quiet)
    project = Project(specs, out, only)
    before = {name: dict(entry.chosen) for name, entry in project.lock.kernels.items()}
    planned = project.plan(anew=True)
    changed = project.relock(planned, anew=True)
    changes = {}
    for one in planned:
        chosen = {decision.field: decision.value for decision in one.plan.decisions}
        old = before.get(one.kernel.name, {})
        if chosen != old:
            changes[one.kernel.name] = {"before": old, "now": chosen}
            names = [name for name in chosen if old.get(name) != chosen[name]]
            words = ", ".join(f"{name} {old.get(name, '-')} -> {chosen[name]}" for name in names) or "fewer fields"
            out.say(f"{one.kernel.name}: {words}")
    out.note(f"{project.lock_path.name}: {'written' if changed else 'unchanged'}")
    out.result({"written": changed, "changes": changes})
