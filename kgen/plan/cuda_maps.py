"""Index maps of a CUDA gemm, all printed from coordinate transforms: global offsets and edges, swizzled addresses,
copies of a thread, rows that a lane gives to ldmatrix, and the epilogue's rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kgen.expr import DTYPES
from kgen.plan.cabi import DIM_FIELDS, stride_text, strides_of
from kgen.plan.cuda_algorithm import VECTOR, Algorithm, Space, slice_pitch, staged_a, staged_b
from kgen.plan.cuda_staging import Staged, fragments_of
from kgen.plan.cuda_views import IndexMap
from kgen.spec.kernel import Operand, Signature
from kgen.transform import CHUNK, IndexExpr, Predicate, View, as_expr, constant, less, sym, to_c
from kgen.transform.coordinates import Merge
from kgen.transform.memo import memoized

GRAIN = 8
"""Every vector along a tensor's fastest dim begins at a multiple of this many elements."""
_WIDTH = 104
"""Characters of an index map's result in one line; the indent and `return` come to that."""


def _fit(text: str) -> str:
    """`text` over as many lines as it needs, broken before a sum's plus sign."""
    lines = [""]
    for part in re.split(r"(?<=[^(]) (?=\+ )", text):
        if len(lines[-1]) + len(part) > _WIDTH:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + part
    return "\n           ".join(lines)


# ---- global memory --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Promised:
    """A tensor in global memory, and what is promised of it. Everything its maps depend on, so they are made once."""

    operand: Operand
    multiples: tuple[int, ...]
    """Of the size along each dim of the layout."""
    align: int
    """Bytes, of the base and of every stride."""

    @staticmethod
    def of(operand: Operand, signature: Signature, align: int) -> Promised:
        """`operand` under the signature's contract."""
        plain = Operand(operand.name, operand.dtype, operand.layout)
        return Promised(plain, tuple(signature.multiple_of.get(dim, 1) for dim in operand.layout), align)

    @property
    def fast(self) -> str:
        """The fastest dim."""
        return self.operand.layout[-1]

    @property
    def element_bytes(self) -> int:
        """Size of an element."""
        return DTYPES[self.operand.dtype].bytes

    @property
    def sizes(self) -> dict[str, IndexExpr]:
        """The run-time size along each dim."""
        named = zip(self.operand.layout, self.multiples, strict=True)
        return {dim: sym(f"p.{DIM_FIELDS[dim]}", multiple_of=multiple, wide=True) for dim, multiple in named}

    def view(self, sizes: Mapping[str, IndexExpr]) -> View:
        """The tensor of these sizes, with its run-time strides."""
        elements = max(1, self.align // self.element_bytes)
        names = [f"p.{stride_text(self.operand, dim)}" for dim in strides_of(self.operand)]
        return View.tensor(sizes, [*(sym(name, multiple_of=elements, wide=True) for name in names), as_expr(1)])

    def index(self, dim: str, vector: int) -> IndexExpr:
        """The index a map receives: 64-bit; along the fastest dim a multiple of the vector."""
        if dim == "b":
            return sym("batch", wide=True)
        return sym(dim, multiple_of=vector if dim == self.fast else 1, wide=True)


@memoized
def widest(tensor: Promised) -> int:
    """Elements that one access along the fastest dim may move: propagated from the promised alignment."""
    grains = sym("grains", multiple_of=GRAIN, wide=True)
    whole = tensor.view({**tensor.sizes, tensor.fast: grains})
    return whole.widest(tensor.fast, element_bytes=tensor.element_bytes, align=tensor.align)


@memoized
def offset_map(tensor: Promised, dims: str) -> IndexMap:
    """Where element (dims...) of the tensor is, in elements from its base."""
    operand = tensor.operand
    offset = tensor.view(tensor.sizes).at(**{dim: tensor.index(dim, 1) for dim in operand.layout}).offset
    parameters = ", ".join(["const Params &p", "int64_t batch", *(f"int64_t {dim}" for dim in dims)])
    return IndexMap(
        "int64_t", f"{operand.name}_offset", parameters, to_c(offset, wide=True),
        f"Element of {operand.name}[{', '.join(operand.layout)}].",
    )  # fmt: skip


@memoized
def valid_map(name: str, tensor: Promised, vector: int, dims: str) -> IndexMap:
    """How many of `vector` elements along the fastest dim from (dims...) lie inside the tensor."""
    operand, view = tensor.operand, tensor.view(tensor.sizes)
    for dim in operand.layout.replace("b", ""):
        view = view.pad(dim, 0, sym("edge", wide=True))
    access = view.vector(tensor.fast, vector, **{dim: tensor.index(dim, vector) for dim in operand.layout})
    parameters = ", ".join(["const Params &p", *(f"int64_t {dim}" for dim in dims)])
    return IndexMap("int", name, parameters, _counted(access.valid, access.count),
                    f"How many of {vector} elements along {tensor.fast} are inside {operand.name}.")  # fmt: skip


def _counted(valid: Predicate, count: IndexExpr) -> str:
    text = str(constant(count)) if constant(count) is not None else f"static_cast<int>({to_c(count, wide=True)})"
    condition = to_c(valid)
    return text if condition == "true" else f"{condition} ? {text} : 0"


# ---- copies ---------------------------------------------------------------------------------------------------------


def copy_rounds(tile: Staged, chunk: int, threads: int) -> tuple[int, bool]:
    """Rounds in which all threads copy the tile, and whether the last one has fewer chunks than threads."""
    chunks = tile.slow * tile.fast // chunk
    return -(-chunks // threads), chunks % threads != 0


@memoized
def copy_maps(tile: Staged, row: str, chunk: int, threads: int) -> tuple[IndexMap, ...]:
    """Which chunk a thread copies in round i, and where it goes."""
    return tuple(_copy_maps(tile, row, chunk, threads))


def _copy_maps(tile: Staged, row: str, chunk: int, threads: int) -> Iterator[IndexMap]:
    rounds, partial = copy_rounds(tile, chunk, threads)
    number = sym("i", 0, rounds) * threads + sym("thread", 0, threads)
    slow, chunk_in_row = Merge((as_expr(tile.slow), as_expr(tile.fast // chunk))).lower((number,))
    fast = chunk_in_row * chunk
    rows, k = (slow, fast) if tile.k_fast else (fast, slow)
    comment = f"First element of the chunk of {chunk} that a thread copies in round i."
    yield IndexMap("int", f"{tile.name}_copy_{row}", "int thread, int i", to_c(rows), comment)
    yield IndexMap("int", f"{tile.name}_copy_k", "int thread, int i", to_c(k), comment)
    if partial:
        inside = less(number, tile.slow * tile.fast // chunk)
        yield IndexMap("bool", f"{tile.name}_copy_inside", "int thread, int i", to_c(inside),
                       "Whether round i has a chunk for the thread.")  # fmt: skip


# ---- shared memory --------------------------------------------------------------------------------------------------


@memoized
def shared_map(tile: Staged, row: str, base: int) -> IndexMap:
    """Byte offset of an element in a stage."""
    address = tile.address(sym(row, 0, tile.rows), sym("k", 0, tile.k)) + base
    return IndexMap("uint32_t", f"{tile.name}_shared", f"int {row}, int k", to_c(address), _swizzle_words(tile))


def _swizzle_words(tile: Staged) -> str:
    swizzle = tile.swizzle
    if swizzle.mask:
        return f"{tile.name} in a stage: chunk c of row r lies at c ^ (r >> {swizzle.shift} & {swizzle.mask})."
    padding = swizzle.pitch - swizzle.row_bytes
    return f"{tile.name} in a stage: rows of {swizzle.row_bytes} bytes, {padding} of padding."


@memoized
def fragment_map(tile: Staged, row: str, warp_rows: int, base: int, mma_k: int) -> IndexMap:
    """Where lane `lane` reads for block i of its warp's rows and step k_step along k."""
    lane = sym("lane", 0, 32)
    block_rows = 16
    rows = sym("warp", 0, tile.rows // warp_rows) * warp_rows + sym("i", 0, warp_rows // block_rows) * block_rows
    k = sym("k_step", 0, tile.k // mma_k) * mma_k
    if tile.load is None:
        return _element_map(tile, rows, k, lane, base)
    stored, chunk = tile.load.source(lane)
    along = chunk * (CHUNK // tile.element_bytes)
    row_part, k_part = (stored, along) if tile.k_fast else (along, stored)
    address = tile.address(rows + row_part, k + k_part) + base
    parameters = "int lane, int warp, int i, int k_step"
    comment = f"The row of {tile.name} whose address the lane gives to ldmatrix, for {row} block i of its warp."
    return IndexMap("uint32_t", f"{tile.name}_fragment", parameters, _fit(to_c(address)), comment)


def _element_map(tile: Staged, rows: IndexExpr, k: IndexExpr, lane: IndexExpr, base: int) -> IndexMap:
    """b's block of 16 rows is two fragments of 8: register r is register r % 2 of fragment r / 2."""
    fragments = fragments_of(tile.element_bytes)
    lanes = fragments.a if tile.name == "a" else fragments.b
    register = sym("r", 0, 4)
    fragment, own = Merge((as_expr(4), as_expr(lanes.registers))).lower((register,))
    row, k_in = lanes.element(lane, own)
    address = tile.address(rows + fragment * lanes.shape[0] + row, k + k_in) + base
    parameters = "int lane, int warp, int i, int k_step, int r"
    comment = f"The element of {tile.name} in register r of the lane."
    return IndexMap("uint32_t", f"{tile.name}_element", parameters, _fit(to_c(address)), comment)


# ---- epilogue -------------------------------------------------------------------------------------------------------


@memoized
def epilogue_maps(warp_n: int, pitch: int) -> tuple[IndexMap, ...]:
    """From fragment order through a warp's slice of shared memory, rows of `pitch` bytes, to rows."""
    return tuple(_epilogue_maps(warp_n, pitch))


def _epilogue_maps(warp_n: int, pitch: int) -> Iterator[IndexMap]:
    lane, half, j = sym("lane", 0, 32), sym("half", 0, 2), sym("j", 0, warp_n // 8)
    m, n = fragments_of(2).c.element(lane, half * 2)
    comment = "Row and first column of a lane's pair of accumulators in a block of 16 x 8."
    yield IndexMap("int", "acc_m", "int lane, int half", to_c(m), comment)
    yield IndexMap("int", "acc_n", "int lane, int j", to_c(n + j * 8), comment)
    view = View.tensor({"m": 16, "n": warp_n}, (pitch // 4, 1))
    place = view.at(m=sym("m", 0, 16), n=sym("n", 0, warp_n)).offset * 4
    yield IndexMap("uint32_t", "slice", "int m, int n", to_c(place), "Byte offset in a warp's slice of 16 rows.")
    number = sym("v", 0, warp_n // 16) * 32 + lane
    row, vector = Merge((as_expr(16), as_expr(warp_n // VECTOR))).lower((number,))
    comment = f"Row and first column of the {VECTOR} elements of a lane in round v."
    yield IndexMap("int", "vector_m", "int lane, int v", to_c(row), comment)
    yield IndexMap("int", "vector_n", "int lane, int v", to_c(vector * VECTOR), comment)


def all_maps(
    signature: Signature, algorithm: Algorithm, space: Space, tensors: Mapping[str, Promised], chunks: Mapping[str, int]
) -> tuple[IndexMap, ...]:
    """Every map of a kernel, in the order Config shows them."""
    maps: list[IndexMap] = []
    tiles = (staged_a(algorithm, space), staged_b(algorithm, space))
    warp_rows = (algorithm.warp_m, algorithm.warp_n)
    bases = (0, tiles[0].bytes)
    for tile, row, rows, base in zip(tiles, "mn", warp_rows, bases, strict=True):
        chunk, tensor = chunks[tile.name], tensors[tile.name]
        maps.append(offset_map(tensor, row + "k"))
        maps.append(valid_map(f"{tile.name}_valid", tensor, chunk, row + "k"))
        maps.extend(copy_maps(tile, row, chunk, algorithm.threads))
        maps.append(shared_map(tile, row, base))
        maps.append(fragment_map(tile, row, rows, base, space.mma.k))
    maps.extend(epilogue_maps(algorithm.warp_n, slice_pitch(algorithm)))
    maps.append(valid_map("vector_valid", tensors[signature.outputs[0].name], VECTOR, "mn"))
    maps.extend(offset_map(tensor, "mn") for name, tensor in tensors.items() if name not in ("a", "b"))
    return tuple(maps)
