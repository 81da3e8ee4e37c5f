"""Seeded inputs: the same for the same seed, shape and operand, whatever else a signature holds."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kgen.expr import DTYPES, DType
from kgen.ops import OPS, Op
from kgen.spec.kernel import Operand, Signature
from kgen.verify.arrays import to_dtype

if TYPE_CHECKING:
    import numpy as np

    from kgen.verify.arrays import Array

_INTEGERS = {"i8": 128, "i32": 1000}
"""Integers are drawn from [-limit, limit)."""
TAME, WILD, ZERO = "tame", "wild", "zero"
"""Draws. Tame inputs keep every result in its range. Wild ones have special values in the tensors beside the op's
operands, negative scalars, and operands that make integer casts saturate. In a draw of zero the scalars are 0."""
_SPECIAL = 0.2
"""The part of a wild tensor that is special."""
_LARGE = 2.0**40
"""A product with it does not overflow: where one would and an infinity is added, a fused multiply-add is right to give
another result than a multiplication and an addition."""
_WILD_SCALE, _WILD_SCALAR = 2.0**5, -1.75


def make_inputs(signature: Signature, sizes: Mapping[str, int], seed: str, draw: str = TAME) -> dict[str, Array]:
    """Every input by name, in its layout and dtype. `seed` is any text: a kernel's digest by default.

    The op's own operands are normal, scaled so that the op's result has variance 1; other tensors are normal;
    scalars lie in [0.5, 2), so that a scale does not hide the result nor an epsilon turn negative. Other draws change
    that as they say.
    """
    op = OPS[signature.op]
    tame = {operand.name: _draw(operand, op, sizes, seed) for operand in signature.inputs}
    if draw == TAME:
        return tame
    change = _zero if draw == ZERO else _wild
    return {o.name: change(o, op, tame[o.name], _generator(f"{seed} {draw}", o.name, sizes)) for o in signature.inputs}


def _zero(operand: Operand, op: Op, tame: Array, rng: np.random.Generator) -> Array:
    return tame if operand.layout else to_dtype(0.0, operand.dtype)


def _wild(operand: Operand, op: Op, tame: Array, rng: np.random.Generator) -> Array:
    """Operands of the op stay finite: what a NaN does to a sum says nothing of the rest."""
    import numpy as np

    if not operand.layout:
        return to_dtype(_WILD_SCALAR, operand.dtype)
    if operand.name in op.operands:
        return tame if operand.dtype in _INTEGERS else to_dtype(tame.astype(np.float64) * _WILD_SCALE, operand.dtype)
    values = rng.choice(_specials(DTYPES[operand.dtype]), size=tame.shape)
    special = rng.random(tame.shape) < _SPECIAL
    return to_dtype(np.where(special, values, tame.astype(np.float64)), operand.dtype)


def _specials(dtype: DType) -> list[float]:
    if dtype.kind == "int":
        limit = 2.0 ** (8 * dtype.bytes - 1)
        return [-limit, limit - 1.0, 0.0]
    large, tiny = min(dtype.largest, _LARGE), dtype.smallest_normal
    return [math.nan, math.inf, -math.inf, -0.0, large, -large, tiny, -tiny]


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
