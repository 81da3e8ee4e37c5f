"""The shapes a kernel is verified on: what its spec asks for, and always the edges of its tile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kgen.ops import OPS
from kgen.spec.kernel import Signature
from kgen.verify.inputs import TAME, WILD, ZERO

Edge = tuple[Mapping[str, int], str]
"""Sizes before they are rounded to the declared multiples, those left out a tile's; and what they are for."""


@dataclass(frozen=True)
class Case:
    """One shape. `refused` names the dims that break their declared multiple: the launcher has to refuse the call."""

    sizes: tuple[tuple[str, int], ...]
    """(dim, size) in the op's order."""
    why: str
    refused: tuple[str, ...] = ()
    draw: str = TAME
    """How its inputs are drawn, `TAME`, `WILD` or `ZERO`."""

    def __str__(self) -> str:
        sizes = " ".join(f"{dim}={size}" for dim, size in self.sizes)
        return sizes if self.draw == TAME else f"{sizes} ({self.draw})"


def cases(
    signature: Signature,
    tile: Mapping[str, int],
    requested: Sequence[Mapping[str, int]] = (),
    edges: Sequence[Edge] = (),
) -> tuple[Case, ...]:
    """The cases of a kernel with this tile, each once; `requested` first, the refused last.

    `edges` are those of a target's own structure. One tile is run with every draw that says something of its own.

    Sizes are rounded up to the declared multiples, but for 0, and for one refused case of each declared dim.
    """
    op = OPS[signature.op]
    dims = [dim for dim in op.dims if dim != op.batch or signature.batched]
    multiples = {dim: signature.multiple_of.get(dim, 1) for dim in dims}
    whole = {dim: _round_up(tile.get(dim, 2), multiples[dim]) for dim in dims}
    shapes = [(dict(sizes), "asked for by the spec") for sizes in requested]
    for sizes, why in (*_edges(signature, {dim: tile.get(dim, 2) for dim in dims}), *edges):
        shapes.append((whole | {dim: _round_up(size, multiples[dim]) for dim, size in sizes.items()}, why))
    shapes += [(whole | {dim: whole[dim] + 1}, "") for dim in dims if multiples[dim] > 1]
    unique: dict[tuple[tuple[str, int], ...], Case] = {}
    for shape, why in shapes:
        case = _case(shape, why, multiples)
        unique.setdefault(case.sizes, case)
    drawn = [Case(tuple(whole.items()), f"one tile, {draw} inputs", draw=draw) for draw in _draws(signature)]
    return tuple(sorted((*unique.values(), *drawn), key=lambda case: bool(case.refused)))


def _draws(signature: Signature) -> tuple[str, ...]:
    """The other draws that differ from the tame one in this signature."""
    has_scalars = any(not operand.layout for operand in signature.inputs)
    return (WILD, ZERO) if has_scalars else (WILD,)


def _round_up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def _edges(signature: Signature, tile: Mapping[str, int]) -> Iterator[Edge]:
    """Shapes about the tile, before they are rounded to the declared multiples."""
    op = OPS[signature.op]
    summed = [dim for dim in tile if dim not in op.result_axes + op.batch]
    free = [dim for dim in tile if dim in op.result_axes]
    whole = dict(tile)
    yield whole, "one tile"
    yield dict.fromkeys(tile, 1), "ones"
    yield {dim: size + 1 for dim, size in tile.items()}, "one more than a tile"
    yield {dim: max(1, size - 1) for dim, size in tile.items()}, "one less than a tile"
    yield _primes(tile), "primes"
    for dim in summed:
        for size in (1, tile[dim] - 1, 2 * tile[dim] + 1, 4 * tile[dim] - 1):
            yield whole | {dim: max(1, size)}, f"tail of {dim}"
    for dim in free:
        yield whole | dict.fromkeys(free, 1) | {dim: 2 * tile[dim] + 3}, f"long in {dim}"
    for dim in tile:
        yield whole | {dim: 0}, f"no {dim}"


def _primes(tile: Mapping[str, int]) -> dict[str, int]:
    """A prime beyond each tile size, all different, so that exchanged dims show."""
    found: dict[str, int] = {}
    for dim, size in tile.items():
        candidate = size + 2
        while candidate in found.values() or any(candidate % d == 0 for d in range(2, int(candidate**0.5) + 1)):
            candidate += 1
        found[dim] = candidate
    return found


def _case(sizes: Mapping[str, int], why: str, multiples: Mapping[str, int]) -> Case:
    refused = tuple(dim for dim in multiples if sizes[dim] % multiples[dim])
    broken = ", ".join(f"{dim} is no multiple of {multiples[dim]}" for dim in refused)
    return Case(tuple((dim, sizes[dim]) for dim in multiples), broken or why, refused)
