"""Computed outputs against what they have to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgen.verify.tolerance import Expected

if TYPE_CHECKING:
    from kgen.verify.arrays import Array


MOST_UNKNOWN = 0.01
"""The part of an output's elements that may have an infinite bound; one element always may."""


@dataclass(frozen=True)
class Comparison:
    """How one output fared. Its worst element is the one whose error is the largest part of its bound."""

    output: str
    elements: int
    wrong: int
    """Elements outside their bound."""
    unknown: int
    """Elements whose bound is infinite: any result passes."""
    ratio: float
    """Error over bound of the worst element: at most 1 is right, infinite where no error is allowed; 0 if empty."""
    index: tuple[int, ...]
    """Of the worst element; empty for a scalar or an empty output."""
    computed: float
    value: float
    bound: float
    most_unknown: float = MOST_UNKNOWN

    @property
    def ok(self) -> bool:
        """Every element lies within its bound, and the bounds say something about nearly all of them."""
        return self.wrong == 0 and self.known

    @property
    def known(self) -> bool:
        """No more elements without a finite bound than are allowed."""
        if self.most_unknown < 1.0 and self.elements and self.unknown == self.elements:
            return False
        return self.unknown <= max(1.0, self.most_unknown * self.elements)

    def __str__(self) -> str:
        where = f"{self.output}[{', '.join(map(str, self.index))}]"
        if self.elements and self.unknown == self.elements:
            return f"{self.output}: no element has a finite bound, so nothing is checked"
        detail = f"{where} = {self.computed:.9g}, expected {self.value:.9g} ± {self.bound:.3g}"
        if self.wrong:
            return f"{self.output}: {self.wrong} of {self.elements} elements are wrong; worst: {detail}"
        if not self.known:
            return (
                f"{self.output}: {self.unknown} of {self.elements} elements have no finite bound; too few are checked"
            )
        unknown = f", {self.unknown} without a finite bound" if self.unknown else ""
        return f"{self.output}: {self.elements} elements, largest error {self.ratio:.2f} of its bound{unknown}"


def compare(output: str, computed: Array, expected: Expected, most_unknown: float = MOST_UNKNOWN) -> Comparison:
    """Compares one output; both have one shape. NaN and infinities agree only with themselves.

    `most_unknown` is the part of the elements that may have an infinite bound; 1 allows all.
    """
    import numpy as np

    if computed.shape != expected.value.shape:
        raise ValueError(f"{output} has shape {computed.shape}, expected {expected.value.shape}")
    got = computed.astype(np.float64)
    ratio = _ratios(got, expected)
    if not ratio.size:
        return Comparison(output, 0, 0, 0, 0.0, (), 0.0, 0.0, 0.0)
    worst = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    return Comparison(
        output=output,
        elements=ratio.size,
        wrong=int(np.count_nonzero(ratio > 1.0)),
        unknown=int(np.count_nonzero(np.isinf(expected.bound))),
        ratio=float(ratio[worst]),
        index=tuple(int(i) for i in worst),
        computed=float(got[worst]),
        value=float(expected.value[worst]),
        bound=float(expected.bound[worst]),
        most_unknown=most_unknown,
    )


def _ratios(got: Array, expected: Expected) -> Array:
    """Error over bound; 0 where the two are the same or anything passes, infinite where one is not finite."""
    import numpy as np

    value, bound = expected.value, expected.bound
    same = (got == value) | (np.isnan(got) & np.isnan(value)) | np.isinf(bound)
    with np.errstate(all="ignore"):
        ratio = np.abs(got - value) / bound
    ratio = np.where(np.isfinite(got) & np.isfinite(value), ratio, np.inf)
    return np.where(same, 0.0, ratio)


def first_difference(one: Array, other: Array) -> tuple[int, ...] | None:
    """The first index at which two arrays of one shape and dtype differ in their bits; None if they are equal."""
    import numpy as np

    if (one.shape, one.dtype) != (other.shape, other.dtype):
        raise ValueError(
            f"{one.dtype}{list(one.shape)} cannot be compared bit by bit with {other.dtype}{list(other.shape)}"
        )
    unsigned = f"u{one.itemsize}"
    different = np.ascontiguousarray(one).view(unsigned) != np.ascontiguousarray(other).view(unsigned)
    if not different.any():
        return None
    return tuple(int(i) for i in np.argwhere(different)[0])
