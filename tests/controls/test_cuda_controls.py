"""Every check has a control: kernels broken on purpose, each caught, and by which check.

A control edits the text of an unbroken kernel. `caught` is what finds it; `unseen` is what does not, where that is the
point: numbers of one eager run alone prove little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from kgen.toolchain import nvcc
from kgen.verify.contract import BAD_ARGUMENT, BAD_DEVICE, contract_of
from kgen.verify.ladder import Subject, verify
from kgen.verify.record import Status
from tests.controls.workbench import Base, Edit, base_of, case_of, edited, returns, swap, verdict

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
    "deep": """\
kgen: 1
kernel: deep
op: gemm
inputs:
  a: {dtype: bf16, layout: mk}
  b: {dtype: bf16, layout: nk}
  bias: {dtype: f32, layout: n}
  alpha: {dtype: f32}
outputs:
  c: {dtype: f32, layout: mn, value: "max(alpha * acc, bias)"}
dims: {k: {multiple_of: 8}}
targets:
  - {arch: sm_80, tile: {m: 16, n: 32, k: 16}, warps: {m: 1, n: 2}, stages: 5, block_order: {kind: grouped, group: 3}}
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
one all of a; `deep` has more stages than whole tiles of k in most shapes; `tf32` copies and reads single elements."""

SHAPES: Mapping[str, tuple[Mapping[str, int], ...]] = {
    "batched": ({"m": 70, "n": 37, "k": 104, "b": 2}, {"m": 9, "n": 9, "k": 8, "b": 2}),
    "own_rows": ({"m": 20, "n": 40, "k": 104},),
    "deep": (),
    "tf32": ({"m": 20, "n": 37, "k": 35}, {"m": 16, "n": 32, "k": 1}),
}
"""`deep` is run on what `kgen verify` chooses. The first shape of `batched` is 3 x 2 tiles of two groups, with four K
tiles, the last one partial."""


@dataclass(frozen=True)
class Control:
    """A broken kernel: the edits that break it, which checks find it, and which do not."""

    name: str
    edits: tuple[Edit, ...]
    caught: frozenset[str]
    unseen: frozenset[str]
    base: str
    extra: tuple[str, ...]
    host: bool
    """The launcher is edited: it is built anew."""


def control(
    name: str, caught: str, *edits: Edit, unseen: str = "", base: str = "batched", extra: str = "", host: bool = False
) -> Control:
    """A control; `caught`, `unseen` and `extra` are words that `verdict` explains."""
    words = (frozenset(caught.split()), frozenset(unseen.split()))
    return Control(name, edits, *words, base, tuple(extra.split()), host)


ROWS = "        read = read + 1 == Config::stages ? 0 : read + 1;\n"
WAIT = "        copy_wait<Config::stages - 2>();\n"
BARRIER = "        __syncthreads();\n"
FIRST_WAIT = "  copy_wait<Config::stages - 2>();\n  __syncthreads();\n\n"
COUNT = "static_cast<int>(max(min(int64_t(8), p.n - n), int64_t(0)))"
NULL = '  if (args->bias == nullptr) return "bias != NULL";\n'
STRIDE = '  if (args->m > 1 && args->a_stride[1] < args->k) return "a_stride[1] >= k";\n'
CLAUSE = '  if (reinterpret_cast<uintptr_t>(args->a) % 16 != 0) return "a % 16 bytes == 0";\n'

CONTROLS = (
    # index maps
    control("fragment-halves-of-k-exchanged", "numbers", returns("a_fragment", "... ^ 16")),
    control("swizzle-on-one-side-only", "numbers", returns("a_shared", "m * 64 + k * 2")),
    control("batch-stride-ignored", "numbers", returns("a_offset", "m * p.a_stride[1] + k")),
    control("32-bit-offset-of-a-load", "numbers", returns("a_offset", "static_cast<int>(...)"), extra="far"),
    control("unsigned-32-bit-offset-of-a-load", "numbers", returns("a_offset", "static_cast<uint32_t>(...)"),
            extra="far"),
    control("unsigned-32-bit-offset-of-a-store", "numbers", returns("c_offset", "static_cast<uint32_t>(...)"),
            extra="far"),
    control("32-bit-offset-of-a-store", "out-of-bounds", returns("c_offset", "static_cast<int>(...)"), extra="far"),
    control("bias-over-rows", "numbers", returns("bias_offset", "m")),
    control("pitch-of-the-slice-too-small", "numbers", returns("slice", "m * 48 + n * 4")),
    # predicates: what lies beyond a tensor is unmapped, what lies between its rows is NaN
    control("row-predicate-missing", "out-of-bounds", returns("a_valid", "k < p.k ? 8 : 0")),
    control("row-predicate-one-too-far", "out-of-bounds", returns("b_valid", "n <= p.n && k < p.k ? 8 : 0"),
            unseen="numbers"),
    control("edge-of-k-not-masked", "numbers", returns("a_valid", "m < p.m ? 8 : 0")),
    control("store-beyond-n", "padding out-of-bounds", returns("vector_valid", "m < p.m ? 8 : 0")),
    control("store-beyond-m", "padding out-of-bounds", returns("vector_valid", COUNT)),
    # the ring of stages
    control("last-partial-k-tile-skipped", "numbers",
            swap("(p.k + Config::tile_k - 1) / Config::tile_k", "p.k / Config::tile_k")),
    control("prologue-one-stage-short", "numbers",
            swap("stage < Config::stages - 1; ++stage", "stage < Config::stages - 2; ++stage")),
    control("last-k-tile-not-copied", "numbers",
            swap("if (k_tile + Config::stages - 1 < k_tiles)", "if (k_tile + Config::stages < k_tiles)")),
    control("read-stage-not-advanced", "numbers", swap(ROWS, "")),
    control("write-stage-not-advanced", "numbers",
            swap("        write = write + 1 == Config::stages ? 0 : write + 1;\n", "")),
    control("fragments-overwrite-those-in-use", "numbers",
            swap("load_fragments(fragments[(k_step + 1) % 2]", "load_fragments(fragments[k_step % 2]")),
    # waits: right where copies land at once, wrong where they land as late as they may
    control("wait-off-by-one", "late", swap(WAIT, WAIT.replace("- 2", "- 1")), unseen="numbers order"),
    control("wait-of-the-prologue-off-by-one", "late", swap(FIRST_WAIT, FIRST_WAIT.replace("- 2", "- 1")),
            unseen="numbers order"),
    control("copies-not-committed", "late", swap("        copy_commit();\n        write", "        write"),
            unseen="numbers order"),
    control("prologue-not-committed", "late", swap("    copy_commit();\n  }\n  copy_wait", "  }\n  copy_wait"),
            unseen="numbers order"),
    # barriers
    control("barrier-of-the-loop-missing", "numbers order", swap(WAIT + BARRIER, WAIT)),
    control("barrier-of-the-prologue-missing", "order", swap(FIRST_WAIT, FIRST_WAIT[: FIRST_WAIT.index("  __sync")]),
            unseen="numbers", base="own_rows"),
    # values
    control("accumulator-not-initialised", "numbers", swap("  fill(acc, 0.0f);\n", "")),
    control("alpha-ignored", "numbers", swap("p.alpha * acc_tile[e]", "acc_tile[e]")),
    control("cast-truncates", "numbers", swap("__float2bfloat16_rn(x)", "__float2bfloat16_rz(x)")),
    control("tf32-not-rounded", "numbers", swap("  return rounded;", "  return x;"), base="tf32"),
    control("read-stage-never-wraps", "out-of-bounds",
            swap(ROWS, "        read = read + 1;\n"), base="deep", extra="cases"),
    control("write-stage-stuck", "numbers",
            swap("write = write + 1 == Config::stages ? 0 : write + 1;", "write = 0;"), base="deep", extra="cases"),
    # inputs out of the ordinary
    control("maximum-drops-nan", "numbers",
            swap("return x != x || x > y ? x : y;", "return fmaxf(x, y);"), base="deep", extra="cases"),
    control("negative-scalar-made-positive", "numbers",
            swap("p.alpha * acc_tile[e]", "fabsf(p.alpha) * acc_tile[e]"), base="deep", extra="cases"),
    # order of blocks
    control("last-group-as-large-as-the-others", "numbers",
            swap("min(p.tiles_m - first, group)", "group"), base="deep", extra="cases"),
    control("tiles-of-a-partial-group-missed", "numbers", swap("in_group % rows", "in_group % group")),
    control("groups-overlap", "numbers", swap("tile / (group * p.tiles_n) * group,", "tile / (group * p.tiles_n),")),
    # the launcher
    control("grid-without-batch", "numbers", swap(" * static_cast<uint32_t>(p.batch)", ""), host=True),
    control("grid-one-batch-too-many", "out-of-bounds",
            swap("static_cast<uint32_t>(p.batch)", "static_cast<uint32_t>(p.batch + 1)"), unseen="numbers", host=True),
    control("half-the-shared-memory", "out-of-bounds",
            swap("arguments, Config::shared_bytes, stream", "arguments, Config::shared_bytes / 2, stream"),
            host=True),
    control("misaligned-pointer-accepted", "refusal", swap(CLAUSE, ""), extra="contract", host=True),
    control("older-device-accepted", "refusal", swap("major == 8 &&", "major >= 7 &&"), extra="contract", host=True),
    control("newer-device-accepted", "refusal", swap("major == 8 &&", "major >= 8 &&"), extra="contract", host=True),
    control("launcher-launches-what-the-check-refuses", "refusal",
            swap("  if (status != KGEN_OK) return status;\n", ""), extra="contract", host=True),
    control("null-pointer-accepted", "refusal", swap(NULL, ""), extra="contract", host=True),
    control("stride-within-a-row-accepted", "refusal", swap(STRIDE, ""), extra="contract", host=True),
    control("larger-struct-accepted", "refusal",
            swap("args->struct_size != sizeof", "args->struct_size < sizeof"), extra="contract", host=True),
    control("workspace-asked-for", "refusal", swap("  return 0;  // this", "  return 256;  // this"),
            extra="contract", host=True),
)  # fmt: skip

UNCAUGHT = (
    control(
        "slice-read-before-the-warp-has-written-it", "", swap("acc[i], lane);\n    __syncwarp();", "acc[i], lane);")
    ),
    control(
        "slice-overwritten-before-the-warp-has-read-it", "", swap("    __syncwarp();  // the next", "    // the next")
    ),
    control("warps-share-one-slice", "", swap("shared + warp * Config::slice_bytes", "shared")),
)
"""Races that no order of the executor shows: the lanes of a warp run in step, and a warp goes on until it waits at a
barrier or branches back, which the unrolled epilogue never does. They take a race detector."""


MORE = {
    "32-bit-offset-of-a-store", "pitch-of-the-slice-too-small", "store-beyond-m", "last-k-tile-not-copied",
    "write-stage-not-advanced", "wait-of-the-prologue-off-by-one", "prologue-not-committed", "groups-overlap",
    "half-the-shared-memory", "older-device-accepted", "unsigned-32-bit-offset-of-a-store", "larger-struct-accepted",
    "null-pointer-accepted", "stride-within-a-row-accepted", "workspace-asked-for", "newer-device-accepted",
}  # fmt: skip
"""Relatives of other controls, for the tier that takes its time."""


def tiers(controls: Sequence[Control]) -> list[object]:
    """Controls as parameters, with their marks and names."""
    marks = {name: [pytest.mark.verify_all] for name in MORE}
    return [pytest.param(one, marks=marks.get(one.name, []), id=one.name) for one in controls]


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Base]:
    folder = tmp_path_factory.mktemp("controls")
    return {name: base_of(spec, folder / name) for name, spec in SPECS.items()}


def judged(base: Base, one: Control) -> set[str]:
    """What the checks find in a control."""
    source = edited(base.source, one.edits)
    if one.host:
        library = base.build(source, one.name)
        return verdict(base, library, library.with_suffix(".ptx"), SHAPES[one.base], one.extra)
    return verdict(base, base.launcher, base.ptx(source, one.name), SHAPES[one.base], one.extra)


@pytest.mark.parametrize("name", SPECS)
def test_unbroken_kernels_pass(name: str, bases: Mapping[str, Base]) -> None:
    base = bases[name]
    ptx = base.launcher.with_suffix(".ptx")
    assert verdict(base, base.launcher, ptx, SHAPES[name], ("far", "contract", "cases")) == set()


@pytest.mark.parametrize("one", tiers(CONTROLS))
def test_broken_kernels_are_caught(one: Control, bases: Mapping[str, Base]) -> None:
    found = judged(bases[one.base], one)
    assert one.caught
    assert one.caught <= found
    assert not one.unseen & found


@pytest.mark.xfail(strict=True, reason="needs a race detector")
@pytest.mark.parametrize("one", tiers(UNCAUGHT))
def test_races_inside_the_epilogue_are_caught(one: Control, bases: Mapping[str, Base]) -> None:
    assert judged(bases[one.base], one)


@pytest.mark.parametrize("name", SPECS)
def test_every_clause_of_the_interface_is_broken_by_a_refusal(name: str, bases: Mapping[str, Base]) -> None:
    base = bases[name]
    refusals = list(contract_of(base.kernel, base.plan.align, []))
    clauses = [clause.name for clause in (*base.plan.abi.size_clauses, *base.plan.abi.tensor_clauses)]
    unknown = [clause for clause in clauses if not any(refusal.clause in clause for refusal in refusals)]
    assert unknown == []
    assert {refusal.status for refusal in refusals} == {BAD_ARGUMENT, BAD_DEVICE}


def test_a_source_that_includes_another_file_is_not_compiled(bases: Mapping[str, Base]) -> None:
    base = bases["own_rows"]
    for words in ('"helpers.cuh"', "HELPERS", '"/etc/own_rows.h"', "</etc/own_rows.h>"):
        source = base.source.replace("#include <cuda_runtime.h>", f"#include <cuda_runtime.h>\n#  include {words} // x")
        record = verify(Subject(base.kernel, base.plan, source))
        assert [rung.status for rung in record.rungs] == [Status.FAILED, *[Status.NOT_RUN] * 3]
        assert f"#include {words}: a kernel includes" in record.rung("compile").failures[0]


def test_names_are_unique_and_those_set_apart_exist() -> None:
    names = [one.name for one in (*CONTROLS, *UNCAUGHT)]
    assert len(names) == len(set(names))
    assert set(names) >= MORE
    assert len(CONTROLS) - len(MORE) >= 15


def test_numbers_of_one_run_are_not_enough() -> None:
    silent = [one for one in CONTROLS if "numbers" in one.unseen]
    assert {word for one in silent for word in one.caught} >= {"late", "order", "out-of-bounds"}


@pytest.mark.parametrize(
    ("name", "failed"), [("barrier-of-the-prologue-missing", ["hazards"]), ("alpha-ignored", ["execute"])]
)
def test_the_ladder_fails_at_the_rung_that_catches(name: str, failed: list[str], bases: Mapping[str, Base]) -> None:
    one = next(one for one in CONTROLS if one.name == name)
    base = bases[one.base]
    source = edited(base.source, one.edits)
    record = verify(Subject(base.kernel, base.plan, source), only=[case_of(shape) for shape in SHAPES[one.base]])
    assert record.failed
    assert [rung.name for rung in record.rungs if rung.status is Status.FAILED] == failed


def test_a_kernel_that_does_not_compile_goes_no_further(bases: Mapping[str, Base]) -> None:
    base = bases["own_rows"]
    record = verify(Subject(base.kernel, base.plan, edited(base.source, [swap("fill(acc, 0.0f)", "fill(acc)")])))
    assert [rung.status for rung in record.rungs] == [Status.FAILED, *[Status.NOT_RUN] * 3]
    assert "fill" in record.rung("compile").failures[0]
