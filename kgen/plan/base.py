"""What every plan has: the header of its file, its tile program, and its steps.

A plan is the kernel with every decision made. Templates print plans; they see only these typed views.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from kgen.plan.cabi import Abi
from kgen.spec.digest import kernel_digest
from kgen.spec.kernel import Kernel
from kgen.spec.sweep import nested

_WIDTH = 104
"""Characters of a statement in one line of a comment."""


@cache
def _wrapped(text: str) -> tuple[str, ...]:
    """Kernels of one signature quote the same statements, each time they are rendered."""
    return tuple(textwrap.wrap(text, _WIDTH, subsequent_indent="    "))


@dataclass(frozen=True)
class Header:
    """The comment at the top of a generated file, already worded. No clock, host or absolute path."""

    kernel: str
    """Symbol name, e.g. `gemm_bias_gelu_sm_80`."""
    spec: str
    """Project-relative path of the spec."""
    kernel_digest: str
    """Digest of the normalised signature and this target's algorithm."""
    arch: str
    schedule: str
    requires: str
    """Minimum tool versions, e.g. `nvcc >= 11.1, C++17`."""
    licence: tuple[str, ...]
    """SPDX and other lines that the owner of the output asks for."""
    command: str
    """What makes the file again."""


@dataclass(frozen=True)
class Step:
    """One statement of the tile program, as a target performs it.

    `op` is the statement's kind (`fill`, `load`, `mma`, `map`, `cast`, `store`, ...), `name` the tile or tensor it
    makes, `text` the statement as the tile program prints it, `macro` the template macro that prints the step.
    """

    op: str
    name: str
    text: str
    macro: str

    @property
    def lines(self) -> tuple[str, ...]:
        """The statement in lines that fit behind a comment sign."""
        return _wrapped(self.text)


@dataclass(frozen=True)
class Decision:
    """One choice the planner made where the spec is silent, for the lock and for `kgen explain`."""

    field: str
    """Algorithm field, dotted, e.g. `tile.m`."""
    value: int | str
    reason: str


@dataclass(frozen=True)
class Alternative:
    """A candidate the cost model weighed: its fields, estimated microseconds, and what bounds it."""

    fields: tuple[tuple[str, int | str], ...]
    microseconds: float
    bound_by: str


@dataclass(frozen=True)
class Plan:
    """What the plans of all targets have in common; a target's own class adds what its templates need."""

    header: Header
    target: str
    abi: Abi | None
    """The C interface, where the target has one."""
    skeleton: str
    """Template of the kernel layer."""
    operators: tuple[str, ...]
    """Macros of layer 1 that are about the whole plan, as `family.macro`."""
    prologue: tuple[Step, ...]
    epilogue: tuple[Step, ...]
    tile: tuple[int, int, int]
    """Extents along m, n and k."""
    decisions: tuple[Decision, ...]
    alternatives: tuple[Alternative, ...]

    @property
    def tile_sizes(self) -> Mapping[str, int]:
        """Extents of the tile along each dim."""
        return dict(zip("mnk", self.tile, strict=True))

    @property
    def loop(self) -> tuple[Step, ...]:
        """The steps inside the reduction loop."""
        raise NotImplementedError

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps in the order of the tile program."""
        return (*self.prologue, *self.loop, *self.epilogue)


def header_of(kernel: Kernel, resolved: Mapping[str, int | str], requires: str) -> Header:
    """The header of a kernel whose algorithm is `resolved`: every field, dotted, whoever chose it."""
    whole = replace(kernel, algorithm=nested(dict(resolved)))
    return Header(
        kernel=kernel.name,
        spec=kernel.spec,
        kernel_digest=kernel_digest(whole),
        arch=kernel.arch,
        schedule=str(resolved["schedule"]),
        requires=requires,
        licence=kernel.header,
        command=f"kgen render {shlex.quote(kernel.spec)}",
    )
