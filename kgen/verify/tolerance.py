"""What an output has to be: the exact value, and how far a correct kernel may be from it, element by element.

The bound is u_out |C| plus, through the epilogue's (value, bound) interpreter, the error of the product: that of a sum
of n terms, gamma_n sum |a| |b| with gamma_n = n u / (1 - n u) (Higham, Accuracy and Stability of Numerical Algorithms,
3.1, any order of summation), and that of rounding the operands. Nothing in it is fitted to what a kernel returns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgen.expr import DTYPES, MACHINES, Bounded, DType, Machine, Typed, evaluate, ranges
from kgen.ops import OPS
from kgen.spec.kernel import Output, Signature

if TYPE_CHECKING:
    from kgen.verify.arrays import Array, Doubles


SLAB = 1 << 14
"""Elements of a slab in which tolerances are computed."""


@dataclass(frozen=True)
class Products:
    """How a machine multiplies and sums: terms for each pair of elements, and relative errors."""

    terms: int
    """Products that are summed for each pair of elements."""
    operands: float
    """Relative error of those products together against the exact product."""
    unit: float
    """Relative error of one addition of the accumulator."""


_NEAREST = 2.0**-24
_MATRIX_UNIT = 2.0**-23
"""Matrix units truncate: one addition errs by up to an ulp, twice as much as rounding to nearest. On sm_80, 8 products
(4 of TF32) and the sum so far are aligned with at least one more bit than f32 has and then truncated, so that a block
errs by at most 9 / 2 + 1 ulps of its largest partial sum, less than the 8 counted here (Fasi, Higham, Mikaitis,
Pranesh, Numerical behavior of NVIDIA tensor cores, PeerJ CS 7:e330, 2021). No figure is published for TPUs: assumed."""
_TF32 = (1.0 + 2.0**-11) ** 2 - 1.0
"""Both operands rounded to 11 significant bits."""
_BF16X3 = 3 * 2.0**-16 * (1.0 + 2.0**-7)
"""Operands as sums of two bf16: each leaves 2^-16, and the product of the low parts, up to 2^-16, is dropped."""
_BF16X6 = 2.0**-22 * (1.0 + 2.0**-7)
"""Operands as sums of three bf16: each leaves 2^-24; the products of order 2^-24 are dropped (XLA's HIGHEST)."""


def products(signature: Signature, machine: str) -> Products:
    """The error model of the signature's product on a key of `MACHINES`."""
    op = OPS[signature.op]
    dtypes = {operand.dtype for operand in signature.inputs if operand.name in op.operands}
    if all(DTYPES[dtype].kind == "int" for dtype in dtypes):
        return Products(1, 0.0, 0.0)
    if machine == "pallas-interpret":
        return Products(1, 0.0, _NEAREST)
    if "f32" not in dtypes:
        return Products(1, 0.0, _MATRIX_UNIT)
    if signature.f32_mma == "tf32":
        return Products(1, _TF32, _MATRIX_UNIT)
    if signature.f32_mma == "bf16x3":
        return Products(3, _BF16X3, _MATRIX_UNIT)
    return Products(6, _BF16X6, _MATRIX_UNIT) if machine == "pallas" else Products(1, 0.0, _NEAREST)


def gamma(terms: int, unit: float) -> float:
    """n u / (1 - n u): the relative error of a sum of n terms; infinite where n u reaches 1."""
    return terms * unit / (1.0 - terms * unit) if terms * unit < 1.0 else float("inf")


def result_bound(signature: Signature, sizes: Mapping[str, int], magnitude: Doubles, machine: str) -> Doubles:
    """Largest error of the op's result, where `magnitude` is the sum of the magnitudes of its exact terms."""
    model = products(signature, machine)
    op = OPS[signature.op]
    summed = 1
    for dim in dict.fromkeys("".join(operand.layout for operand in signature.inputs if operand.name in op.operands)):
        summed *= 1 if dim in op.result_axes + op.batch else sizes[dim]
    relative = model.operands + gamma(summed * model.terms, model.unit) * (1.0 + model.operands)
    underflow = _underflow(DTYPES[signature.acc], MACHINES[machine]) if model.unit else 0.0
    return relative * magnitude + summed * model.terms * underflow


def _underflow(dtype: DType, machine: Machine) -> float:
    """Largest absolute error of a result below the smallest normal number of a float format."""
    return dtype.smallest_normal if machine.flushes else dtype.smallest / 2


@dataclass(frozen=True, eq=False)
class Expected:
    """|computed - value| <= bound for one output, in its layout; the fields mean what they mean in `Bounded`."""

    value: Doubles
    bound: Doubles


def expected(
    signature: Signature, sizes: Mapping[str, int], inputs: Mapping[str, Array], machine: str
) -> dict[str, Expected]:
    """Every output by name, for inputs by name in their dtypes and layouts."""
    import numpy as np

    op = OPS[signature.op]
    arrays = {name: np.asarray(array).astype(np.float64) for name, array in inputs.items()}
    reference = op.reference(signature, arrays)
    bound = result_bound(signature, sizes, reference.magnitude, machine)
    env = {name: Bounded(array, np.zeros(())) for name, array in arrays.items() if name not in op.operands}
    env[op.result] = Bounded(reference.result, bound)
    return {output.name: _output(output, env, sizes, machine) for output in signature.outputs}


def _output(output: Output, env: Mapping[str, Bounded], sizes: Mapping[str, int], machine: str) -> Expected:
    import numpy as np

    typed = output.value
    fitted = {name: _fitted(env[name], typed, name) for name in typed.names}
    parts = [_slab_output(output, slab, machine) for slab in _slabs(typed, fitted)]
    axis = max(0, len(typed.axes) - 2)
    computed = Bounded(*(np.concatenate([getattr(p, f) for p in parts], axis) for f in ("value", "bound")))
    shape = tuple(sizes[dim] for dim in output.layout)
    own = [computed.value.shape[typed.axes.index(dim)] if dim in typed.axes else 1 for dim in output.layout]
    value, bound = (np.broadcast_to(array.reshape(own), shape) for array in (computed.value, computed.bound))
    return Expected(value, bound)


def _slab_output(output: Output, env: Mapping[str, Bounded], machine: str) -> Bounded:
    typed = output.value
    computed = evaluate(typed, env, machine)
    if typed.dtype == output.dtype:
        return computed
    return _stored(computed, DTYPES[typed.dtype], DTYPES[output.dtype], MACHINES[machine])


def _slabs(typed: Typed, env: Mapping[str, Bounded]) -> Iterator[dict[str, Bounded]]:
    """The variables a few rows at a time: what the interpreter makes of a slab stays in the processor's cache."""
    dim = typed.axes[max(0, len(typed.axes) - 2)]
    rows = max(v.value.shape[typed.env[n].axes.index(dim)] for n, v in env.items() if dim in typed.env[n].axes)
    elements = max(variable.value.size for variable in env.values())
    step = max(1, rows * SLAB // max(1, elements))
    for start in range(0, max(1, rows), step):
        yield {name: _rows(variable, typed.env[name].axes, dim, start, step) for name, variable in env.items()}


def _rows(variable: Bounded, axes: str, dim: str, start: int, step: int) -> Bounded:
    import numpy as np

    if dim not in axes:
        return variable
    index = tuple(slice(start, start + step) if letter == dim else slice(None) for letter in axes)
    bound = np.broadcast_to(variable.bound, variable.value.shape)
    return Bounded(variable.value[index], bound[index])


def _fitted(variable: Bounded, typed: Typed, name: str) -> Bounded:
    """The op's result is without a batch axis where only other operands have one."""
    import numpy as np

    if variable.value.ndim == len(typed.env[name].axes):
        return variable
    return Bounded(variable.value[np.newaxis], np.broadcast_to(variable.bound, variable.value.shape)[np.newaxis])


def _stored(computed: Bounded, source: DType, target: DType, machine: Machine) -> Bounded:
    """A value of dtype `source` as it is rounded to an output's dtype, an integer by way of f32."""
    import numpy as np

    with np.errstate(all="ignore"):
        before = ranges.around(computed.value, computed.bound)
        if source.kind == "int":
            before = ranges.rounded(before, 0.5, machine)
        after = ranges.cast(before, target, machine)
        if target.kind == "int":
            return Bounded(after.value, ranges.bound_of(after))
        bound = ranges.bound_of(before)
        largest = np.abs(before.value) + bound
        # within the format's range; beyond it, and for NaN, what the cast gives is all that can be said
        inside = largest * (1.0 + target.unit_roundoff) < target.largest
        error = target.unit_roundoff * largest + _underflow(target, machine)
        value = np.where(inside, before.value, after.value)
        return Bounded(value, np.where(inside, bound + error, ranges.bound_of(after)))
