"""Views against brute force: offsets, validity and vector widths of every transform and of random chains of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgen.transform import TRUE, View, constant, evaluate, holds, sym, to_c

Place = int | None
"""An offset in elements, None where no element exists."""


@dataclass(frozen=True)
class Model:
    """What a view must equal: offsets of its elements in row-major order of visible dims, kept as a plain table."""

    view: View
    shape: tuple[int, ...]
    cells: tuple[Place, ...]

    def cell(self, index: Sequence[int]) -> Place:
        """The offset at a visible index."""
        at = 0
        for i, size in zip(index, self.shape, strict=True):
            at = at * size + i
        return self.cells[at]

    def derived(
        self, view: View, shape: tuple[int, ...], source: Callable[[tuple[int, ...]], Sequence[int] | None]
    ) -> Model:
        """A view whose element at an index is this one's at source(index), or none."""
        cells = []
        for index in itertools.product(*(range(size) for size in shape)):
            below = source(index)
            inside = below is not None and all(0 <= i < n for i, n in zip(below, self.shape, strict=True))
            cells.append(self.cell(below) if inside and below is not None else None)
        return Model(view, shape, tuple(cells))


def _names(view: View) -> list[str]:
    return list(view)


def _replace(index: Sequence[int], at: int, *values: int) -> tuple[int, ...]:
    return (*index[:at], *values, *index[at + 1 :])


@st.composite
def _tensors(draw: st.DrawFn) -> Model:
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6, 8]), min_size=1, max_size=3)))
    strides = tuple(draw(st.sampled_from([0, 1, 2, 4, 8, 24])) for _ in shape)
    offset = draw(st.sampled_from([0, 4, 7]))
    view = View.tensor({f"d{i}": n for i, n in enumerate(shape)}, strides, offset)
    cells = [
        offset + sum(i * s for i, s in zip(index, strides, strict=True))
        for index in itertools.product(*(range(size) for size in shape))
    ]
    return Model(view, shape, tuple(cells))


@st.composite
def _grown(draw: st.DrawFn, model: Model, step: int) -> Model:
    """`model` with one more transform on top."""
    view, shape, names = model.view, model.shape, _names(model.view)
    at = draw(st.integers(0, len(names) - 1))
    name, size = names[at], shape[at]
    kind = draw(st.sampled_from(["pad", "tile", "slice", "merge", "unmerge", "xor", "freeze", "replicate", "rename"]))
    if kind == "pad":
        left, right = draw(st.integers(0, 3)), draw(st.integers(0, 3))
        padded = view.pad(name, left, right)
        return model.derived(padded, _replace(shape, at, size + left + right), lambda i: _replace(i, at, i[at] - left))
    if kind == "tile":
        origin, extent = draw(st.integers(0, size)), draw(st.integers(1, 5))
        tiled = view.tile(name, origin, extent)
        return model.derived(tiled, _replace(shape, at, extent), lambda i: _replace(i, at, i[at] + origin))
    if kind == "slice":
        begin = draw(st.integers(0, size - 1))
        length = draw(st.integers(1, size - begin))
        window = view.slice(name, begin, length)
        return model.derived(window, _replace(shape, at, length), lambda i: _replace(i, at, i[at] + begin))
    if kind == "merge" and at + 1 < len(names):
        merged = view.merge(names[at : at + 2], f"merged{step}")
        smaller = (*shape[:at], size * shape[at + 1], *shape[at + 2 :])
        return model.derived(merged, smaller, lambda i: _replace(i, at, *divmod(i[at], shape[at + 1])))
    if kind == "unmerge":
        low = draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
        split = view.unmerge(name, {f"high{step}": size // low, f"low{step}": low})
        larger = _replace(shape, at, size // low, low)
        return model.derived(split, larger, lambda i: (*i[:at], i[at] * low + i[at + 1], *i[at + 2 :]))
    if kind == "xor" and len(names) > 1:
        return _swizzled(model, at, draw(st.integers(0, 2)), draw(st.sampled_from([0, 1, 3])))
    if kind == "freeze" and len(names) > 1:
        value = draw(st.integers(0, size - 1))
        frozen = view.freeze(name, value)
        return model.derived(frozen, (*shape[:at], *shape[at + 1 :]), lambda i: (*i[:at], value, *i[at:]))
    if kind == "replicate":
        return model.derived(view.replicate(f"copy{step}", 2), (*shape, 2), lambda i: i[:-1])
    return model.derived(view.rename(name, f"name{step}"), shape, lambda i: i)


def _swizzled(model: Model, chunk: int, shift: int, mask: int) -> Model:
    row = (chunk + 1) % len(model.shape)
    if model.shape[chunk] % (mask + 1):
        return model
    names = _names(model.view)
    view = model.view.xor(names[row], names[chunk], shift, mask)
    return model.derived(view, model.shape, lambda i: _replace(i, chunk, i[chunk] ^ (i[row] >> shift & mask)))


@st.composite
def models(draw: st.DrawFn) -> Model:
    """A tensor under up to four transforms."""
    model = draw(_tensors())
    for step in range(draw(st.integers(0, 4))):
        model = draw(_grown(model, step))
    return model


def _points(model: Model) -> Iterator[tuple[Mapping[str, int], Place]]:
    names = _names(model.view)
    for index in itertools.product(*(range(size) for size in model.shape)):
        yield dict(zip(names, index, strict=True)), model.cell(index)


@settings(max_examples=150, deadline=None)
@given(models())
def test_symbolic_access_equals_enumeration(model: Model) -> None:
    names = _names(model.view)
    assert tuple(constant(model.view.length(name)) for name in names) == model.shape
    access = model.view.at(**{name: sym(name, 0, size) for name, size in zip(names, model.shape, strict=True)})
    for env, place in _points(model):
        assert holds(access.valid, env) == (place is not None)
        if place is not None:
            assert evaluate(access.offset, env) == place


@settings(max_examples=150, deadline=None)
@given(models(), st.sampled_from([2, 4, 8, 16]), st.booleans())
def test_widest_is_legal_everywhere(model: Model, align: int, cut: bool) -> None:
    """Each vector of the width found lies in consecutive aligned elements, wholly inside or outside unless cut."""
    for name, size in zip(_names(model.view), model.shape, strict=True):
        width = model.view.widest(name, element_bytes=2, align=align, cut=cut)
        assert width == 1 or width * 2 <= align
        places = {tuple(sorted(env.items())): place for env, place in _points(model)}
        for env, _ in _points(model):
            if env[name] % width or env[name] + width > size:
                assert cut or env[name] % width or width == 1
                continue
            run = [places[tuple(sorted({**env, name: env[name] + j}.items()))] for j in range(width)]
            inside = [place for place in run if place is not None]
            assert cut or len(inside) in (0, width)
            if inside and width > 1:
                first = inside[0] - run.index(inside[0])
                assert first % width == 0
                assert all(place in (None, first + j) for j, place in enumerate(run))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 40), st.integers(0, 3), st.sampled_from([2, 4, 8]), st.sampled_from([1, 2, 4, 8]))
def test_counted_vectors(k: int, tile: int, width: int, grain: int) -> None:
    """The count is what lies inside, whatever the declared divisor of the size is."""
    size = k // grain * grain
    length = sym("k", multiple_of=grain, wide=True)
    view = View.tensor({"k": length}, (1,)).tile("k", sym("tile", 0, 100) * 16, 16)
    access = view.vector("k", width, k=sym("v", 0, 16 // width) * width)
    assert access.uniform == (grain % width == 0)
    for v in range(16 // width):
        env = {"k": size, "tile": tile, "v": v}
        first = tile * 16 + v * width
        count = evaluate(access.count, env) if holds(access.valid, env) else 0
        assert count == min(max(size - first, 0), width)
        assert evaluate(access.offset, env) == first


def test_vector_width_follows_alignment_strides_and_sizes() -> None:
    def width(multiple: int, stride: int, align: int, cut: bool = False) -> int:
        k = sym("k", multiple_of=multiple, wide=True)
        view = View.tensor({"m": sym("m", wide=True), "k": k}, (sym("lda", multiple_of=stride, wide=True), 1))
        return view.widest("k", element_bytes=2, align=align, cut=cut)

    assert width(8, 8, 16) == 8
    assert width(8, 8, 8) == 4
    assert width(8, 4, 16) == 4
    assert width(2, 8, 16) == 2
    assert width(1, 8, 16) == 1
    assert width(1, 8, 16, cut=True) == 8
    assert View.tensor({"m": 8, "k": 8}, (8, 1)).widest("m", element_bytes=2, align=16) == 1


@pytest.mark.parametrize(("size", "width"), [(16, 8), (12, 4), (14, 2), (13, 1), (24, 8)])
def test_a_tile_over_the_edge_takes_vectors_that_the_edge_leaves_whole(size: int, width: int) -> None:
    tile = View.tensor({"k": size}).tile("k", sym("tile", 0, 4) * 8, 8)
    assert tile.widest("k", element_bytes=2, align=16) == width
    assert tile.widest("k", element_bytes=2, align=16, cut=True) == 8


def test_a_staged_copy_reads_as_it_should() -> None:
    """A 128 x 32 tile of bf16 a[m, k], copied by 256 threads in chunks of 16 bytes."""
    thread, i = sym("thread", 0, 256), sym("i", 0, 2)
    k = sym("k", multiple_of=8, wide=True)
    a = View.tensor({"m": sym("m", wide=True), "k": k}, (sym("lda", multiple_of=8, wide=True), 1))
    tile = a.tile("m", sym("block_m", 0, 2**24) * 128, 128).tile("k", sym("k_tile", 0, 2**26) * 32, 32)
    width = tile.widest("k", element_bytes=2, align=16)
    chunks = tile.unmerge("k", {"chunk": 32 // width, "element": width}).merge(["m", "chunk"], "copy")
    access = chunks.vector("element", width, copy=thread + i * 256, element=0)
    assert (width, access.uniform) == (8, True)
    assert to_c(access.offset) == ("(block_m * 128 + i * 64 + thread / 4) * lda + k_tile * 32 + thread % 4 * 8")
    assert to_c(access.valid) == "block_m * 128 + i * 64 + thread / 4 < m && k_tile * 32 + thread % 4 * 8 < k"


def test_gather_and_sliding_window() -> None:
    rows = View.tensor({"row": 64, "column": 8}).lookup("row", "tokens", 10)
    access = rows.at(row=sym("i", 0, 10), column=3)
    assert to_c(access.offset) == "tokens[i] * 8 + 3"
    window = View.tensor({"out": 5, "tap": 3}, (2, 1)).merge(["out", "tap"], "both")
    assert [evaluate(window.at(both=i).offset, {}) for i in range(15)] == [
        o * 2 + t for o in range(5) for t in range(3)
    ]
    with pytest.raises(ValueError, match="not neighbours"):
        rows.vector("row", 2, row=0, column=0)


def test_left_padding_cuts_a_vector_at_its_start() -> None:
    view = View.tensor({"k": 16}).pad("k", 3, 0)
    assert view.widest("k", element_bytes=2, align=16) == 1
    with pytest.raises(ValueError, match="at its end"):
        view.vector("k", 4, k=sym("v", 0, 4) * 4)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda: View.tensor({"m": 2, "k": 3}, (1,)), "1 strides"),
        (lambda: View.tensor({"m": 2, "k": 3}).rename("m", "k"), "one name"),
        (lambda: View.tensor({"m": 2, "k": 3}).slice("n", 0, 1), "no dim 'n'"),
        (lambda: View.tensor({"m": 2, "k": 3}).at(m=0), "indices"),
        (lambda: View.tensor({"m": 2, "k": 6}).xor("m", "k", 0, 3), "must be a power of two"),
        (lambda: View.tensor({"m": 2, "k": 8}).xor("m", "k", 0, 2), "must be a power of two"),
    ],
)
def test_misuse_is_refused(broken: Callable[[], object], message: str) -> None:
    with pytest.raises((ValueError, KeyError), match=message):
        broken()


def test_what_needs_no_test_has_none() -> None:
    view = View.tensor({"m": 128, "k": 32}).tile("m", sym("block", 0, 2) * 64, 64)
    assert view.at(m=sym("row", 0, 64), k=0).valid is TRUE
