"""The C interface of a signature: one for CUDA and HIP and for every tile.

Strides count elements; the fastest dim of every tensor has stride 1 and needs no entry. Clauses are checked by the
generated launcher in the order given here; their names are what `<kernel>_check` reports.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from kgen.expr import DTYPES
from kgen.spec.kernel import Operand, Output, Signature

DIM_FIELDS: Mapping[str, str] = {"m": "m", "n": "n", "k": "k", "b": "batch"}
"""Dim letter -> member of the argument struct."""
C_TARGETS = ("cuda",)
"""Targets whose kernels have a C interface."""
_WIDTH = 114


@dataclass(frozen=True)
class Member:
    """One member of the argument struct."""

    declaration: str
    comment: str


@dataclass(frozen=True)
class CheckClause:
    """A C condition over `args` under which the clause is broken, and the words that report it."""

    broken: str
    name: str

    @property
    def statement(self) -> str:
        """The C statement that checks the clause, on several lines where one is too long."""
        head, tail = f"if ({self.broken})", f'return "{self.name}";'
        if len(head) + len(tail) < _WIDTH:
            return f"{head} {tail}"
        return "\n    ".join([*textwrap.wrap(head, _WIDTH, subsequent_indent="  "), tail])


@dataclass(frozen=True)
class Assignment:
    """One field of the device-side parameters, set from `args`."""

    field: str
    value: str


@dataclass(frozen=True)
class Declared:
    """What a header says of one kernel: its symbol, what it computes, and the members of its argument struct."""

    kernel: str
    description: tuple[str, ...]
    members: tuple[Member, ...]


@dataclass(frozen=True)
class Abi:
    """The argument struct, the clauses its launchers check, and the parameters that kernels receive."""

    kernel: str
    arguments: str
    header_file: str
    guard: str
    declared: Declared
    size_clauses: tuple[CheckClause, ...]
    tensor_clauses: tuple[CheckClause, ...]
    is_empty: str
    has_batches: bool
    params: tuple[str, ...]
    assignments: tuple[Assignment, ...]


def strides_of(operand: Operand) -> str:
    """The dims of `operand` that have an entry in its stride array: all but the fastest."""
    return operand.layout[:-1]


def stride_text(operand: Operand, dim: str) -> str:
    """The stride of `dim` as a member of args or params, e.g. `a_stride[0]`."""
    return f"{operand.name}_stride[{strides_of(operand).index(dim)}]"


def build(signature: Signature, align: Mapping[str, int], c_types: Mapping[str, str], limits: Limits) -> Abi:
    """The interface of `signature`; `align` is the promised alignment in bytes of each tensor and its strides."""
    return Abi(
        kernel=signature.kernel,
        arguments=f"{signature.kernel}_args",
        header_file=header_file(signature),
        guard=f"{signature.kernel.upper()}_H",
        declared=declared(signature.kernel, signature),
        size_clauses=_size_clauses(signature, limits),
        tensor_clauses=_tensor_clauses(signature, align),
        is_empty=" || ".join(f"args->{DIM_FIELDS[dim]} == 0" for dim in _output_dims(signature)),
        has_batches=signature.batched,
        params=_params(signature, c_types),
        assignments=_assignments(signature, c_types),
    )


@dataclass(frozen=True)
class Limits:
    """What bounds the grid: tiles of `tile_m` x `tile_n` elements, at most `blocks` of them."""

    tile_m: int
    tile_n: int
    blocks: int


def declared(kernel: str, signature: Signature) -> Declared:
    """The declaration of a kernel; overrides of a target show in its description and in the members' comments."""
    return Declared(kernel, _description(signature), _members(signature))


def header_file(signature: Signature) -> str:
    """The C header that all kernels of a signature share."""
    return f"{signature.kernel}.h"


def _output_dims(signature: Signature) -> str:
    return "bmn" if signature.batched else "mn"


def _dims(signature: Signature) -> str:
    return "mnkb" if signature.batched else "mnk"


def _tensors(signature: Signature) -> tuple[Operand, ...]:
    return tuple(o for o in (*signature.inputs, *signature.outputs) if o.layout)


def _scalars(signature: Signature) -> tuple[Operand, ...]:
    return tuple(o for o in signature.inputs if not o.layout)


def _index(operand: Operand) -> str:
    return f"{operand.name}[{','.join(operand.layout)}]" if operand.layout else operand.name


@cache
def _description(signature: Signature) -> tuple[str, ...]:
    batch = "b," if signature.batched else ""
    product = f"acc[{batch}m,n] = sum over k of {_product_term(signature, 'a')} * {_product_term(signature, 'b')}"
    values = tuple(f"{_index(o)} = {o.dtype}({o.value.source})" for o in signature.outputs)
    words = (product, *values, "Indices are written slowest first; the last one has stride 1.")
    return tuple(line for text in words for line in textwrap.wrap(text, _WIDTH, subsequent_indent="    "))


def _product_term(signature: Signature, name: str) -> str:
    return _index(signature.operand(name))


@cache
def _members(signature: Signature) -> tuple[Member, ...]:
    sizes = ", ".join(DIM_FIELDS[dim] for dim in _dims(signature))
    members = [Member(f"int64_t {sizes}", "sizes, any of them may be 0")]
    for operand in _tensors(signature):
        const = "" if isinstance(operand, Output) else "const "
        members.append(Member(f"{const}void *{operand.name}", f"{operand.dtype} {_index(operand)}"))
    for operand in _tensors(signature):
        if dims := strides_of(operand):
            words = ", ".join(DIM_FIELDS[dim] for dim in dims)
            members.append(Member(f"int64_t {operand.name}_stride[{len(dims)}]", f"elements between steps of {words}"))
    members.extend(Member(f"float {scalar.name}", "scalar") for scalar in _scalars(signature))
    return tuple(members)


def _size_clauses(signature: Signature, limits: Limits) -> tuple[CheckClause, ...]:
    clauses = [_at_least(DIM_FIELDS[dim], "0") for dim in _dims(signature)]
    for dim, multiple in signature.multiple_of.items():
        clauses.append(_divides(DIM_FIELDS[dim], multiple))
    tiles = "tiles_of(args->m, Config::tile_m), tiles_of(args->n, Config::tile_n)"
    batch = "args->batch" if signature.batched else "1"
    words = " * ".join(
        [f"ceil(m / {limits.tile_m})", f"ceil(n / {limits.tile_n})", *(["batch"] if signature.batched else [])]
    )
    clauses.append(CheckClause(f"!grid_fits({tiles}, {batch})", f"{words} <= {limits.blocks}"))
    return tuple(clauses)


def _tensor_clauses(signature: Signature, align: Mapping[str, int]) -> tuple[CheckClause, ...]:
    clauses: list[CheckClause] = []
    for operand in _tensors(signature):
        clauses.extend(_operand_clauses(operand, align[operand.name]))
        if isinstance(operand, Output) and operand.batched:
            clauses.append(_apart(operand))
    return tuple(clauses)


def _apart(output: Output) -> CheckClause:
    """Matrices of a batch do not overlap: each clears the one before, or their rows interleave."""
    batch, row = (f"args->{stride_text(output, dim)}" for dim in "bm")
    clears = f"clears({batch}, args->m, {row}, args->n)", f"clears({row}, args->batch, {batch}, args->n)"
    broken = f"args->batch > 1 && !{clears[0]} && !{clears[1]}"
    return CheckClause(broken, f"{output.name} does not overlap between batches")


def _operand_clauses(operand: Operand, align: int) -> list[CheckClause]:
    name, fast = operand.name, operand.layout[-1]
    read = "args->k > 0 && " if "k" in operand.layout else ""
    clauses = [CheckClause(f"{read}args->{name} == nullptr", f"{name} != NULL")]
    if align > 1:
        address = f"reinterpret_cast<uintptr_t>(args->{name})"
        clauses.append(CheckClause(f"{address} % {align} != 0", f"{name} % {align} bytes == 0"))
    elements = align // DTYPES[operand.dtype].bytes
    for dim in strides_of(operand):
        stride = stride_text(operand, dim)
        least = "0" if dim == "b" else DIM_FIELDS[fast]
        clauses.append(_stride_at_least(stride, DIM_FIELDS[dim], least))
        if elements > 1:
            clauses.append(_divides(stride, elements))
    return clauses


def _at_least(field: str, least: str) -> CheckClause:
    return CheckClause(f"args->{field} < {least}", f"{field} >= {least}")


def _stride_at_least(stride: str, dim: str, least: str) -> CheckClause:
    bound = least if least == "0" else f"args->{least}"
    several = "" if least == "0" else f"args->{dim} > 1 && "
    return CheckClause(f"{several}args->{stride} < {bound}", f"{stride} >= {least}")


def _divides(field: str, multiple: int) -> CheckClause:
    return CheckClause(f"args->{field} % {multiple} != 0", f"{field} % {multiple} == 0")


def _params(signature: Signature, c_types: Mapping[str, str]) -> tuple[str, ...]:
    sizes = ", ".join(DIM_FIELDS[dim] for dim in _dims(signature))
    lines = [_pointer(operand, c_types) for operand in _tensors(signature)]
    lines.append(f"int64_t {sizes}")
    for operand in _tensors(signature):
        if dims := strides_of(operand):
            lines.append(f"int64_t {operand.name}_stride[{len(dims)}]")
    lines.extend(f"float {scalar.name}" for scalar in _scalars(signature))
    return tuple(lines)


def _pointer(operand: Operand, c_types: Mapping[str, str]) -> str:
    const = "" if isinstance(operand, Output) else "const "
    return f"{const}{c_types[operand.dtype]} *{operand.name}"


def _assignments(signature: Signature, c_types: Mapping[str, str]) -> tuple[Assignment, ...]:
    rows = []
    for operand in _tensors(signature):
        const = "" if isinstance(operand, Output) else "const "
        cast = f"static_cast<{const}{c_types[operand.dtype]} *>(args->{operand.name})"
        rows.append(Assignment(operand.name, cast))
    rows.extend(Assignment(DIM_FIELDS[dim], f"args->{DIM_FIELDS[dim]}") for dim in _dims(signature))
    for operand in _tensors(signature):
        for dim in strides_of(operand):
            text = stride_text(operand, dim)
            rows.append(Assignment(text, f"args->{text}"))
    rows.extend(Assignment(scalar.name, f"args->{scalar.name}") for scalar in _scalars(signature))
    return tuple(rows)
