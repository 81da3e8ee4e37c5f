"""What a target's kernel computes: the spec with the target's overrides applied, checked and typed.

Every rule compares values of several fields and reports all it finds, at the field that is to change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kgen.expr import ExprError, Expression, Typed, Value, check, parse
from kgen.ops import OPS, Op
from kgen.spec import kernel as made
from kgen.spec.diagnostic import choices, closest, suggest
from kgen.spec.kernel import Operand, Signature
from kgen.spec.models import Input, InputOverride, Output, OutputOverride, Spec, Target
from kgen.spec.problem import Path, Problem
from kgen.spec.vocabulary import OP_DTYPES, RESERVED_NAMES


@dataclass(frozen=True)
class Resolved:
    """The operands of one kernel before they are typed, and which fields its target overrides."""

    spec: Spec
    prefix: Path
    """Of the target entry; empty for the document itself, before any override."""
    inputs: Mapping[str, Operand]
    outputs: Mapping[str, tuple[Operand, str]]
    """Name -> operand and the text of its value."""
    acc: str
    f32_mma: str | None
    overridden: frozenset[Path]

    def at(self, *path: str | int) -> Path:
        """Where a field stands: in the target's override if it is given there, else in the document."""
        return (*self.prefix, *path) if path in self.overridden else path

    @property
    def op(self) -> Op:
        """The op: its operands and how they may lie."""
        return OPS[self.spec.op]

    @property
    def operands(self) -> Iterator[tuple[str, Operand]]:
        """(`inputs` or `outputs`, operand) of all operands."""
        yield from (("inputs", operand) for operand in self.inputs.values())
        yield from (("outputs", operand) for operand, _ in self.outputs.values())

    @property
    def batched(self) -> bool:
        """Whether any operand has the batch dim."""
        return any(self.op.batch in operand.layout for _, operand in self.operands)

    @property
    def dims(self) -> str:
        """The dims that sizes are given for."""
        return "".join(dim for dim in self.op.dims if dim != self.op.batch or self.batched)


def resolve(spec: Spec, target: Target | None = None, prefix: Path = ()) -> Resolved:
    """Apply the overrides of `target`, which stands at `prefix` in the document."""
    changes = _changes(target)
    inputs = {name: _input(name, given, changes.get(("inputs", name))) for name, given in spec.inputs.items()}
    outputs = {name: _output(name, given, changes.get(("outputs", name))) for name, given in spec.outputs.items()}
    overridden: set[Path] = {(*place, field) for place, change in changes.items() for field in change.model_fields_set}
    overridden |= {(single,) for single in ("acc", "f32_mma") if target and getattr(target, single) is not None}
    return Resolved(
        spec=spec, prefix=prefix, inputs=inputs, outputs=outputs, overridden=frozenset(overridden),
        acc=(target and target.acc) or spec.acc, f32_mma=(target and target.f32_mma) or spec.f32_mma,
    )  # fmt: skip


def _changes(target: Target | None) -> dict[tuple[str, str], InputOverride | OutputOverride]:
    if target is None:
        return {}
    inputs = {("inputs", name): change for name, change in target.inputs.items()}
    return {**inputs, **{("outputs", name): change for name, change in target.outputs.items()}}


def _input(name: str, given: Input, change: InputOverride | OutputOverride | None) -> Operand:
    fields = {**vars(given), **(change.model_dump(exclude_none=True) if change else {})}
    return Operand(name, fields["dtype"], fields["layout"])


def _output(name: str, given: Output, change: InputOverride | OutputOverride | None) -> tuple[Operand, str]:
    fields = {**vars(given), **(change.model_dump(exclude_none=True) if change else {})}
    return Operand(name, fields["dtype"], fields["layout"]), fields["value"]


def override_problems(spec: Spec, target: Target, prefix: Path) -> Iterator[Problem]:
    """Overrides of operands that are not there, or that change which dims an operand has (and so the C ABI)."""
    for section, known, changes in (
        ("inputs", spec.inputs, target.inputs),
        ("outputs", spec.outputs, target.outputs),
    ):
        for name, change in changes.items():
            path = (*prefix, section, name)
            if name not in known:
                message = f"{name} is not one of the {section} of the spec"
                yield Problem(path, "override", message, suggest(name, known), on_key=True)
            elif change.layout is not None and sorted(change.layout) != sorted(known[name].layout):
                message = f"layout {change.layout} of {name} has other dims than {known[name].layout or 'a scalar'}"
                fix = "an override reorders dims; other dims are another kernel"
                yield Problem((*path, "layout"), "override", message, fix)


def problems(kernel: Resolved) -> Iterator[Problem]:
    """All that is wrong with the operands of a kernel."""
    yield from _names(kernel)
    missing = [name for name in kernel.op.operands if name not in kernel.inputs]
    for name in missing:
        message = f"{kernel.spec.op} needs the input {name}"
        yield Problem(("inputs",), "missing-operand", message, f"add {name}: {{dtype: ..., layout: ...}}", on_key=True)
    wrong = list(layout_problems(kernel))
    yield from wrong
    if not missing:
        yield from _dtypes(kernel)
        yield from () if wrong else _batch(kernel)
    yield from _values(kernel)


def _names(kernel: Resolved) -> Iterator[Problem]:
    for section, operand in kernel.operands:
        name = operand.name
        why = RESERVED_NAMES.get(name)
        if name.endswith("_stride"):
            why = "named like a stride of the generated argument struct"
        if section == "outputs" and name in kernel.inputs:
            why = "already the name of an input"
        if section == "outputs" and name in kernel.op.operands:
            why = f"an operand of {kernel.spec.op}"
        if not operand.layout and operand.dtype != "f32":
            message = f"the scalar {name} is {operand.dtype}; scalars travel as C floats"
            yield Problem((section, name, "dtype"), "scalar-dtype", message, "make it f32")
        if why:
            yield Problem((section, name), "name", f"{name} is {why}", "choose another name", on_key=True)


def layout_problems(kernel: Resolved) -> Iterator[Problem]:
    """Layouts that the op's operands cannot have; while there are any, which dims there are is a guess."""
    op = kernel.op
    for section, operand in kernel.operands:
        allowed = op.output_layouts if section == "outputs" else op.layouts(operand.name)
        if operand.layout in allowed:
            continue
        if not operand.layout:
            message = f"{operand.name} of {kernel.spec.op} needs a layout"
            yield Problem((section, operand.name), "layout", message, choices(allowed), on_key=True)
            continue
        yield Problem(
            kernel.at(section, operand.name, "layout"), "layout",
            _layout_message(kernel, operand), _layout_fix(operand.layout, allowed),
        )  # fmt: skip


def _layout_message(kernel: Resolved, operand: Operand) -> str:
    dims = kernel.op.dims
    strange = [letter for letter in dict.fromkeys(operand.layout) if letter not in dims]
    if strange:
        return f"layout {operand.layout}: {', '.join(strange)} is no dim of {kernel.spec.op} ({', '.join(dims)})"
    return f"layout {operand.layout} is not one {operand.name} can have"


def _layout_fix(layout: str, allowed: tuple[str, ...]) -> str:
    """Allowed layouts; the one with the same dims in another order is the one most likely meant."""
    near = next((known for known in allowed if sorted(known) == sorted(layout)), None) or closest(layout, allowed)
    listed = choices(filter(None, allowed)) + (", or none for a scalar" if "" in allowed else "")
    return listed + (f"; did you mean {near}?" if near else "")


def _dtypes(kernel: Resolved) -> Iterator[Problem]:
    first, *others = (kernel.inputs[name] for name in kernel.op.operands)
    for other in others:
        if other.dtype != first.dtype:
            message = f"{other.name} is {other.dtype} and {first.name} is {first.dtype}"
            fix = f"the operands of {kernel.spec.op} have one dtype"
            changed = first if ("inputs", first.name, "dtype") in kernel.overridden else other
            yield Problem(kernel.at("inputs", changed.name, "dtype"), "product-dtype", message, fix)
    allowed = OP_DTYPES[kernel.spec.op].acc[first.dtype]
    if kernel.acc not in allowed:
        message = f"acc {kernel.acc} with {first.dtype} operands"
        yield Problem(kernel.at("acc"), "acc", message, choices(allowed))


def _batch(kernel: Resolved) -> Iterator[Problem]:
    """A batched product has batched outputs, and nothing but a batched product is batched."""
    batch = kernel.op.batch
    product = [name for name in kernel.op.operands if batch in kernel.inputs[name].layout]
    for section, operand in kernel.operands:
        if operand.name in kernel.op.operands and section == "inputs":
            continue
        path = kernel.at(section, operand.name, "layout")
        if batch in operand.layout and not product:
            names = " or ".join(kernel.op.operands)
            message = f"{operand.name} has the batch dim {batch}, and neither operand of the product has"
            yield Problem(path, "batch", message, f"give {names} the dim {batch}, or take it from {operand.name}")
        if section == "outputs" and product and batch not in operand.layout:
            message = f"{operand.name} has no batch dim, and {' and '.join(product)} has"
            yield Problem(path, "batch", message, f"did you mean {batch}{operand.layout}?")


def _values(kernel: Resolved) -> Iterator[Problem]:
    """Errors in the outputs' expressions, and inputs that none of them reads."""
    read: set[str] = set()
    complete = True
    for name in kernel.outputs:
        typed = value_of(kernel, name)
        if isinstance(typed, Typed):
            read |= set(typed.names)
            yield from _value(kernel, name, typed)
            continue
        complete = False
        for error in typed:
            yield Problem(
                kernel.at("outputs", name, "value"), "expression", error.message, error.fix, offset=error.offset
            )
    unused = [name for name in kernel.inputs if name not in kernel.op.operands and name not in read]
    for name in unused if complete else ():
        fix = "use it in the value of an output, or remove it"
        yield Problem(("inputs", name), "unused-input", f"no output reads {name}", fix, on_key=True)


def _value(kernel: Resolved, name: str, typed: Typed) -> Iterator[Problem]:
    path = kernel.at("outputs", name, "value")
    result = kernel.op.result
    if result not in typed.names:
        message = f"{name} does not depend on {result}, the result of {kernel.spec.op}"
        yield Problem(path, "unused-acc", message, f"write an expression over {result}, or remove the output")


def value_of(kernel: Resolved, name: str) -> Typed | tuple[ExprError, ...]:
    """The typed value of an output, or all errors of its expression."""
    expression = parse(kernel.outputs[name][1])
    if not isinstance(expression, Expression):
        return expression
    op = kernel.op
    env = {op.result: Value(kernel.acc, (op.batch if kernel.batched else "") + op.result_axes)}
    env |= {o.name: Value(o.dtype, o.layout) for o in kernel.inputs.values() if o.name not in op.operands}
    return check(expression, env)


def signature(kernel: Resolved) -> Signature:
    """The typed signature of a kernel without problems."""
    first = next(iter(kernel.op.operands))
    outputs = []
    for name, (operand, _) in kernel.outputs.items():
        typed = value_of(kernel, name)
        assert isinstance(typed, Typed)
        outputs.append(made.Output(name, operand.dtype, operand.layout, typed))
    return Signature(
        kernel=kernel.spec.kernel,
        op=kernel.spec.op,
        inputs=tuple(kernel.inputs.values()),
        outputs=tuple(outputs),
        multiple_of={name: dim.multiple_of for name, dim in sorted(kernel.spec.dims.items())},
        acc=kernel.acc,
        f32_mma=kernel.f32_mma if kernel.inputs[first].dtype == "f32" else None,
    )
