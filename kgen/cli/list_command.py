"""`kgen list`: the kernels of specs, or the archs or ops there are."""

from __future__ import annotations

import click

from kgen.arch import TARGETS
from kgen.cli.options import output
from kgen.cli.project import Output, Project
from kgen.ops import OPS


@click.command(name="list")
@click.argument("what", nargs=-1, required=True, metavar="archs | ops | SPECS...")
@output
def command(what: tuple[str, ...], as_json: bool, quiet: bool) -> None:
    """List `archs`, `ops`, or the kernels that SPECS make."""
    out = Output(as_json, quiet)
    if what == ("archs",):
        rows = [{"target": target, "arch": arch} for target, archs in TARGETS.items() for arch in archs]
    elif what == ("ops",):
        rows = [{"op": op.name, "computes": op.summary, "dims": ", ".join(op.dims)} for op in OPS.values()]
    else:
        rows = [
            {"kernel": kernel.name, "target": kernel.target, "arch": kernel.arch, "spec": kernel.spec}
            for _, kernel in Project(what, out).kernels()
        ]
    for row in rows:
        out.say("  ".join(row.values()))
    out.result(rows)
