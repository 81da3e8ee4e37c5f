"""Every check has a control: kernels broken on purpose, each caught, and by which check.

A control edits the text of an unbroken kernel. `caught` is what finds it; `unseen` is what does not, where that is the
point: numbers of one eager run alone prove little.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from workbench import Base, Edit, base_of, edited, verdict

from kgen.toolchain import nvcc

pytestmark = pytest.mark.skipif(isinstance(nvcc.find(), nvcc.ToolMissing), reason="nvcc is not installed")

SPECS = {
    "batched": """\
kgen: 1
kernel: batched
op: gemm
inputs:
  a: {dtype: bf16, layout: bmk}
  b: {dtype: bf16, layout: bnk}
  bias: {dtype: f32, layout: n}
  alpha: {dtype: f32}
outputs:
  c: {dtype: bf16, layout: bmn, value: alpha * acc + bias}
dims: {k: {multiple_of: 8}}
targets:
  - {arch: sm_80, tile: {m: 32, n: 32, k: 32}, warps: {m: 1, n: 2}, stages: 3, block_order: {kind: grouped, group: 2}}
""",
    "own_rows": """\
kgen: 1
kernel: own_rows
op: gemm
inputs:
  a: {dtype: bf16, layout: mk}
  b: {dtype: bf16, layout: nk}
outputs:
  c: {dtype: f32, layout: mn}
dims: {k: {multiple_of: 8}}
targets:
  - {arch: sm_80, tile: {m: 16, n: 32, k: 16}, warps: {m: 1, n: 2}, stages: 3, block_order: {kind: raster}}
""",
    "tf32": """\
kgen: 1
kernel: tf32
op: gemm
inputs:
  a: {dtype: f32, layout: mk}
  b: {dtype: f32, layout: kn}
outputs:
  c: {dtype: f32, layout: mn}
f32_mma: tf32
targets:
  - {arch: sm_80, tile: {m: 16, n: 32, k: 16}, warps: {m: 1, n: 2}, stages: 2, align: 4}
""",
}
"""`batched` has edges, groups and an epilogue; in `own_rows` a warp copies the rows of b that it reads, and the first
one all of a; `tf32` copies and reads single elements."""

SHAPES: Mapping[str, tuple[Mapping[str, int], ...]] = {
    "batched": ({"m": 70, "n": 100, "k": 104, "b": 2}, {"m": 33, "n": 29, "k": 8, "b": 2}),
    "own_rows": ({"m": 20, "n": 40, "k": 104},),
    "tf32": ({"m": 20, "n": 37, "k": 35}, {"m": 16, "n": 32, "k": 1}),
}
"""The first shape of `batched` is 3 x 4 tiles of two groups, with four K tiles, the last one partial."""


@dataclass(frozen=True)
class Control:
    """A broken kernel: the edits that break it, which checks find it, and which do not."""

    name: str
    edits: tuple[Edit, ...]
    caught: frozenset[str]
    unseen: frozenset[str] = frozenset()
    base: str = "batched"
    extra: tuple[str, ...] = ()
    host: bool = False
    """The launcher is edited: it is built anew."""


def control(
    name: str, caught: str, *edits: Edit, unseen: str = "", base: str = "batched", extra: str = "", host: bool = False
) -> Control:
    words = (frozenset(caught.split()), frozenset(unseen.split()))
    return Control(name, edits, *words, base, tuple(extra.split()), host)
