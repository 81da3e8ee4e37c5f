"""`kgen verify`: compile, execute and compare kernels on this CPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import click

from kgen.cli.options import ONLY, SPECS, output
from kgen.cli.project import BAD, DRIFT, Output, Planned, Project
from kgen.spec.diagnostic import Diagnostic, suggest
from kgen.verify.ladder import Subject, verify
from kgen.verify.record import RUNGS, Record, Status

_MARKS = {Status.PASSED: "passed", Status.FAILED: "FAILED", Status.NOT_RUN: "not run"}
_SHOWN = 8
"""Failures printed for one rung; a record has all of them."""


@click.command()
@SPECS
@ONLY
@click.option("--source", type=click.Path(exists=True, dir_okay=False), help="Verify this edited copy of one kernel.")
@click.option("--require", default="", metavar="RUNGS", help=f"Rungs that must have run: {','.join(RUNGS)}.")
@click.option("--seed", help="Seed of the inputs, any text; the kernel's digest by default.")
@click.option("-j", "--jobs", default=1, show_default=True, type=click.IntRange(1), help="Kernels at a time.")
@click.option("--records", type=click.Path(file_okay=False), help="Write a record of each kernel to this folder.")
@output
def command(
    specs: tuple[str, ...], only: tuple[str, ...], source: str | None, require: str, seed: str | None, jobs: int,
    records: str | None, as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    """Compile, execute and compare every kernel of SPECS on this CPU, and say what was not run.

    Exits 0 only where something ran for every kernel, all of it passed, and every rung of --require ran.
    """
    out = Output(as_json, quiet)
    required = _required(require, out)
    subjects = _subjects(Project(specs, out, only).plan(), source, out)
    made: list[Record] = []
    failing = False
    out.note(f"verifying {len(subjects)} kernels")
    for record in _climb(subjects, seed, jobs):
        made.append(record)
        out.note(f"[{len(made)}/{len(subjects)}]")
        missing = [name for name in required if record.rung(name).status is Status.NOT_RUN]
        failing = failing or record.failed or bool(missing) or not record.ran
        _show(out, record, missing)
        if records:
            _keep(Path(records), record)
    _summary(out, made)
    out.result([record.to_json() for record in made])
    sys.exit(DRIFT if failing else 0)


def _required(text: str, out: Output) -> list[str]:
    names = [name for name in text.split(",") if name]
    wrong = [name for name in names if name not in RUNGS]
    if wrong:
        out.fail([Diagnostic("--require", 0, 0, "rung", f"no rung {name!r}", suggest(name, RUNGS)) for name in wrong])
    return names


def _subjects(planned: list[Planned], source: str | None, out: Output) -> list[Subject]:
    if source is None:
        return [Subject(one.kernel, one.plan) for one in planned]
    if len(planned) != 1:
        words = f"--source verifies one kernel; the selection has {len(planned)}"
        out.fail([Diagnostic(source, 0, 0, "selection", words, "select it with --only")], BAD)
    return [Subject(planned[0].kernel, planned[0].plan, Path(source).read_text("utf-8"))]


def _climb(subjects: Sequence[Subject], seed: str | None, jobs: int) -> Iterator[Record]:
    """Records in order of the subjects. The work is done in child processes: threads only wait."""
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(partial(verify, seed=seed), subjects)


def _show(out: Output, record: Record, missing: Sequence[str]) -> None:
    out.say(record.kernel)
    for rung in record.rungs:
        count = len(rung.failures)
        detail = f": {count} failure{'s' if count > 1 else ''}" if count else f": {rung.detail}"
        out.say(f"  {rung.name:8} {_MARKS[rung.status]:8}{detail}")
        for failure in rung.failures[:_SHOWN]:
            out.say(f"      {failure}")
        if len(rung.failures) > _SHOWN:
            out.say(f"      and {len(rung.failures) - _SHOWN} more")
    for name in missing:
        out.complain(f"{record.kernel}: {name} was required and did not run")


def _summary(out: Output, records: Sequence[Record]) -> None:
    width = max(len(record.kernel) for record in records)
    out.say("")
    out.say(f"{'kernel':{width}}  " + "  ".join(f"{name:8}" for name in RUNGS))
    for record in records:
        marks = "  ".join(f"{_MARKS[record.rung(name).status]:8}" for name in RUNGS)
        out.say(f"{record.kernel:{width}}  {marks}".rstrip())
    for words in dict.fromkeys(record.covers for record in records if record.ran):
        out.say(words)
    if nothing := [record.kernel for record in records if not record.ran]:
        out.complain(f"nothing was verified of {', '.join(nothing)}: no rung could run; see `kgen doctor`")


def _keep(folder: Path, record: Record) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{record.kernel}.json").write_text(record.to_text(), "utf-8")
