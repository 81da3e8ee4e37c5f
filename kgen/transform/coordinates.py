"""Tensor coordinate transforms: each maps upper (visible) indices to lower ones, and says where that is valid.

The set is that of Composable Kernel's tensor descriptors (ROCm/composable_kernel, multi_index_transform.hpp), stated
anew over symbolic indices. "Valid" means that the lower index names an element that exists. A transform does not
check what its own upper lengths already say: an upper index is in [0, length) by contract.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kgen.transform.index import IndexExpr, add, const, floordiv, gather, mod, mul, total, xor
from kgen.transform.predicate import TRUE, Predicate, both, less

Indices = tuple[IndexExpr, ...]


class Transform(Protocol):
    """One map from upper indices to lower ones."""

    def lower(self, upper: Indices) -> Indices:
        """The lower indices of `upper`."""
        ...

    def valid(self, upper: Indices) -> Predicate:
        """Where the lower indices name elements that exist."""
        ...


class _Total:
    """A transform that maps every upper index to an element that exists."""

    def valid(self, upper: Indices) -> Predicate:
        """True."""
        return TRUE


@dataclass(frozen=True)
class Pass(_Total):
    """lower = upper."""

    def lower(self, upper: Indices) -> Indices:
        """The index itself."""
        return upper


@dataclass(frozen=True)
class Pad:
    """`left` elements before and `right` after a dim of `length`: lower = upper - left, valid inside only.

    `right` None stands for any number of elements, as when tiles run over the edge.
    """

    length: IndexExpr
    left: IndexExpr
    right: IndexExpr | None

    def lower(self, upper: Indices) -> Indices:
        """upper - left."""
        return (upper[0] - self.left,)

    def valid(self, upper: Indices) -> Predicate:
        """left <= upper < left + length, each side only where there is padding."""
        before = TRUE if self.left is const(0) else less(add(self.left, -1), upper[0])
        after = TRUE if self.right is const(0) else less(upper[0], self.left + self.length)
        return both(before, after)


@dataclass(frozen=True)
class Slice(_Total):
    """A window that begins at `begin`: lower = upper + begin."""

    begin: IndexExpr

    def lower(self, upper: Indices) -> Indices:
        """upper + begin."""
        return (upper[0] + self.begin,)


@dataclass(frozen=True)
class Embed(_Total):
    """lower = offset + sum of upper * stride: strided memory, or a sliding window."""

    strides: Indices
    offset: IndexExpr

    def lower(self, upper: Indices) -> Indices:
        """The one lower index."""
        return (total((self.offset, *(mul(u, s) for u, s in zip(upper, self.strides, strict=True)))),)


@dataclass(frozen=True)
class Merge(_Total):
    """One upper dim counts through lower dims of `lengths` in row-major order: lower = digits of upper.

    The first length is not needed to find the digits and may be anything.
    """

    lengths: Indices

    def lower(self, upper: Indices) -> Indices:
        """The digits, slowest first."""
        rest, digits = upper[0], []
        for length in reversed(self.lengths[1:]):
            digits.append(mod(rest, length))
            rest = floordiv(rest, length)
        return (rest, *reversed(digits))


@dataclass(frozen=True)
class Unmerge(_Total):
    """Upper dims of `lengths` count through one lower dim in row-major order."""

    lengths: Indices

    def lower(self, upper: Indices) -> Indices:
        """The number with the upper indices as digits, slowest first."""
        value = upper[0]
        for digit, length in zip(upper[1:], self.lengths[1:], strict=True):
            value = value * length + digit
        return (value,)


@dataclass(frozen=True)
class XorSwizzle(_Total):
    """(row, chunk) -> (row, chunk ^ (row >> shift & mask)): a permutation of the chunks of each row."""

    shift: int
    mask: int

    def lower(self, upper: Indices) -> Indices:
        """The row as it is, and the chunk it is stored at. `mask` is a power of two less one."""
        row, chunk = upper
        return row, xor(chunk, mod(floordiv(row, 1 << self.shift), self.mask + 1))


@dataclass(frozen=True)
class Freeze(_Total):
    """A dim fixed at `value`; it has no upper index."""

    value: IndexExpr

    def lower(self, upper: Indices) -> Indices:
        """The value."""
        return (self.value,)


@dataclass(frozen=True)
class Replicate(_Total):
    """An upper dim that changes nothing below: broadcast."""

    def lower(self, upper: Indices) -> Indices:
        """No lower index."""
        return ()


@dataclass(frozen=True)
class Lookup(_Total):
    """lower = table[upper]: a gather through a table of indices in [0, length) kept in memory."""

    table: str
    length: int
    multiple_of: int = 1

    def lower(self, upper: Indices) -> Indices:
        """The table's entry."""
        return (gather(self.table, upper[0], 0, self.length, multiple_of=self.multiple_of),)
