"""Plans of Pallas TPU kernels: op gemm, schedule `pipelined`."""

from __future__ import annotations

import keyword
from collections.abc import Iterator

from kgen.arch import TPU_ARCHS
from kgen.ops import gemm
from kgen.plan.base import header_of
from kgen.plan.pallas_algorithm import Block, Choice, Space, choose, given_fields, vmem_bytes
from kgen.plan.pallas_operands import DIM_NAMES, block_of, grid_dims, view
from kgen.plan.pallas_steps import JNP, OPERATORS, Phases, phases
from kgen.plan.pallas_text import fit, wrap
from kgen.plan.pallas_views import Constant, Multiple, NamedText, PallasPlan
from kgen.plan.slots import slots_of
from kgen.spec.kernel import Kernel, Operand, Signature
from kgen.spec.problem import Problem

REQUIRES = "jax >= 0.10.2, Python >= 3.11"
DTYPES = ("bf16", "f32")
IMPORTS = (
    "import functools",
    "from collections.abc import Callable",
    "from typing import Final",
    "",
    "import jax",
    "import jax.numpy as jnp",
    "from jax import lax",
    "from jax.experimental import pallas as pl",
    "from jax.experimental.pallas import tpu as pltpu",
)
TAKEN = frozenset({
    "acc", "accumulate", "batch", "bool", "broadcast_column", "broadcast_row", "cast", "dict", "entry", "epilogue",
    "fill", "float", "functools", "in_hbm", "int", "interpret", "jax", "jnp", "k", "k_last", "k_step", "k_tail",
    "kernel", "list", "load", "load_below", "load_k", "m", "mma", "n", "pl", "pltpu", "prologue", "sizes", "store",
    "str", "tuple",
})  # fmt: skip
"""Names that mean something where a generated file has the names of its operands."""
_NO_F16 = "no TPU has arithmetic in f16, and libtpu loads no f16 vectors"
_PRECISION = {"f32": "lax.Precision.HIGHEST", "bf16": "None"}
_PRECISION_COMMENT = {"f32": "  # exact products of f32: several passes of the MXU", "bf16": ""}
_INTERPRET = "bool | pltpu.InterpretParams"


def plan(kernel: Kernel) -> PallasPlan | tuple[Problem, ...]:
    """The plan of `kernel` (its algorithm holds what the spec and the lock give), or the clauses that it breaks."""
    problems = tuple(_signature_problems(kernel))
    if problems:
        return problems
    space = _space(kernel)
    choice = choose(given_fields(kernel.algorithm), space, kernel.path)
    return _plan(kernel, choice, space) if isinstance(choice, Choice) else choice


# ---- clauses --------------------------------------------------------------------------------------------------------


def _signature_problems(kernel: Kernel) -> Iterator[Problem]:
    signature = kernel.signature
    for operand in (*signature.inputs, *signature.outputs):
        if operand.dtype not in DTYPES:
            why = _NO_F16 if operand.dtype == "f16" else "a gemm on a TPU is in floating point"
            words = f"{operand.name} is {operand.dtype}; {why}"
            yield Problem((*kernel.path, "arch"), "dtype", words, f"allowed: {', '.join(DTYPES)}")
    a, b = signature.operand("a").dtype, signature.operand("b").dtype
    if a != b:
        words = f"a is {a} and b is {b}; the MXU multiplies operands of one dtype"
        yield Problem((*kernel.path, "arch"), "operand-dtypes", words, f"make both {a} or both {b}")
    if "f32" in (a, b) and signature.f32_mma not in (None, "exact"):
        words = f"f32_mma: {signature.f32_mma} is not to be had on {kernel.arch}: Mosaic offers exact products only"
        yield Problem((*kernel.path, "f32_mma"), "f32-mma", words, "allowed: exact")
    yield from _name_problems(kernel)


def _name_problems(kernel: Kernel) -> Iterator[Problem]:
    signature = kernel.signature
    named = [("inputs", operand.name) for operand in signature.inputs]
    named += [("outputs", operand.name) for operand in signature.outputs]
    for place in [*named, ("kernel", kernel.name)]:
        name = place[-1]
        if name in TAKEN or keyword.iskeyword(name):
            words = f"{name!r} has a meaning in the generated Python file"
            yield Problem(place if place in named else kernel.path, "name", words, "rename it")


# ---- the plan -------------------------------------------------------------------------------------------------------


def _space(kernel: Kernel) -> Space:
    signature = kernel.signature
    extras = tuple(block_of(operand) for operand in signature.extras if operand.layout)
    outputs = tuple(block_of(operand) for operand in signature.outputs)
    a, b = block_of(signature.operand("a")), block_of(signature.operand("b"))
    return Space(TPU_ARCHS[kernel.arch], a, b, extras, outputs)


def _plan(kernel: Kernel, choice: Choice, space: Space) -> PallasPlan:
    signature, tile = kernel.signature, choice.tile
    dims = grid_dims(signature)
    inputs = tuple(view(operand, signature) for operand in signature.inputs)
    outputs = tuple(view(operand, signature) for operand in signature.outputs)
    has_tail = signature.multiple_of.get("k", 1) % tile.k != 0
    steps = phases(slots_of(gemm.program(signature)), has_tail)
    multiples = tuple(Multiple(DIM_NAMES[dim], of) for dim, of in signature.multiple_of.items() if of > 1)
    has_scalars = any(not operand.layout for operand in signature.inputs)
    return PallasPlan(
        target="pallas",
        abi=None,
        header=header_of(kernel, choice.resolved, REQUIRES),
        summary=f"{kernel.name}: {signature.op} on {kernel.arch}.",
        description=_description(signature),
        imports=IMPORTS if has_tail else tuple(line for line in IMPORTS if "Callable" not in line),
        operators=_operators(steps, has_tail),
        skeleton="skeleton/pipelined.jinja",
        kernel_signature=_kernel_signature(signature, has_tail),
        k_axis=dims.index("k"),
        has_tail=has_tail,
        prologue=steps.prologue,
        steady=steps.steady,
        epilogue=steps.epilogue,
        constants=_constants(choice, space, len(dims)),
        entry_signature=_entry_signature(signature),
        sizes=_sizes(signature),
        bound_kernel="functools.partial(kernel, k_tail=k % Config.TILE_K)" if has_tail else "kernel",
        grid=tuple(dim if dim == "batch" else f"pl.cdiv({dim}, Config.TILE_{dim.upper()})" for dim in dims),
        inputs=inputs,
        outputs=outputs,
        has_scalars=has_scalars,
        client_signature=_client_signature(kernel),
        has_multiples=bool(multiples),
        multiples=multiples,
        is_empty=" or ".join(f'sizes["{dim}"] == 0' for dim in dims if dim != "k"),
        zero_k=tuple(_zero_k(signature.operand(name), "1" if has_tail else "Config.TILE_K") for name in "ab"),
        call=_call(signature),
        result=", ".join(o.name for o in signature.outputs),
        tile=(tile.m, tile.n, tile.k),
        vmem_bytes=vmem_bytes(tile, space),
        decisions=choice.decisions,
        alternatives=choice.alternatives,
    )


def _description(signature: Signature) -> tuple[str, ...]:
    def index(operand: Operand) -> str:
        return f"{operand.name}[{', '.join(DIM_NAMES[dim] for dim in operand.layout)}]"

    acc = f"acc[{'batch, ' if signature.batched else ''}m, n]"
    product = f"{acc} = sum over k of {index(signature.operand('a'))} * {index(signature.operand('b'))}, in f32"
    values = [f"{index(o)} = {o.dtype}({o.value.source})" for o in signature.outputs]
    return tuple(line for text in (product, *values) for line in wrap(text))


def _operators(steps: Phases, has_tail: bool) -> tuple[str, ...]:
    used = steps.operators | ({"load_below"} if has_tail else set())
    return (*(f"operators.{name}" for name in OPERATORS if name in used), *(f"math.{name}" for name in steps.helpers))


def _kernel_signature(signature: Signature, has_tail: bool) -> str:
    refs = [f"{o.name}_ref: jax.Ref" for o in (*signature.inputs, *signature.outputs)]
    tail = ["*", "k_tail: int"] if has_tail else []
    return fit("def kernel", [*refs, "acc: jax.Ref", *tail], " -> None:")


def _entry_signature(signature: Signature) -> str:
    arrays = [f"{o.name}: jax.Array" for o in signature.inputs]
    return fit("def entry", [*arrays, "*", f"interpret: {_INTERPRET}"], " -> list[jax.Array]:")


def _client_signature(kernel: Kernel) -> str:
    inputs, outputs = kernel.signature.inputs, kernel.signature.outputs
    arrays = [f"{o.name}: {'jax.Array' if o.layout else 'jax.Array | float'}" for o in inputs]
    returned = "jax.Array" if len(outputs) == 1 else f"tuple[{', '.join(['jax.Array'] * len(outputs))}]"
    return fit(f"def {kernel.name}", [*arrays, "*", f"interpret: {_INTERPRET} = False"], f" -> {returned}:")


def _constants(choice: Choice, space: Space, grid_rank: int) -> tuple[Constant, ...]:
    tile = choice.tile
    semantics = ", ".join(['"parallel"'] * (grid_rank - 1) + ['"arbitrary"'])
    return (
        Constant("TILE_M", str(tile.m)),
        Constant("TILE_N", str(tile.n)),
        Constant("TILE_K", str(tile.k)),
        Constant("A_K_AXIS", str(_k_axis(space.a))),
        Constant("B_K_AXIS", str(_k_axis(space.b))),
        Constant("PRECISION", _PRECISION[space.a.dtype], _PRECISION_COMMENT[space.a.dtype]),
        Constant("DIMENSION_SEMANTICS", f"({semantics})", "  # steps along k add up"),
        Constant("VMEM_LIMIT_BYTES", f"{choice.vmem_limit_mib} << 20", "  # two buffers of each block, acc, values"),
    )


def _k_axis(block: Block) -> int:
    return 0 if block.rows == "k" else 1


def _sizes(signature: Signature) -> tuple[NamedText, ...]:
    """Where layer 3 reads each dim: the first input that has it."""
    sizes: dict[str, str] = {}
    for operand in signature.inputs:
        for axis, dim in enumerate(operand.layout):
            sizes.setdefault(dim, f"{operand.name}.shape[{axis}]")
    return tuple(NamedText(DIM_NAMES[dim], sizes[dim]) for dim in "bmnk" if dim in sizes)


def _zero_k(operand: Operand, width: str) -> NamedText:
    shape = [width if dim == "k" else f'sizes["{DIM_NAMES[dim]}"]' for dim in operand.layout]
    return NamedText(operand.name, f"jnp.zeros(({', '.join(shape)}), {JNP[operand.dtype]})")


def _call(signature: Signature) -> str:
    results = ", ".join(o.name for o in signature.outputs)
    target = f"({results},)" if len(signature.outputs) == 1 else results
    return fit(f"{target} = entry", [*(o.name for o in signature.inputs), "interpret=interpret"], "", 4)
