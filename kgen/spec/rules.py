"""Rules of a document that compare its parts: sizes with contracts, and each target with what it offers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from kgen.expr import DTYPES
from kgen.spec.diagnostic import choices, suggest
from kgen.spec.models import CudaTarget, Spec, Target
from kgen.spec.problem import Path, Problem
from kgen.spec.project import header_fault
from kgen.spec.signature import Resolved, layout_problems
from kgen.spec.vocabulary import OP_DTYPES, RESERVED_SYMBOLS, TARGET_FACTS, product_dtypes

MOST_ELEMENTS = 2**28
"""Elements of the largest matrix of a shape to verify."""


@dataclass(frozen=True)
class TargetEntry:
    """An entry of `targets` and what it computes."""

    path: Path
    target: str
    entry: Target
    resolved: Resolved


def document_problems(spec: Spec, base: Resolved, verify: list[int]) -> Iterator[Problem]:
    """Rules of the parts that all targets share. `verify` holds the shapes' indices in the document."""
    if why := RESERVED_SYMBOLS.get(spec.kernel):
        yield Problem(("kernel",), "name", f"{spec.kernel} is {why}", "choose another name")
    if not any(layout_problems(base)):
        yield from _sizes(spec, base.dims, verify)
    for index, line in enumerate(spec.header):
        if fault := header_fault(line):
            yield Problem(("header", index), "header", fault)


def _sizes(spec: Spec, dims: str, verify: list[int]) -> Iterator[Problem]:
    for name in spec.dims:
        if name not in dims:
            message = f"the operands have no dim {name}"
            yield Problem(("dims", name), "unknown-dim", message, suggest(name, dims), on_key=True)
    for index, shape in zip(verify, spec.verify, strict=True):
        yield from _shape(spec, dims, ("verify", index), shape)


def _shape(spec: Spec, dims: str, path: Path, shape: dict[str, int]) -> Iterator[Problem]:
    for name in shape:
        if name not in dims:
            message = f"the operands have no dim {name}"
            yield Problem((*path, name), "unknown-dim", message, suggest(name, dims), on_key=True)
    if missing := [name for name in dims if name not in shape]:
        message = f"the shape has no size for {', '.join(missing)}"
        yield Problem(path, "missing-dim", message, f"give a size for each of {', '.join(dims)}")
    largest = sorted(shape.values())[-2:]
    if prod(largest) > MOST_ELEMENTS:
        words = f"a matrix of {' x '.join(map(str, largest))} elements is too large to verify on a CPU"
        yield Problem(path, "size", words, f"allowed: at most {MOST_ELEMENTS}; edges of tiles are verified anyway")
    for name, size in shape.items():
        multiple = spec.dims[name].multiple_of if name in spec.dims else 1
        if size % multiple:
            lower = size - size % multiple
            fix = f"did you mean {lower} or {lower + multiple}?"
            yield Problem((*path, name), "multiple-of", f"{name} = {size} is not a multiple of {multiple}", fix)


def f32_mma_problems(spec: Spec, entries: list[TargetEntry]) -> Iterator[Problem]:
    """f32 products say how they are computed; others do not."""
    needed = [entry for entry in entries if _product_dtype(entry.resolved) == "f32"]
    for entry in entries:
        if entry in needed:
            yield from _f32_mma(entry)
        elif entry.entry.f32_mma is not None:
            yield _idle_mma(entry.resolved, (*entry.path, "f32_mma"))
    if spec.f32_mma is not None and not needed and entries:
        yield _idle_mma(entries[0].resolved, ("f32_mma",))


def _product_dtype(kernel: Resolved) -> str:
    return next((kernel.inputs[name].dtype for name in kernel.op.operands if name in kernel.inputs), "")


def _idle_mma(kernel: Resolved, path: Path) -> Problem:
    message = f"f32_mma, and the operands of {kernel.spec.op} are {_product_dtype(kernel)}"
    return Problem(path, "f32-mma", message, "leave it out: it says how f32 operands are multiplied", on_key=True)


def _f32_mma(entry: TargetEntry) -> Iterator[Problem]:
    modes = TARGET_FACTS[entry.target].f32_mma
    offered = [mode for mode, refusal in modes.items() if not refusal]
    mode, arch = entry.resolved.f32_mma, entry.entry.arch
    if mode is None:
        message = f"the operands are f32, and how {arch} multiplies them is not said"
        yield Problem((*entry.path, "arch"), "f32-mma", message, f"allowed: f32_mma: {', '.join(offered)}")
    elif modes[mode]:
        place = ("f32_mma",) in entry.resolved.overridden
        path = (*entry.path, "f32_mma" if place else "arch")
        fix = f"allowed: f32_mma: {', '.join(offered)}" + ("" if place else " in this target")
        yield Problem(path, "f32-mma", f"{arch} has no f32_mma {mode}: {modes[mode]}", fix)


def target_problems(entry: TargetEntry) -> Iterator[Problem]:
    """What the arch of a target does not have, and fields of the entry that do not fit the operands."""
    yield from _dtypes(entry)
    if isinstance(entry.entry, CudaTarget) and entry.entry.align is not None:
        yield from _align(entry.resolved, entry.entry.align, (*entry.path, "align"))
    if entry.entry.as_ is not None and (why := RESERVED_SYMBOLS.get(entry.entry.as_)):
        yield Problem((*entry.path, "as"), "name", f"{entry.entry.as_} is {why}", "choose another name")


def _dtypes(entry: TargetEntry) -> Iterator[Problem]:
    kernel, arch = entry.resolved, entry.entry.arch
    absent = TARGET_FACTS[entry.target].absent_dtypes
    product = product_dtypes(entry.target, arch)
    for section, operand in kernel.operands:
        in_product = section == "inputs" and operand.name in kernel.op.operands
        if operand.dtype in absent:
            reason = absent[operand.dtype]
        elif in_product and operand.dtype not in product:
            reason = f"its matrix unit multiplies {', '.join(product)}"
        else:
            continue
        place = (section, operand.name, "dtype")
        path = kernel.at(*place) if place in kernel.overridden else (*entry.path, "arch")
        allowed = [
            dtype for dtype in (product if in_product else OP_DTYPES[kernel.spec.op].every) if dtype not in absent
        ]
        fix = f"{choices(allowed)}, as {section}: {{{operand.name}: {{dtype: ...}}}} of this target"
        message = f"{operand.name} is {operand.dtype}, and {arch} has none: {reason}"
        yield Problem(path, "arch-dtype", message, fix)


def _align(kernel: Resolved, align: int | dict[str, int], path: Path) -> Iterator[Problem]:
    """One number is for all operands and at least one element each; a mapping must say what it means."""
    if isinstance(align, int):
        return
    tensors = {operand.name: operand for _, operand in kernel.operands if operand.layout}
    for name, given in align.items():
        if name not in tensors:
            yield Problem((*path, name), "align", f"no tensor is called {name}", suggest(name, tensors), on_key=True)
        elif given < DTYPES[tensors[name].dtype].bytes:
            element = DTYPES[tensors[name].dtype].bytes
            message = f"{given} bytes is less than one {tensors[name].dtype} element, {element} bytes"
            yield Problem((*path, name), "align", message, f"allowed: {element} or more")
