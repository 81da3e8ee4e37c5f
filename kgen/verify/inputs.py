"""Seeded inputs: the same for the same seed, shape and operand, whatever else a signature holds."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kgen.ops import OPS, Op
from kgen.spec.kernel import Operand, Signature
from kgen.verify.arrays import to_dtype

if TYPE_CHECKING:
    import numpy as np

    from kgen.verify.arrays import Array

_INTEGERS = {"i8": 128, "i32": 1000}
"""Integers are drawn from [-limit, limit)."""


def make_inputs(signature: Signature, sizes: Mapping[str, int], seed: str) -> dict[str, Array]:
    """Every input by name, in its layout and dtype. `seed` is any text: a kernel's digest by default.

    The op's own operands are normal, scaled so that the op's result has variance 1; other tensors are normal;
    scalars lie in [0.5, 2), so that a scale does not hide the result nor an epsilon turn negative.
    """
    op = OPS[signature.op]
    return {operand.name: _draw(operand, op, sizes, seed) for operand in signature.inputs}


def _draw(operand: Operand, op: Op, sizes: Mapping[str, int], seed: str) -> Array:
    shape = tuple(sizes[dim] for dim in operand.layout)
    rng = _generator(seed, operand.name, sizes)
    if operand.dtype in _INTEGERS:
        limit = _INTEGERS[operand.dtype]
        return to_dtype(rng.integers(-limit, limit, size=shape), operand.dtype)
    if not operand.layout:
        return to_dtype(rng.uniform(0.5, 2.0), operand.dtype)
    return to_dtype(rng.normal(scale=_scale(operand, op, sizes), size=shape), operand.dtype)


def _scale(operand: Operand, op: Op, sizes: Mapping[str, int]) -> float:
    if operand.name not in op.operands:
        return 1.0
    summed = math.prod(sizes[dim] for dim in operand.layout if dim not in op.result_axes + op.batch)
    return float(max(1, summed) ** (-0.5 / len(op.operands)))


def _generator(seed: str, name: str, sizes: Mapping[str, int]) -> np.random.Generator:
    import numpy as np

    key: Any = (seed, name, sorted(sizes.items()))
    return np.random.default_rng(int.from_bytes(hashlib.sha256(repr(key).encode()).digest(), "little"))
