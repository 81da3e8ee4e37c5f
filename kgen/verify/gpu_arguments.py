"""The argument struct and buffers of a gemm's C interface, for one shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kgen.expr import DTYPES
from kgen.plan.cabi import strides_of
from kgen.spec.kernel import Kernel, Operand, Output, Signature
from kgen.verify.arrays import numpy_dtype

if TYPE_CHECKING:
    from kgen.execute.gpu.harness import BufferSpec, Call, Field
    from kgen.verify.arrays import Array

FAR = 2**31
"""Extra elements between rows in the far case: the third row begins beyond 2^32 elements."""


@dataclass(frozen=True)
class Layout:
    """Strides of one tensor in elements, slowest dim first, and the elements from the first to past the last."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def span(self) -> int:
        """Elements that the tensor reaches over; 0 where it has none."""
        if 0 in self.shape:
            return 0
        return sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True)) + 1


def layout_of(operand: Operand, sizes: Mapping[str, int], align: int, far: int = 0) -> Layout:
    """Rows one vector further apart than they have to be, so that what lies between them is padding.

    `align` is the promised alignment in bytes: strides are odd multiples of it, no more aligned than promised.
    """
    step = max(1, align // DTYPES[operand.dtype].bytes)
    shape = tuple(sizes[dim] for dim in operand.layout)
    strides = [1]
    for size in reversed(shape[1:]):
        vectors = -(-size * strides[0] // step) if len(strides) > 1 else -(-size // step)
        strides.insert(0, (vectors + 1 + vectors % 2) * step + (far if len(strides) == 1 else 0))
    return Layout(shape, tuple(strides))


@dataclass(frozen=True)
class Arguments:
    """One call: sizes, tensors in memory and scalars."""

    signature: Signature
    sizes: Mapping[str, int]
    layouts: Mapping[str, Layout]
    align: Mapping[str, int]

    @property
    def tensors(self) -> tuple[Operand, ...]:
        """All operands with a layout, in the order of the struct."""
        return tuple(o for o in (*self.signature.inputs, *self.signature.outputs) if o.layout)

    def buffers(self, inputs: Mapping[str, Array]) -> tuple[BufferSpec, ...]:
        """Inputs in place among poison; outputs poisoned. Each buffer is exactly as large as its tensor's span."""
        return tuple(self._buffer(operand, inputs.get(operand.name)) for operand in self.tensors)

    def _buffer(self, operand: Operand, array: Array | None) -> BufferSpec:
        from kgen.execute.gpu.harness import BufferSpec

        layout = self.layouts[operand.name]
        bytes_ = DTYPES[operand.dtype].bytes
        sparse = layout.span * bytes_ > 2**28
        rows = () if array is None else tuple(_rows(array, layout, bytes_))
        background = None if sparse else _background(operand.dtype)
        return BufferSpec(
            operand.name, layout.span * bytes_, rows, background, offset=self.align[operand.name],
            writable=isinstance(operand, Output),
        )  # fmt: skip

    def fields(self, scalars: Mapping[str, float], struct_size: int | None = None) -> Iterator[Field]:
        """The members of the argument struct."""
        from kgen.execute.gpu.harness import Field
        from kgen.execute.gpu.harness import struct_size as size_of

        members = list(self._members(scalars))
        size = size_of([Field("u32", 0), *members])
        yield Field("u32", size if struct_size is None else struct_size)
        yield from members

    def _members(self, scalars: Mapping[str, float]) -> Iterator[Field]:
        from kgen.execute.gpu.harness import Field, Pointer

        for dim in "mnkb" if self.signature.batched else "mnk":
            yield Field("i64", self.sizes[dim])
        for operand in self.tensors:
            yield Field("ptr", Pointer(operand.name))
        for operand in self.tensors:
            for stride in self.layouts[operand.name].strides[: len(strides_of(operand))]:
                yield Field("i64", stride)
        for operand in self.signature.inputs:
            if not operand.layout:
                yield Field("f32", scalars.get(operand.name, 1.0))
        yield from (Field("ptr", None), Field("u64", 0), Field("ptr", None))

    def reads(self) -> Iterator[tuple[str, int, int]]:
        """Windows that return every output: whole buffers, or row by row where they are sparse."""
        for operand in self.signature.outputs:
            layout, bytes_ = self.layouts[operand.name], DTYPES[operand.dtype].bytes
            if layout.span * bytes_ <= 2**28:
                yield operand.name, 0, layout.span * bytes_
            else:
                yield from ((operand.name, at * bytes_, layout.shape[-1] * bytes_) for at in _starts(layout))

    def output(self, operand: Output, windows: list[Array]) -> tuple[Array, bool]:
        """The output's elements from the windows read, and whether all that lies between them is still poison."""
        import numpy as np

        layout = self.layouts[operand.name]
        dtype = numpy_dtype(operand.dtype)
        if len(windows) != 1 or 0 in layout.shape:
            rows = [window.view(dtype) for window in windows]
            return (np.concatenate(rows) if rows else np.empty(0, dtype)).reshape(layout.shape), True
        memory = windows[0].view(f"u{dtype.itemsize}").copy()
        strides = tuple(stride * dtype.itemsize for stride in layout.strides)
        view = np.lib.stride_tricks.as_strided(memory, layout.shape, strides)
        values = view.copy().view(dtype)
        between = np.frombuffer(bytes([_background(operand.dtype)]) * dtype.itemsize, memory.dtype)
        view[...] = between
        return values, bool((memory == between).all())


def arguments(signature: Signature, sizes: Mapping[str, int], align: Mapping[str, int], far: int = 0) -> Arguments:
    """The arguments for one shape."""
    tensors = [o for o in (*signature.inputs, *signature.outputs) if o.layout]
    layouts = {o.name: layout_of(o, sizes, align[o.name], far) for o in tensors}
    return Arguments(signature, sizes, layouts, align)


def call_of(kernel: Kernel, call: Arguments, inputs: Mapping[str, Array]) -> Call:
    """The launch of `kernel`, with the scalars of `inputs`."""
    from kgen.execute.gpu.harness import Call

    scalars = {o.name: float(inputs[o.name]) for o in kernel.signature.inputs if not o.layout}
    return Call(kernel.name, tuple(call.fields(scalars)))


def restrided(call: Arguments, name: str, index: int, stride: int) -> Arguments:
    """The same call with another entry in the stride array of `name`."""
    layout = call.layouts[name]
    strides = tuple(stride if i == index else old for i, old in enumerate(layout.strides))
    return replace(call, layouts={**call.layouts, name: Layout(layout.shape, strides)})


def _rows(array: Array, layout: Layout, bytes_: int) -> Iterator[tuple[int, Array]]:
    flat = array.reshape(-1, layout.shape[-1]) if array.size else array.reshape(0, 1)
    for start, row in zip(_starts(layout), flat, strict=False):
        yield start * bytes_, row


def _starts(layout: Layout) -> Iterator[int]:
    """The first element of every row."""
    import itertools

    if 0 in layout.shape:
        return
    for index in itertools.product(*(range(size) for size in layout.shape[:-1])):
        yield sum(i * stride for i, stride in zip(index, layout.strides, strict=False))


def _background(dtype: str) -> int:
    """A byte that repeats to poison: NaN for floats."""
    return 0xFF if DTYPES[dtype].kind == "float" else 0xAA
