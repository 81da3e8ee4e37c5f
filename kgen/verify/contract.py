"""Calls that a launcher has to refuse: one for each clause of the C interface, each broken for one reason alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kgen.arch import CUDA_ARCHS
from kgen.expr import DTYPES
from kgen.plan.cabi import DIM_FIELDS, strides_of
from kgen.spec.kernel import Kernel, Operand, Output
from kgen.verify.gpu_arguments import Arguments, arguments, call_of, restrided
from kgen.verify.inputs import make_inputs
from kgen.verify.shapes import Case

if TYPE_CHECKING:
    from kgen.execute.gpu.harness import Call, Crash, Field, Outcome, Run
    from kgen.verify.arrays import Array

OK, BAD_ARGUMENT, BAD_DEVICE = 0, 1, 2
"""kgen_status of the generated header."""
OTHER_DEVICES = ("sm_75", "sm_90")
"""Devices before and after, whose major compute capability is not that of sm_80 code."""
HUGE = 2**60
"""Rows that no grid has blocks for."""


@dataclass(frozen=True)
class Refusal:
    """A run of the check, of the launcher and of the workspace query, all with one bad call."""

    words: str
    """What is wrong with the call."""
    run: Run
    status: int
    clause: str
    """Words that the clause which the check reports has to contain."""


@dataclass(frozen=True)
class _Bench:
    """A good call, to be broken."""

    kernel: Kernel
    good: Arguments
    inputs: Mapping[str, Array]

    def refusal(self, words: str, clause: str, call: Arguments) -> Refusal:
        return self.of_fields(words, clause, call_of(self.kernel, call, self.inputs).fields)

    def of_fields(self, words: str, clause: str, fields: tuple[Field, ...]) -> Refusal:
        return Refusal(words, self._run(fields, self.kernel.arch), BAD_ARGUMENT, clause)

    def device(self, arch: str) -> Refusal:
        fields = call_of(self.kernel, self.good, self.inputs).fields
        return Refusal(f"on {arch}", self._run(fields, arch), BAD_DEVICE, "compute capability")

    def pointer(self, operand: Operand, offset: int | None) -> tuple[Field, ...]:
        """The good call's members with another address for one tensor."""
        from kgen.execute.gpu.harness import Pointer

        name = operand.name
        value = None if offset is None else Pointer(name, offset)
        fields = call_of(self.kernel, self.good, self.inputs).fields
        return tuple(replace(field, value=value) if field.value == Pointer(name) else field for field in fields)

    def _run(self, fields: tuple[Field, ...], arch: str) -> Run:
        from kgen.execute.gpu.harness import Call, Run

        name = self.kernel.name
        calls: tuple[Call, ...] = (
            Call(f"{name}_check", fields, clause=True),
            Call(name, fields),
            Call(f"{name}_workspace", fields, returns="u64"),
        )
        return Run(calls, self.good.buffers(self.inputs), arch=arch)


def contract_of(kernel: Kernel, align: Mapping[str, int], refused: Sequence[Case]) -> Iterator[Refusal]:
    """Calls that the launcher has to refuse, each for one reason; `refused` are shapes that it has to refuse too."""
    sizes = {dim: kernel.signature.multiple_of.get(dim, 1) * 2 for dim in ("m", "n", "k", "b")}
    inputs = make_inputs(kernel.signature, sizes, "contract")
    bench = _Bench(kernel, arguments(kernel.signature, sizes, align), inputs)
    yield from (bench.device(arch) for arch in OTHER_DEVICES if arch not in CUDA_ARCHS)
    yield from _struct_sizes(bench)
    yield from _sizes(bench)
    for operand in bench.good.tensors:
        yield from _pointers(bench, operand)
        yield from _strides(bench, operand)
        if isinstance(operand, Output) and operand.batched:
            yield from _overlaps(bench, operand)
    for case in refused:
        call = arguments(kernel.signature, {"b": 1, **dict(case.sizes)}, align)
        yield bench.refusal(str(case), f"{DIM_FIELDS[case.refused[0]]} % ", call)


def _struct_sizes(bench: _Bench) -> Iterator[Refusal]:
    right = next(bench.good.fields({})).value
    assert isinstance(right, int)
    for size in (0, 8, right - 8, right + 8):
        fields = tuple(bench.good.fields({}, struct_size=size))
        yield bench.of_fields(f"struct_size {size}", "struct_size == ", fields)


def _sizes(bench: _Bench) -> Iterator[Refusal]:
    signature, sizes = bench.kernel.signature, bench.good.sizes
    for dim in "mnkb" if signature.batched else "mnk":
        negative = replace(bench.good, sizes={**sizes, dim: -1})
        yield bench.refusal(f"{dim} = -1", f"{DIM_FIELDS[dim]} >= 0", negative)
        multiple = signature.multiple_of.get(dim, 1)
        if multiple > 1:
            odd = replace(bench.good, sizes={**sizes, dim: sizes[dim] + 1})
            yield bench.refusal(f"{dim} = {sizes[dim] + 1}", f"{DIM_FIELDS[dim]} % {multiple} ", odd)
        if dim != "k":
            most = -(-HUGE // multiple) * multiple
            yield bench.refusal(f"{dim} = {most}", "ceil(m / ", replace(bench.good, sizes={**sizes, dim: most}))


def _pointers(bench: _Bench, operand: Operand) -> Iterator[Refusal]:
    name, element = operand.name, DTYPES[operand.dtype].bytes
    yield bench.of_fields(f"no {name}", f"{name} != NULL", bench.pointer(operand, None))
    if element > 1 and bench.good.align[name] >= element:
        yield bench.of_fields(f"{name} one byte off", f"{name} % ", bench.pointer(operand, 1))
    if bench.good.align[name] > element:
        yield bench.of_fields(f"{name} one element off", f"{name} % ", bench.pointer(operand, element))


def _strides(bench: _Bench, operand: Operand) -> Iterator[Refusal]:
    name = operand.name
    step = max(1, bench.good.align[name] // DTYPES[operand.dtype].bytes)
    for index, dim in enumerate(strides_of(operand)):
        right = bench.good.layouts[name].strides[index]
        place = f"{name}_stride[{index}]"
        too_small = (-step,) if dim == "b" else (-step, 0)
        for stride in too_small:
            yield bench.refusal(f"{place} = {stride}", f"{place} >= ", restrided(bench.good, name, index, stride))
        if step > 1:
            off = restrided(bench.good, name, index, right + 1)
            yield bench.refusal(f"{place} = {right + 1}", f"{place} % {step} ", off)


def _overlaps(bench: _Bench, output: Output) -> Iterator[Refusal]:
    """Matrices of a batch at one place, and one row apart."""
    row = bench.good.layouts[output.name].strides[1]
    for stride in (0, row):
        call = restrided(bench.good, output.name, 0, stride)
        yield bench.refusal(f"{output.name}_stride[0] = {stride}", f"{output.name} does not overlap", call)


def judge_refusal(refusal: Refusal, result: Outcome | Crash) -> Iterator[str]:
    """Everything that is wrong with how a call was refused."""
    from kgen.execute.gpu.harness import Crash

    if isinstance(result, Crash):
        yield f"{refusal.words}: {result.kind}: {result.message}"
        return
    yield from (f"{refusal.words}: {finding}" for finding in result.findings)
    checked, launched, workspace = result.returned
    for what, status in (("check", checked), ("launcher", launched)):
        if status != refusal.status:
            yield f"{refusal.words}: the {what} returned {status}, expected {refusal.status}"
    if workspace != 0:
        yield f"{refusal.words}: the workspace is {workspace} bytes, expected 0"
    if launches := result.counters.get("launches", 0):
        yield f"{refusal.words}: {launches} launches of a refused call"
    if refusal.clause not in (result.clauses[0] or ""):
        yield f"{refusal.words}: refused for {result.clauses[0]!r}, expected a clause with {refusal.clause!r}"
