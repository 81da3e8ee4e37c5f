"""`kgen explain`: what was decided for a kernel, and what it beat."""

from __future__ import annotations

from dataclasses import asdict

import click

from kgen.cli.options import ONLY, SPECS, output
from kgen.cli.project import Output, Planned, Project


@click.command()
@SPECS
@ONLY
@output
def command(specs: tuple[str, ...], only: tuple[str, ...], as_json: bool, quiet: bool) -> None:
    """Say what was decided for each kernel of SPECS where the spec is silent, by which estimate, and what it beat."""
    out = Output(as_json, quiet)
    project = Project(specs, out, only)
    locked = project.plan()
    fresh = {one.kernel.name: one for one in project.plan(anew=True)}
    for one in locked:
        _say(out, one, fresh[one.kernel.name], one.kernel.name in project.lock.kernels)
    out.result([_as_data(fresh[one.kernel.name], one) for one in locked])


def _say(out: Output, one: Planned, fresh: Planned, locked: bool) -> None:
    header = one.plan.header
    out.say(f"{header.kernel}: {header.arch}, schedule {header.schedule}, digest {header.kernel_digest}")
    if not fresh.plan.decisions:
        out.say("  the spec gives every field")
    for decision in fresh.plan.decisions:
        out.say(f"  {decision.field} = {decision.value}: {decision.reason}")
    if locked:
        out.say("  (as recorded in kgen.lock; `kgen update` chooses anew)")
    out.say("  candidates by estimated time (an analytic model; nothing was measured), m = n = k = 4096:")
    for index, alternative in enumerate(fresh.plan.alternatives):
        fields = ", ".join(f"{name} {value}" for name, value in alternative.fields)
        out.say(f"  {index + 1}. {alternative.microseconds:9.1f} us, bound by {alternative.bound_by}: {fields}")
    out.say("  steps:")
    for step in one.plan.steps:
        out.say(f"    {step.text}")
    out.say("")


def _as_data(fresh: Planned, one: Planned) -> dict[str, object]:
    return {
        "kernel": one.kernel.name,
        "header": asdict(one.plan.header),
        "decisions": [asdict(decision) for decision in fresh.plan.decisions],
        "alternatives": [asdict(alternative) for alternative in fresh.plan.alternatives],
        "steps": [step.text for step in one.plan.steps],
    }
