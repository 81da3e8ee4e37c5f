"""spec x sm_80 -> plan, for a gemm under the `multistage` schedule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from kgen.arch import CUDA_ARCHS, CudaArch, MmaInstruction
from kgen.expr import DTYPES
from kgen.plan import cabi
from kgen.plan.base import Decision, Step, header_of
from kgen.plan.cuda_algorithm import (
    VECTOR,
    Algorithm,
    Choice,
    Space,
    choose,
    given_fields,
    place,
    slice_bytes,
    stage_bytes,
    staged_a,
    staged_b,
)
from kgen.plan.cuda_algorithm import shared_bytes as shared_bytes_of
from kgen.plan.cuda_maps import Promised, all_maps, copy_rounds, widest
from kgen.plan.cuda_staging import Staged
from kgen.plan.cuda_steps import C_TYPES, body_of
from kgen.plan.cuda_views import (
    Constant,
    Conversion,
    CopyStep,
    CudaPlan,
    Device,
    GridField,
    Instruction,
    Operand,
)
from kgen.spec.kernel import Kernel, Signature
from kgen.spec.kernel import Operand as Tensor
from kgen.spec.problem import Problem
from kgen.tile import Load, statement_text
from kgen.transform.memo import memoized

ALIGN = 16
"""Alignment in bytes promised where a spec says nothing: whole 16-byte vectors."""
MOST_UNROLLED = 8
"""Rounds of copies of one operand that are unrolled wholly (0 spills in random gemms under nvcc 13.0)."""
GRID_BLOCKS = 2**31 - 1
"""Largest grid along x (CUDA C++ Programming Guide, technical specifications)."""

_WIDEN = {"bf16": "__bfloat162float(x)", "f16": "__half2float(x)", "f32": "x"}
_NARROW = {"bf16": "__float2bfloat16_rn(x)", "f16": "__float2half_rn(x)", "f32": "x"}
_INCLUDES = {"bf16": "cuda_bf16.h", "f16": "cuda_fp16.h"}
_PTX_TYPES = {"bf16": "bf16", "f16": "f16", "f32": "tf32"}
_COPY_MACROS = {16: "copy.cp_async_16", 8: "copy.cp_async_small", 4: "copy.cp_async_small", 2: "copy.element"}


def plan(kernel: Kernel) -> CudaPlan | tuple[Problem, ...]:
    """The plan of `kernel`, or the clauses that it breaks."""
    space = _space(kernel.signature, CUDA_ARCHS[kernel.arch])
    wanted = kernel.algorithm.get("instruction", space.mma.name)
    if wanted != space.mma.name:
        words = f"{wanted} does not multiply {space.mma.operand} operands on {kernel.arch}"
        return (Problem((*kernel.path, "instruction"), "instruction", words, f"allowed: {space.mma.name}"),)
    choice = choose(given_fields(kernel.algorithm), space, kernel.path)
    return _plan(kernel, choice, space) if isinstance(choice, Choice) else choice


def _space(signature: Signature, arch: CudaArch) -> Space:
    a, b = signature.operand("a"), signature.operand("b")
    return Space(arch, _instruction(arch, a.dtype), a.layout[-1], b.layout[-1])


def _instruction(arch: CudaArch, dtype: str) -> MmaInstruction:
    return next(mma for mma in arch.mma if mma.operand == dtype)


def _plan(kernel: Kernel, choice: Choice, space: Space) -> CudaPlan:
    signature, algorithm = kernel.signature, choice.algorithm
    align = _align(kernel)
    tensors = {name: Promised.of(signature.operand(name), signature, promised) for name, promised in align.items()}
    chunks = {name: widest(tensor) for name, tensor in tensors.items()}
    tiles = (staged_a(algorithm, space), staged_b(algorithm, space))
    body = body_of(signature, tuple(chunks.items()))
    operands = tuple(_operand(tile, chunks[tile.name], signature) for tile in tiles)
    return CudaPlan(
        header=header_of(kernel, _resolved(algorithm, kernel), f"nvcc >= {space.arch.minimum_nvcc}, C++17"),
        target="cuda",
        abi=_declaring(kernel, _abi(signature, tuple(align.items()), _limits(algorithm))),
        device=Device(space.arch.major, space.arch.minor),
        includes=_includes(signature, body.helpers),
        function=signature.op,
        skeleton="skeleton/multistage.jinja",
        mma=Instruction(space.mma.name, _PTX_TYPES[space.mma.operand]),
        operands=operands,
        operators=_operators(algorithm, operands, signature, body.helpers),
        widenings=_conversions(signature.extras, _WIDEN),
        narrowings=_conversions(signature.outputs, _NARROW),
        constants=_constants(algorithm, space, chunks),
        maps=all_maps(signature, algorithm, space, tensors, chunks),
        grid=(
            GridField("tiles_m", "tiles_of(args->m, Config::tile_m)"),
            GridField("tiles_n", "tiles_of(args->n, Config::tile_n)"),
        ),
        blocks="p.tiles_m * p.tiles_n" + (" * static_cast<uint32_t>(p.batch)" if signature.batched else ""),
        grid_limit=GRID_BLOCKS,
        vector=VECTOR,
        odd_k_steps=algorithm.tile_k // space.mma.k % 2 == 1,
        prologue=body.prologue,
        copies=tuple(_copies(body.loads, tiles, chunks, algorithm.threads)),
        products=body.products,
        epilogue=body.epilogue,
        threads=algorithm.threads,
        shared_bytes=shared_bytes_of(algorithm, space),
        tile=(algorithm.tile_m, algorithm.tile_n, algorithm.tile_k),
        align=align,
        decisions=(*_kind(kernel), *choice.decisions),
        alternatives=choice.alternatives,
    )


def _kind(kernel: Kernel) -> tuple[Decision, ...]:
    """The kind of block order, where the spec is silent on it."""
    if "block_order" in kernel.algorithm:
        return ()
    return (Decision("block_order.kind", "grouped", "blocks that run together share rows of a and columns of b in L2"),)


def _resolved(algorithm: Algorithm, kernel: Kernel) -> dict[str, int | str]:
    """Every algorithm field, dotted: what the kernel's digest covers."""
    fields: dict[str, int | str] = {".".join(place(f)): getattr(algorithm, f) for f in Algorithm.__dataclass_fields__}
    fields |= {f"align.{name}": value for name, value in _align(kernel).items()}
    return {"schedule": "multistage", **fields}


def _align(kernel: Kernel) -> dict[str, int]:
    """Promised alignment in bytes of each tensor: the spec's, no less than an element."""
    given = kernel.algorithm.get("align", ALIGN)
    table = dict(given) if isinstance(given, tuple) else {}
    common = given if isinstance(given, int) else ALIGN
    tensors = [o for o in (*kernel.signature.inputs, *kernel.signature.outputs) if o.layout]
    return {o.name: max(int(str(table.get(o.name, common))), DTYPES[o.dtype].bytes) for o in tensors}


def _limits(algorithm: Algorithm) -> cabi.Limits:
    return cabi.Limits(algorithm.tile_m, algorithm.tile_n, GRID_BLOCKS)


def _declaring(kernel: Kernel, abi: cabi.Abi) -> cabi.Abi:
    """The interface that all kernels of a signature share, as this one declares it."""
    return replace(abi, declared=cabi.declared(kernel.name, kernel.signature))


@memoized
def _abi(signature: Signature, align: tuple[tuple[str, int], ...], limits: cabi.Limits) -> cabi.Abi:
    return cabi.build(signature, dict(align), C_TYPES, limits)


def _includes(signature: Signature, helpers: tuple[str, ...]) -> tuple[str, ...]:
    """The headers of the types that tensors have, or that an expression casts to on the way."""
    used = {operand.dtype for operand in (*signature.inputs, *signature.outputs)}
    used |= {word for helper in helpers for word in helper.split("_")}
    return (*(file for dtype, file in _INCLUDES.items() if dtype in used), "cuda_runtime.h")


def _conversions(operands: Iterable[Tensor], texts: Mapping[str, str]) -> tuple[Conversion, ...]:
    used = {operand.dtype for operand in operands if operand.layout}
    return tuple(Conversion(C_TYPES[dtype], text) for dtype, text in texts.items() if dtype in used)


def _operand(tile: Staged, chunk: int, signature: Signature) -> Operand:
    dtype = signature.operand(tile.name).dtype
    return Operand(
        name=tile.name,
        c_type=C_TYPES[dtype],
        bytes=tile.element_bytes,
        chunk=chunk,
        chunk_bytes=chunk * tile.element_bytes,
        transposed=".trans" if tile.load is not None and tile.load.transposed else "",
        rounds_to_tf32=dtype == "f32",
        copy_macro=_COPY_MACROS[chunk * tile.element_bytes],
        fragment_macro="fragment.elements" if tile.load is None else "fragment.ldmatrix",
    )


def _operators(
    algorithm: Algorithm, operands: tuple[Operand, ...], signature: Signature, helpers: tuple[str, ...]
) -> tuple[str, ...]:
    """Macros of layer 1 that are about the whole plan, in the order they are printed."""
    rounding = ("fragment.round_tf32",) if any(operand.rounds_to_tf32 for operand in operands) else ()
    tensors = [operand.layout for operand in signature.extras if operand.layout]
    widenings = ("epilogue.widenings",) if tensors else ()
    loads = ("epilogue.load_vector_operator",) if any("n" in layout for layout in tensors) else ()
    return (
        "block.params",
        "block.grouped" if algorithm.group else "block.raster",
        "copy.groups",
        *rounding,
        "fragment.registers",
        "mma.fill_operator",
        "mma.warp_mma",
        "epilogue.slice",
        "epilogue.packet",
        *widenings,
        "epilogue.narrowings",
        *loads,
        "epilogue.store_vector_operator",
        *(f"math.{helper}" for helper in helpers),
    )


def _unroll(rounds: int) -> int:
    """A few rounds are unrolled wholly; the addresses of many, hoisted out of the main loop, would spill."""
    return rounds if rounds <= MOST_UNROLLED else 4


def _constants(algorithm: Algorithm, space: Space, chunks: Mapping[str, int]) -> tuple[Constant, ...]:
    a, b = staged_a(algorithm, space), staged_b(algorithm, space)
    a_copies, b_copies = (copy_rounds(tile, chunks[tile.name], algorithm.threads)[0] for tile in (a, b))
    rows = [
        Constant("tile_m", algorithm.tile_m, "the block's tile of the output"),
        Constant("tile_n", algorithm.tile_n),
        Constant("tile_k", algorithm.tile_k, "depth of one stage"),
        Constant("warps_n", algorithm.warps_n, f"warps are {algorithm.warps_m} x {algorithm.warps_n} over the tile"),
        Constant("threads", algorithm.threads),
        Constant("warp_m", algorithm.warp_m, "a warp's part of the tile"),
        Constant("warp_n", algorithm.warp_n),
        Constant("mma_m", algorithm.warp_m // space.mma.m, f"instructions of {space.mma.name} along m, n and k"),
        Constant("mma_n", algorithm.warp_n // space.mma.n),
        Constant("mma_k", algorithm.tile_k // space.mma.k),
        Constant("stages", algorithm.stages, "K tiles in shared memory"),
        Constant("stage_bytes", stage_bytes(algorithm, space), f"{a.bytes} of a, {b.bytes} of b"),
        Constant("a_copies", a_copies, "rounds in which all threads copy"),
        Constant("a_unroll", _unroll(a_copies), "unrolled, their addresses stay in registers"),
        Constant("b_copies", b_copies),
        Constant("b_unroll", _unroll(b_copies)),
        Constant("slice_bytes", slice_bytes(algorithm), "a warp's 16 rows of f32 in the epilogue"),
        Constant("vectors", algorithm.warp_n // 16, f"vectors of {VECTOR} that a lane handles in a slice"),
        Constant("shared_bytes", shared_bytes_of(algorithm, space)),
    ]
    if algorithm.group:
        rows.append(Constant("group", algorithm.group, "tile rows of a block group"))
    return tuple(rows)


# ---- steps ----------------------------------------------------------------------------------------------------------


def _copies(
    loads: Iterable[Load], tiles: tuple[Staged, ...], chunks: Mapping[str, int], threads: int
) -> Iterator[Step]:
    by_name = {tile.name: tile for tile in tiles}
    for load in loads:
        tile = by_name[load.src.name]
        partial = copy_rounds(tile, chunks[tile.name], threads)[1]
        row = "m" if tile.name == "a" else "n"
        yield CopyStep("load", load.dst.name, statement_text(load), "copy.load", tile.name, row, partial)
