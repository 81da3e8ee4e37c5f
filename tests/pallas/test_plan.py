"""Plans and generated text: structure, names, legality, and what the cost model decides."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from builders import ALPHA, BIAS, GELU, kernel, planned, text

from kgen.arch import TPU_ARCHS
from kgen.expr import HELPERS, RESERVED
from kgen.ops import gemm
from kgen.plan.pallas import TAKEN, plan
from kgen.render.environment import environment
from kgen.spec.kernel import Kernel, Operand
from kgen.spec.models import NAME
from kgen.spec.problem import Problem
from kgen.tile import operations

LAYERS = ["1. tile operators", "2. kernel", "3. instantiation", "4. client API"]
LONG = "where(acc > bias, " + " + ".join(f"{n}.5 * acc" for n in range(12)) + ", gelu(acc) + relu(acc) * sigmoid(acc))"


def widest() -> Kernel:
    """A kernel that uses every operator, with as many operands as would fit no line."""
    extras = (BIAS, ALPHA, Operand("residual", "bf16", "bmn"), Operand("row_scale_of_the_result", "f32", "bm"))
    squashed = "clamp(silu(acc), -1, 1) * residual + row_scale_of_the_result"
    outputs = (GELU, ("long", "f32", LONG), ("squashed", "bf16", squashed))
    return kernel(layouts=("bmk", "nk"), extras=extras, outputs=outputs, multiple_of={"k": 8})


KERNELS = {
    "plain": kernel(),
    "widest": widest(),
    "no tail": kernel(multiple_of={"k": 256}),
    "no scalar": kernel(dtype="f32", extras=(), outputs=(("c", "f32", "acc"),)),
}


SPELT = {"load_k": "load", "broadcast_row": "broadcast", "broadcast_column": "broadcast"}


def kernel_function(source: str) -> ast.FunctionDef:
    return next(n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == "kernel")


def performed(source: str, maps: set[str]) -> list[tuple[str, str]]:
    """(operation, name) of each tile operation in the kernel function, in the order of the text."""
    found = []
    for node in ast.walk(kernel_function(source)):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, node.value
            called = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else "map"
            operation = "map" if name in maps else SPELT.get(called, called)
            found.append((node.lineno, operation, name))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name):
            call = node.value
            if call.func.id in ("fill", "mma", "store"):  # type: ignore[attr-defined]
                found.append((node.lineno, call.func.id, call.args[0].id.removesuffix("_ref")))  # type: ignore[attr-defined]
    return [(operation, name) for _, operation, name in sorted(found) if name not in ("k_step", "k_last")]


@pytest.mark.parametrize("of", KERNELS.values(), ids=KERNELS)
def test_the_kernel_layer_is_the_tile_program(of: Kernel) -> None:
    maps = {f"{output.name}_value" for output in of.signature.outputs}
    assert performed(text(of), maps) == list(operations(gemm.program(of.signature)))


@pytest.mark.parametrize("of", KERNELS.values(), ids=KERNELS)
def test_the_text_is_tidy(of: Kernel, tmp_path: Path) -> None:
    source = text(of)
    assert all(len(line) <= 120 and line == line.rstrip() for line in source.splitlines())
    assert [line.strip("# =") for line in source.splitlines() if line.startswith("# ====")] == LAYERS
    modules = {node.module for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)}
    assert modules <= {"__future__", "collections.abc", "typing", "jax", "jax.experimental", "jax.experimental.pallas"}
    (tmp_path / "generated.py").write_text(source)
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", str(tmp_path)]
    assert subprocess.run(ruff, capture_output=True, text=True, check=False).stdout == "All checks passed!\n"


def test_only_the_operators_that_are_used_are_there() -> None:
    names = {n.name for n in ast.parse(text(KERNELS["no scalar"])).body if isinstance(n, ast.FunctionDef)}
    assert names == {"fill", "load", "load_below", "mma", "cast", "store", "kernel", "in_hbm", "entry"} | {
        "_check",
        "gemm_tpu_v6e",
    }


def test_every_helper_of_the_printer_has_a_macro() -> None:
    macros = environment("pallas").get_template("tile/math.jinja").module
    assert {name for name in vars(macros) if not name.startswith("_")} == set(HELPERS["jax"])


def identifiers(tree: ast.AST) -> set[str]:
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    found |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    return found | {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_no_operand_can_take_a_name_that_has_a_meaning() -> None:
    signature, body = widest().signature, ast.parse(text(widest())).body
    functions = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
    used = set(functions).union(*(identifiers(functions[name]) for name in ("kernel", "entry", "gemm_tpu_v6e")))
    own = {operand.name for operand in (*signature.inputs, *signature.outputs)}
    made = {f"{name}_{suffix}" for name in own for suffix in ("ref", "tile", "mn", "value")}
    possible = {name for name in used if re.fullmatch(NAME, name)}
    assert possible - own - made - RESERVED - {"gemm_tpu_v6e"} == TAKEN - RESERVED


# ---- clauses --------------------------------------------------------------------------------------------------------


def problems(of: Kernel) -> list[Problem]:
    made = plan(of)
    assert isinstance(made, tuple), made
    return list(made)


def said(of: Kernel) -> list[tuple[str, str, str]]:
    return [(".".join(map(str, p.path)), p.message, p.fix) for p in problems(of)]


def test_f16_is_refused_with_the_reason() -> None:
    of = kernel(dtype="f16", outputs=[("c", "f32", "acc")])
    reason = "is f16; no TPU has arithmetic in f16, and libtpu loads no f16 vectors"
    assert said(of) == [("targets.0.arch", f"{name} {reason}", "allowed: bf16, f32") for name in "ab"]


def test_f32_products_are_exact_only() -> None:
    words = "f32_mma: tf32 is not to be had on tpu-v6e: Mosaic offers exact products only"
    assert said(kernel(dtype="f32", f32_mma="tf32")) == [("targets.0.f32_mma", words, "allowed: exact")]


def test_a_name_with_a_meaning_in_python_is_refused() -> None:
    words = "'lambda' has a meaning in the generated Python file"
    of = kernel(extras=(Operand("lambda", "f32", ""),), outputs=[("c", "bf16", "acc * lambda")])
    assert said(of) == [("inputs.lambda", words, "rename it")]


LAST, LAST_BUT_ONE = "the last dim of a block: 128 lanes", "the last dim but one of a block: 8 sublanes"


@pytest.mark.parametrize(
    ("layouts", "tile", "dim", "size", "multiple", "why", "nearest"),
    [
        (("mk", "nk"), (12, 128, 128), "m", 12, 8, LAST_BUT_ONE, 16),
        (("km", "nk"), (8, 128, 128), "m", 8, 128, LAST, 128),
        (("mk", "nk"), (8, 64, 128), "n", 64, 128, LAST, 128),
        (("km", "nk"), (128, 128, 200), "k", 200, 128, LAST, 256),
        (("km", "kn"), (128, 128, 4), "k", 4, 8, LAST_BUT_ONE, 8),
    ],
)
def test_blocks_are_whole_register_tiles(
    layouts: tuple[str, str], tile: tuple[int, int, int], dim: str, size: int, multiple: int, why: str, nearest: int
) -> None:
    message = f"tile.{dim} = {size} is not a positive multiple of {multiple} ({dim} is {why})"
    assert said(kernel(layouts=layouts, tile=tile)) == [(f"targets.0.tile.{dim}", message, f"nearest: {nearest}")]


def test_vmem_is_bounded_to_the_byte() -> None:
    fits = planned(kernel(arch="tpu-v4", tile=(1024, 512, 1024), extras=(), outputs=[("c", "bf16", "acc")]))
    assert fits.vmem_bytes <= TPU_ARCHS["tpu-v4"].vmem_bytes
    over = kernel(arch="tpu-v4", tile=(1024, 640, 1024), extras=(), outputs=[("c", "bf16", "acc")])
    assert said(over) == [
        (
            "targets.0.tile",
            "blocks of 1024 x 640 x 1024 need 18546688 bytes of VMEM (2 x 4718592 of blocks, 2621440 of accumulator, "
            "6488064 of values), 1769472 over the 16777216 that tpu-v4 has",
            "use a smaller tile",
        )
    ]


def test_a_vmem_limit_is_kept_and_checked() -> None:
    need = planned(kernel(tile=(512, 512, 512))).vmem_bytes
    least = -(-need // 2**20)
    assert f"VMEM_LIMIT_BYTES: Final = {least} << 20" in text(kernel(tile=(512, 512, 512), vmem_limit_mib=least))
    (problem,) = problems(kernel(tile=(512, 512, 512), vmem_limit_mib=least - 1))
    assert f"{need - (least - 1) * 2**20} over the {(least - 1) * 2**20} that vmem_limit_mib allows" in problem.message
    (path, message, fix) = said(kernel(vmem_limit_mib=129))[0]
    assert (path, fix) == ("targets.0.vmem_limit_mib", "allowed: at most 128")
    assert message == "vmem_limit_mib asks for 135266304 bytes, 1048576 over the 134217728 of tpu-v6e"


# ---- choice ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", TPU_ARCHS)
def test_what_is_left_out_is_chosen_and_explained(arch: str) -> None:
    made = planned(kernel(arch=arch, tile=None))
    assert [decision.field for decision in made.decisions] == ["tile.m", "tile.n", "tile.k", "vmem_limit_mib"]
    assert tuple(decision.value for decision in made.decisions[:3]) == made.tile
    times = [alternative.microseconds for alternative in made.alternatives]
    assert times == sorted(times)
    assert dict(made.alternatives[0].fields) == dict(zip(("tile.m", "tile.n", "tile.k"), made.tile, strict=True))
    assert made.vmem_bytes <= TPU_ARCHS[arch].vmem_bytes


def test_what_is_given_is_not_decided() -> None:
    assert [decision.field for decision in planned(kernel()).decisions] == ["vmem_limit_mib"]
    assert not planned(kernel(vmem_limit_mib=64)).decisions


def test_exact_f32_takes_smaller_blocks() -> None:
    bf16, f32 = (planned(kernel(dtype=dtype, tile=None)) for dtype in ("bf16", "f32"))
    assert f32.tile < bf16.tile
