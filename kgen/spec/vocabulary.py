"""The closed sets of a spec, as tables: dtypes of each op, what each target offers, words not to use.

Adding an op or a target means adding a row here and a model in `models`; the rules read these tables only.
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from kgen.arch import TARGETS, CudaArch, targets_of
from kgen.expr import RESERVED

F32_MMA = ("exact", "tf32", "bf16x3")
"""How a product of f32 operands may be computed."""


@dataclass(frozen=True)
class OpDtypes:
    """dtypes of an op's operands; kgen.ops says which operands there are and how they may lie."""

    every: tuple[str, ...]
    """Of all operands."""
    acc: Mapping[str, tuple[str, ...]]
    """dtype of the operands multiplied -> dtypes of the accumulator."""


_FLOATS = ("bf16", "f16", "f32")
OP_DTYPES: Mapping[str, OpDtypes] = MappingProxyType({"gemm": OpDtypes(_FLOATS, dict.fromkeys(_FLOATS, ("f32",)))})


@dataclass(frozen=True)
class TargetFacts:
    """What a target offers to a spec, with the reason where it does not."""

    suffix: str
    """Of the generated source file."""
    f32_mma: Mapping[str, str]
    """Mode -> why the target refuses it; empty where it is offered."""
    absent_dtypes: Mapping[str, str] = field(default_factory=dict)
    """dtype -> why no arch of the target has it."""


TARGET_FACTS: Mapping[str, TargetFacts] = MappingProxyType(
    {
        "cuda": TargetFacts(
            suffix=".cu",
            f32_mma={
                "tf32": "",
                "exact": "the tensor cores of sm_80 take f32 operands as tf32 only (PTX ISA 9.7.14)",
                "bf16x3": "the three-product split has no template here yet",
            },
        ),
        # Compiled ahead of time by libtpu 0.0.52 for all five generations: f16 loads fail with the message quoted;
        # an f32 product at precision HIGHEST is six bf16 passes; precision HIGH (three) has no Pallas lowering.
        "pallas": TargetFacts(
            suffix=".py",
            f32_mma={
                "exact": "",
                "tf32": "the MXU has no tf32",
                "bf16x3": "Pallas has no TPU lowering of it (precision HIGH)",
            },
            absent_dtypes={"f16": "TPU vector units and MXU have no f16 (Mosaic: Invalid vector type for load)"},
        ),
    }
)


def product_dtypes(target: str, arch: str) -> tuple[str, ...]:
    """dtypes that the matrix unit of an arch multiplies."""
    table = TARGETS[target][arch]
    if isinstance(table, CudaArch):
        return tuple(dict.fromkeys(mma.operand for mma in table.mma))
    return table.dtypes


def all_archs() -> tuple[str, ...]:
    """Every arch of every target, in the order of the tables."""
    return tuple(dict.fromkeys(arch for archs in TARGETS.values() for arch in archs))


def target_of(entry: object) -> str | None:
    """The target of an entry of `targets`: the one it names, else the only one its arch has."""
    if not isinstance(entry, dict):
        return None
    named = entry.get("target")
    if named is not None:
        return named if isinstance(named, str) and named in TARGETS else None
    arch = entry.get("arch")
    found = targets_of(arch) if isinstance(arch, str) else ()
    return found[0] if len(found) == 1 else None


ALIASES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("bfloat16", "bfloat"), "bf16"),
        **dict.fromkeys(("float16", "fp16", "half"), "f16"),
        **dict.fromkeys(("float32", "fp32", "float", "single"), "f32"),
        **dict.fromkeys(("a100", "ampere", "sm80", "sm_80a", "sm_80f", "80", "8.0", "compute_80"), "sm_80"),
        **dict.fromkeys(("v4", "tpuv4", "tpu_v4"), "tpu-v4"),
        **dict.fromkeys(("v5e", "tpuv5e", "tpu_v5e", "v5litepod", "tpu-v5-lite"), "tpu-v5e"),
        **dict.fromkeys(("v5p", "tpuv5p", "tpu_v5p"), "tpu-v5p"),
        **dict.fromkeys(("v6e", "tpuv6e", "tpu_v6e", "trillium"), "tpu-v6e"),
        **dict.fromkeys(("7x", "tpu-v7x", "tpu-7x", "tpu_7x", "ironwood", "tpu-v7"), "tpu7x"),
        **dict.fromkeys(("matmul", "mm", "dot", "linear"), "gemm"),
        **dict.fromkeys(("nvidia", "ptx"), "cuda"),
        **dict.fromkeys(("tpu", "jax", "mosaic"), "pallas"),
    }
)
"""What other tools call the same thing, in lower case; used for `did you mean` only, never accepted."""

_C_WORDS = """
alignas alignof asm auto bool break case catch char class concept const consteval constexpr constinit const_cast
continue co_await co_return co_yield decltype default delete do double dynamic_cast else enum explicit export extern
false float for friend goto if inline int long mutable namespace new noexcept nullptr operator private protected
public register reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct
switch template this thread_local throw true try typedef typeid typename typeof union unsigned using virtual void
volatile wchar_t while xor half main errno assert stdin stdout stderr unix linux
"""
_TYPES = ("int8_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "uintptr_t", "size_t")
_HEADERS = """
assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic
stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype unistd cuda cuda_runtime
cuda_runtime_api cuda_bf16 cuda_fp16 cuda_fp8 hip_runtime
"""
_FUNCTIONS = """
abort abs atoi calloc close cos exit exp fclose fopen fprintf fputs free fwrite getenv log malloc memcmp memcpy memmove
memset open pow printf puts qsort rand read realloc sin snprintf sqrt strcmp strcpy strlen time write
failing_clause failing_device_clause
"""
_GENERATED = (
    "acc",
    "args",
    "tiles_m",
    "tiles_n",
    "config",
    "jax",
    "jnp",
    "pl",
    "pltpu",
    "lax",
    "functools",
    "range",
    "len",
)
_ARGUMENT_FIELDS = ("struct_size", "m", "n", "k", "batch", "workspace", "workspace_size", "stream")

RESERVED_NAMES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(sorted(RESERVED), "a word of the expression language"),
        **dict.fromkeys(_GENERATED, "a name that generated code uses itself"),
        **dict.fromkeys(_ARGUMENT_FIELDS, "a field of the generated argument struct"),
        **dict.fromkeys((*keyword.kwlist, *keyword.softkwlist), "a Python keyword"),
        **dict.fromkeys((*_C_WORDS.split(), *_TYPES), "a C or C++ word"),
    }
)
"""Names no operand, kernel or file may have -> why."""

RESERVED_SYMBOLS: Mapping[str, str] = MappingProxyType(
    {
        **RESERVED_NAMES,
        **dict.fromkeys(_HEADERS.split(), "the name of a C or CUDA header"),
        **dict.fromkeys(_FUNCTIONS.split(), "a function that other code has"),
    }
)
"""Names no kernel or file may have -> why: its header and its C functions would stand in front of others."""
