"""Ranges of what a machine may compute, and how one f32 operation maps them.

A `Range` holds the exact value and an interval [low, high] that contains every result the machine may come to.
Infinite ends mean that the machine may overflow. Two states need care:

- `low` and `high` both NaN: the result is NaN for certain.
- `nan`: the result may be NaN, or lie in [low, high].

A range of zero width is the machine's result exactly, including the sign of zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgen.expr.dtypes import DTYPES, DType
from kgen.expr.machines import Machine
from kgen.expr.rounding import round_to

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Mask = NDArray[np.bool_]

_F32 = DTYPES["f32"]
_OVERFLOW = 2.0**128 - 2.0**103
"""Results of at least this magnitude round to infinity (IEEE 754 section 4.3.1)."""
_SLACK = 1.0 + 2.0**-20
"""Covers the float64 arithmetic on the ends themselves, whose relative error is some 2^-52 of an f32's 2^-24."""


@dataclass(frozen=True)
class Range:
    """Exact value, and what the machine may compute for it; arrays of one shape."""

    value: Array
    low: Array
    high: Array
    nan: Mask


@dataclass(frozen=True)
class Condition:
    """Exact truth, and whether the machine is certain to find it true or false; arrays of one shape."""

    value: Mask
    true: Mask
    false: Mask


def point(value: Any) -> Range:
    """A value the machine holds exactly."""
    import numpy as np

    array = np.asarray(value, dtype=np.float64)
    return Range(array, array, array, np.isnan(array))


def around(value: Any, bound: Any) -> Range:
    """A value known to within `bound`; an infinite bound admits anything, NaN included."""
    import numpy as np

    exact, radius = np.broadcast_arrays(np.asarray(value, np.float64), np.asarray(bound, np.float64))
    anything = np.isinf(radius)
    # inf - inf is no number: an infinite value with a finite bound is certain
    certain = (radius == 0) | (np.isinf(exact) & ~anything)
    low = np.where(anything, -np.inf, np.where(certain, exact, exact - radius))
    high = np.where(anything, np.inf, np.where(certain, exact, exact + radius))
    return Range(exact, low, high, anything | np.isnan(exact))


def bound_of(x: Range) -> Array:
    """Largest distance of a computed result from the value; 0 where it is exact, infinite where nothing is known.

    NaN and infinite values that are certain have bound 0: the machine must produce them.
    """
    import numpy as np

    certain = (np.isnan(x.low) & np.isnan(x.value)) | ((x.low == x.value) & (x.high == x.value) & ~x.nan)
    unknown = x.nan | ~np.isfinite(x.value)
    distance = np.maximum(x.high - x.value, x.value - x.low)
    return np.where(certain, 0.0, np.where(unknown, np.inf, distance))


def rounded(x: Range, ulps: float, machine: Machine) -> Range:
    """What the machine makes of an exact result in `x` by an operation that errs by up to `ulps` of f32."""
    import numpy as np

    # correct rounding leaves a point that f32 holds as it is; an error in ulps, being relative, leaves 0 as it is
    held = round_to(x.low, _F32) if ulps <= 0.5 else 0.0
    exact = (x.low == x.high) & (x.low == held)
    low = np.where(exact, x.low, x.low - _error(x.low, ulps))
    high = np.where(exact, x.high, x.high + _error(x.high, ulps))
    return flushed(_overflowed(x.value, low, high, x.nan), machine)


def _error(x: Array, ulps: float) -> Array:
    import numpy as np

    error = ulps * _SLACK * np.maximum(np.abs(x) * 2.0**-23, _F32.smallest)
    return np.where(np.isinf(x), 0.0, error)


def _overflowed(value: Array, low: Array, high: Array, nan: Mask) -> Range:
    import numpy as np

    low, high = (np.where(np.abs(end) >= _OVERFLOW, np.copysign(np.inf, end), end) for end in (low, high))
    return Range(np.where((low == high) & np.isinf(low), low, value), low, high, nan)


def flushed(x: Range, machine: Machine) -> Range:
    """`x` with 0 added where the machine may replace a subnormal by it."""
    import numpy as np

    if not machine.flushes:
        return x
    tiny = _F32.smallest_normal
    low = np.where((x.low > 0) & (x.low < tiny), 0.0, x.low)
    high = np.where((x.high < 0) & (x.high > -tiny), -0.0, x.high)
    return Range(x.value, low, high, x.nan)


def _corners(op: Callable[[Array, Array], Array], x: Range, y: Range) -> tuple[Array, Array, Mask]:
    """Lowest and highest of `op` at the four pairs of ends, and where a pair gives NaN."""
    import numpy as np

    corners = np.stack(np.broadcast_arrays(*(op(a, b) for a in (x.low, x.high) for b in (y.low, y.high))))
    low, high = np.fmin.reduce(corners), np.fmax.reduce(corners)
    # fmin and fmax take either zero for the lesser: a divisor's sign depends on it
    zero, negative = corners == 0, np.signbit(corners)
    low = np.where((low == 0) & np.any(zero & negative, axis=0), -0.0, low)
    high = np.where((high == 0) & np.any(zero & ~negative, axis=0), 0.0, high)
    return low, high, np.any(np.isnan(corners), axis=0)


def _contains(x: Range, number: float) -> Mask:
    return (x.low <= number) & (x.high >= number)


def _infinite(x: Range) -> Mask:
    import numpy as np

    return np.isinf(x.low) | np.isinf(x.high)


def add(x: Range, y: Range, machine: Machine) -> Range:
    """x + y."""
    import numpy as np

    low, high, nan = _corners(np.add, x, y)
    return rounded(Range(x.value + y.value, low, high, x.nan | y.nan | nan), machine.ulps["+"], machine)


def negate(x: Range) -> Range:
    """-x, exactly."""
    return Range(-x.value, -x.high, -x.low, x.nan)


def multiply(x: Range, y: Range, machine: Machine) -> Range:
    """x * y."""
    import numpy as np

    low, high, nan = _corners(np.multiply, x, y)
    nan = nan | (_contains(x, 0.0) & _infinite(y)) | (_infinite(x) & _contains(y, 0.0))
    return rounded(Range(x.value * y.value, low, high, x.nan | y.nan | nan), machine.ulps["*"], machine)


def divide(x: Range, y: Range, machine: Machine) -> Range:
    """x / y; a divisor that may have either sign admits anything."""
    return rounded(_quotient(x, y), machine.ulps["/"], machine)


def _quotient(x: Range, y: Range) -> Range:
    import numpy as np

    low, high, nan = _corners(np.divide, x, y)
    either = np.signbit(y.low) & ~np.signbit(y.high)
    low, high = np.where(either, -np.inf, low), np.where(either, np.inf, high)
    nan = nan | (_contains(x, 0.0) & _contains(y, 0.0)) | (_infinite(x) & _infinite(y))
    return Range(x.value / y.value, low, high, x.nan | y.nan | nan)


def _any_zero(x: Range) -> Range:
    """`x` with zeros of either sign: max and min may return either."""
    import numpy as np

    low, high = np.where(x.low == 0, -0.0, x.low), np.where(x.high == 0, 0.0, x.high)
    return Range(x.value, low, high, x.nan)


def maximum(x: Range, y: Range) -> Range:
    """The larger, NaN if either is."""
    import numpy as np

    ends = np.maximum(x.low, y.low), np.maximum(x.high, y.high)
    return _any_zero(Range(np.maximum(x.value, y.value), *ends, x.nan | y.nan))


def minimum(x: Range, y: Range) -> Range:
    """The smaller, NaN if either is."""
    return negate(maximum(negate(x), negate(y)))


def absolute(x: Range) -> Range:
    """|x|."""
    import numpy as np

    ends = np.abs(x.low), np.abs(x.high)
    low = np.where(_contains(x, 0.0), 0.0, np.minimum(*ends))
    return Range(np.abs(x.value), low, np.maximum(*ends), x.nan)


def rising(f: Callable[[Array], Array], x: Range) -> Range:
    """Exact results of a function that rises on its whole domain; arguments below the domain give NaN."""
    import numpy as np

    low, high = f(x.low), f(x.high)
    # sqrt and log of a range that reaches below 0: the numbers come from 0, of either sign, up
    below = np.isnan(low) & ~np.isnan(high)
    low = np.where(below, f(np.full_like(x.low, -0.0)), low)
    return Range(f(x.value), low, high, x.nan | below | np.isnan(high))


def rsqrt(x: Range) -> Range:
    """Exact results of 1 / sqrt(x)."""
    import numpy as np

    return _quotient(point(1.0), rising(np.sqrt, x))


def cast(x: Range, dtype: DType, machine: Machine) -> Range:
    """`x` rounded to `dtype`. The value is rounded too; an integer is never NaN."""
    import numpy as np

    value, low, high = (round_to(end, dtype) for end in (x.value, x.low, x.high))
    if dtype.kind == "float":
        return flushed(Range(value, low, high, x.nan), machine)
    low, high = np.where(x.nan, np.minimum(low, 0.0), low), np.where(x.nan, np.maximum(high, 0.0), high)
    return Range(value, low, high, np.zeros_like(x.nan))


def select(condition: Condition, x: Range, y: Range) -> Range:
    """x where the condition holds, else y; both where the machine may decide either way."""
    import numpy as np

    def pick(of_x: Any, of_y: Any, either: Any) -> Any:
        return np.where(condition.true, of_x, np.where(condition.false, of_y, either))

    return Range(
        np.where(condition.value, x.value, y.value),
        pick(x.low, y.low, np.fmin(x.low, y.low)),
        pick(x.high, y.high, np.fmax(x.high, y.high)),
        pick(x.nan, y.nan, x.nan | y.nan),
    )


def less(x: Range, y: Range) -> Condition:
    """x < y; false for NaN."""
    import numpy as np

    sure = ~(x.nan | y.nan)
    nan = np.isnan(x.low) | np.isnan(y.low)
    return Condition(x.value < y.value, sure & (x.high < y.low), (sure & (x.low >= y.high)) | nan)


def less_equal(x: Range, y: Range) -> Condition:
    """x <= y; false for NaN."""
    import numpy as np

    sure = ~(x.nan | y.nan)
    nan = np.isnan(x.low) | np.isnan(y.low)
    return Condition(x.value <= y.value, sure & (x.high <= y.low), (sure & (x.low > y.high)) | nan)


def equal(x: Range, y: Range) -> Condition:
    """x == y; false for NaN."""
    return both(less_equal(x, y), less_equal(y, x))


def opposite(x: Condition) -> Condition:
    """not x."""
    return Condition(~x.value, x.false, x.true)


def both(x: Condition, y: Condition) -> Condition:
    """x and y."""
    return Condition(x.value & y.value, x.true & y.true, x.false | y.false)
