"""Views: tensors seen through transforms. The one place where addresses and edge predicates come from.

A view is a graph of transforms: at its bottom a memory offset in elements, at its top the visible dims, in between
hidden dims that only the view knows. Each method adds one transform on top and gives a new view:

    a = View.tensor({"m": m, "k": k}, strides=(lda, 1))
    tile = a.tile("m", block_m * 128, 128).tile("k", k_tile * 32, 32)
    tile.at(m=row, k=column)                    # Access: offset and the condition under which it exists
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kgen.transform.coordinates import (
    Embed,
    Freeze,
    Lookup,
    Merge,
    Pad,
    Pass,
    Replicate,
    Slice,
    Transform,
    Unmerge,
    XorSwizzle,
)
from kgen.transform.index import IndexExpr, as_expr, const, constant, linear, maximum, minimum, sym
from kgen.transform.predicate import Negative, Predicate, both, conjuncts
from kgen.transform.walk import split_condition, substitute

Length = IndexExpr | int


@dataclass(frozen=True)
class Access:
    """One element: its offset from the base in elements, and the condition under which it exists."""

    offset: IndexExpr
    valid: Predicate


@dataclass(frozen=True)
class VectorAccess:
    """`width` neighbouring elements along one dim, starting at `offset`.

    `valid` is the condition that holds for all of them alike; where it is met, the first `count` exist
    (a constant, the width, where the edge never cuts a vector).
    """

    offset: IndexExpr
    valid: Predicate
    count: IndexExpr
    width: int

    @property
    def uniform(self) -> bool:
        """Whether the vector exists as a whole or not at all."""
        return constant(self.count) == self.width


@dataclass(frozen=True)
class _Stage:
    """A transform with the ids of its upper and lower dims."""

    transform: Transform
    upper: tuple[int, ...]
    lower: tuple[int, ...]


@dataclass(frozen=True)
class _Dim:
    """A visible dim."""

    name: str
    id: int
    length: IndexExpr


@dataclass(frozen=True)
class View:
    """A tensor with visible `dims`, slowest first, over a memory offset in elements (hidden dim 0)."""

    dims: tuple[_Dim, ...]
    stages: tuple[_Stage, ...]
    """Bottom first."""
    ids: int
    """How many ids of dims are used."""

    # ----------------------------------------------------------------------------------------- making views

    @staticmethod
    def tensor(dims: Mapping[str, Length], strides: Sequence[Length] | None = None, offset: Length = 0) -> View:
        """A strided tensor: each dim's length, slowest first, and its stride in elements (packed where left out)."""
        lengths = [as_expr(length) for length in dims.values()]
        steps = [as_expr(s) for s in strides] if strides is not None else _packed(lengths)
        if len(steps) != len(lengths):
            raise ValueError(f"{len(steps)} strides for dims {list(dims)}")
        visible = tuple(_Dim(n, i + 1, e) for i, (n, e) in enumerate(zip(dims, lengths, strict=True)))
        bottom = _Stage(Embed(tuple(steps), as_expr(offset)), tuple(d.id for d in visible), (0,))
        return View(visible, (bottom,), len(visible) + 1)

    def _replaced(self, old: Sequence[str], transform: Transform, new: Mapping[str, Length]) -> View:
        """The dims `old` taken from view, `new` ones put where the first of them was (at the end for none)."""
        found = [self._find(name) for name in old]
        fresh = tuple(_Dim(n, self.ids + i, as_expr(e)) for i, (n, e) in enumerate(new.items()))
        place = self.dims.index(found[0]) if found else len(self.dims)
        dims = [d for d in self.dims if d not in found]
        place -= sum(1 for d in found if self.dims.index(d) < place)
        dims[place:place] = fresh
        names = [d.name for d in dims]
        if len(set(names)) < len(names):
            raise ValueError(f"two dims have one name: {names}")
        stage = _Stage(transform, tuple(d.id for d in fresh), tuple(d.id for d in found))
        return View(tuple(dims), (*self.stages, stage), self.ids + len(fresh))

    def _find(self, name: str) -> _Dim:
        for dim in self.dims:
            if dim.name == name:
                return dim
        raise KeyError(f"no dim {name!r} among {[d.name for d in self.dims]}")

    def length(self, name: str) -> IndexExpr:
        """The length of a visible dim."""
        return self._find(name).length

    def rename(self, old: str, new: str) -> View:
        """The dim `old` under another name."""
        return self._replaced([old], Pass(), {new: self.length(old)})

    def pad(self, dim: str, left: Length = 0, right: Length = 0) -> View:
        """`left` elements before and `right` after the dim that do not exist."""
        length = self.length(dim)
        transform = Pad(length, as_expr(left), as_expr(right))
        return self._replaced([dim], transform, {dim: length + left + right})

    def slice(self, dim: str, begin: Length, length: Length) -> View:
        """The window [begin, begin + length) of a dim, which the caller knows to lie inside."""
        return self._replaced([dim], Slice(as_expr(begin)), {dim: length})

    def tile(self, dim: str, origin: Length, extent: int) -> View:
        """The window of `extent` elements from `origin` (>= 0); it may run over the end of the dim."""
        padded = self._replaced([dim], Pad(self.length(dim), const(0), None), {dim: self.length(dim) + extent})
        return padded.slice(dim, origin, extent)

    def merge(self, dims: Sequence[str], name: str) -> View:
        """Dims as one, counted in row-major order."""
        lengths = tuple(self.length(d) for d in dims)
        product = lengths[0]
        for length in lengths[1:]:
            product = product * length
        return self._replaced(dims, Merge(lengths), {name: product})

    def unmerge(self, dim: str, parts: Mapping[str, Length]) -> View:
        """A dim as several whose lengths multiply to its own, slowest first."""
        lengths = tuple(as_expr(length) for length in parts.values())
        return self._replaced([dim], Unmerge(lengths), parts)

    def xor(self, row: str, chunk: str, shift: int, mask: int) -> View:
        """Chunks permuted in each row: chunk ^ (row >> shift & mask). `mask` + 1 is a power of two in the chunks."""
        chunks = constant(self.length(chunk))
        if mask & (mask + 1) or chunks is None or chunks % (mask + 1):
            raise ValueError(f"xor mask {mask}: {mask} + 1 must be a power of two that divides {chunks} chunks")
        new = {row: self.length(row), chunk: self.length(chunk)}
        swapped = self._replaced([row, chunk], XorSwizzle(shift, mask), new)
        return swapped._ordered([d.name for d in self.dims])

    def _ordered(self, names: Sequence[str]) -> View:
        return View(tuple(self._find(name) for name in names), self.stages, self.ids)

    def freeze(self, dim: str, value: Length) -> View:
        """A dim fixed at one index, no longer visible."""
        return self._replaced([dim], Freeze(as_expr(value)), {})

    def replicate(self, dim: str, length: Length) -> View:
        """A new last dim along which the same elements repeat."""
        return self._replaced([], Replicate(), {dim: length})

    def lookup(self, dim: str, table: str, length: Length, *, multiple_of: int = 1) -> View:
        """A dim indexed through `table` in memory, of `length` entries, each an index of the dim as it was."""
        bound = self.length(dim).hi
        limit = 2**31 - 1 if bound is None else bound
        return self._replaced([dim], Lookup(table, limit, multiple_of), {dim: length})

    # ----------------------------------------------------------------------------------------- reading views

    def at(self, **indices: IndexExpr | int) -> Access:
        """The element at visible indices, each in [0, length of its dim)."""
        if set(indices) != {d.name for d in self.dims}:
            raise KeyError(f"indices {sorted(indices)} for dims {[d.name for d in self.dims]}")
        known = {d.id: as_expr(indices[d.name]) for d in self.dims}
        valid = []
        for stage in reversed(self.stages):
            upper = tuple(known[i] for i in stage.upper)
            known.update(zip(stage.lower, stage.transform.lower(upper), strict=True))
            valid.append(stage.transform.valid(upper))
        return Access(known[0], both(*reversed(valid)))

    def vector(self, dim: str, width: int, **indices: IndexExpr | int) -> VectorAccess:
        """`width` elements along `dim` from the given indices; ValueError unless they are neighbours in memory.

        The edge may cut the vector at its end, never at its start.
        """
        lane = sym("vector element", 0, width)
        access = self.at(**{**indices, dim: as_expr(indices[dim]) + lane})
        first = substitute(access.offset, {lane: 0})
        if access.offset - first is not lane and width > 1:
            raise ValueError(f"{width} elements along {dim} are not neighbours in memory: {access.offset!r}")
        valid, cut = split_condition(access.valid, lane)
        count: IndexExpr = const(width)
        for part in conjuncts(cut):
            count = minimum(count, _existing(part, lane))
        return VectorAccess(first, valid, maximum(count, 0), width)

    def widest(self, dim: str, *, element_bytes: int, align: int, most: int = 16, cut: bool = False) -> int:
        """The most elements along `dim` that one access may move: a power of two, at most `most` bytes.

        What is proven for it: the elements are neighbours, every vector starts at a multiple of its size in bytes
        where the base is aligned to `align` bytes, and the edge leaves each vector whole or out. With `cut` the edge
        may cut a vector: the caller moves the `count` elements that `vector` gives.
        """
        width = most // element_bytes
        while width > 1 and not (width * element_bytes <= align and self._moves(dim, width, cut)):
            width //= 2
        return max(width, 1)

    def _moves(self, dim: str, width: int, cut: bool) -> bool:
        if not cut and self.length(dim).multiple % width:
            return False
        indices: dict[str, IndexExpr | int] = {d.name: _any_index(d) for d in self.dims}
        indices[dim] = _any_index(self._find(dim), width) * width
        try:
            access = self.vector(dim, width, **indices)
        except ValueError:
            return False
        return access.offset.multiple % width == 0 and (cut or access.uniform)

    def __iter__(self) -> Iterator[str]:
        return (d.name for d in self.dims)


def _packed(lengths: Sequence[IndexExpr]) -> list[IndexExpr]:
    strides = [as_expr(1)]
    for length in reversed(lengths[1:]):
        strides.append(strides[-1] * length)
    return strides[::-1]


def _any_index(dim: _Dim, step: int = 1) -> IndexExpr:
    """Any index of the dim, in steps."""
    last = dim.length.hi
    return sym(f"any {dim.name}", 0, None if last is None else max(last // step, 1), wide=True)


def _existing(part: Predicate, lane: IndexExpr) -> IndexExpr:
    """How many leading elements meet `part`: lane + rest < 0 holds for lane < -rest."""
    if isinstance(part, Negative):
        terms, _ = linear(part.diff)
        if dict(terms).get(lane) == 1:
            return -(part.diff - lane)
    raise ValueError(f"the edge does not cut a vector at its end: {part!r}")
