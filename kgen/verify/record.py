"""What was verified: rungs of a ladder, each with its outcome, bound to the bytes of the file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

RUNGS = ("compile", "execute", "hazards", "device")
"""In this order; validation comes before a plan exists."""


class Status(Enum):
    """How a rung ended."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Rung:
    """One rung: what was done, with which tools and shapes, and what was wrong."""

    name: str
    status: Status
    detail: str
    """One line: the figures of a pass, or why the rung was not run."""
    failures: tuple[str, ...] = ()
    tools: tuple[tuple[str, str], ...] = ()
    shapes: tuple[str, ...] = ()

    @staticmethod
    def judged(name: str, detail: str, failures: list[str], tools: Mapping[str, str], shapes: list[str]) -> Rung:
        """Passed where there are no failures."""
        status = Status.FAILED if failures else Status.PASSED
        return Rung(name, status, detail, tuple(failures), tuple(sorted(tools.items())), tuple(shapes))

    @staticmethod
    def skipped(name: str, reason: str) -> Rung:
        """Not run, and why."""
        return Rung(name, Status.NOT_RUN, reason)


@dataclass(frozen=True)
class Record:
    """The ladder of one kernel. It speaks of exactly the file whose body has this digest."""

    kernel: str
    spec: str
    arch: str
    kernel_digest: str
    body_digest: str
    covers: str
    """What was executed, and what that does not cover (docs/verification.md)."""
    rungs: tuple[Rung, ...]

    def rung(self, name: str) -> Rung:
        """The rung called `name`."""
        return next(rung for rung in self.rungs if rung.name == name)

    @property
    def failed(self) -> bool:
        """Whether any rung failed."""
        return any(rung.status is Status.FAILED for rung in self.rungs)

    @property
    def ran(self) -> bool:
        """Whether any rung ran."""
        return any(rung.status is not Status.NOT_RUN for rung in self.rungs)

    def to_json(self) -> dict[str, Any]:
        """The record as plain data: the same for the same outcome, without times."""
        data = asdict(self)
        for rung in data["rungs"]:
            rung["status"] = rung["status"].value
        return data

    def to_text(self) -> str:
        """The record as a file."""
        return json.dumps(self.to_json(), indent=2) + "\n"


COVERS = {
    "cuda": (
        "executed from nvcc's PTX, host launcher included, on a CPU; "
        "not covered: ptxas itself, the rounding order of tensor cores, races (checked by numbers only)"
    ),
    "pallas": (
        "compiled by libtpu under its linter; executed from the source by interpret and TPU-interpret modes; "
        "not covered: libtpu's code itself"
    ),
}
