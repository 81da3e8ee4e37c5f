"""All CUDA files of a project link into one library, and their headers meet in one translation unit of C or C++."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from kgen.plan import CudaPlan
from kgen.toolchain import nvcc
from tests.render.outputs import outputs, plans

SOURCES = sorted(name for name in outputs() if name.endswith(".cu"))
HEADERS = sorted(name for name in outputs() if name.endswith(".h"))
WARNINGS = ["-Xcompiler", "-fPIC,-Wall,-Wextra,-Werror", "-Werror", "all-warnings"]
FLAGS = ["-gencode", "arch=compute_80,code=compute_80", "-std=c++17", "-shared", "-cudart", "none"]
"""PTX only: ptxas has no part in linking."""
needs_nvcc = pytest.mark.skipif(isinstance(nvcc.find(), nvcc.ToolMissing), reason="nvcc is not installed")
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def written(folder: Path, names: Iterable[str]) -> Path:
    for name in names:
        (folder / name).write_text(outputs()[name])
    return folder


def linked(folder: Path, sources: list[str]) -> dict[str, str]:
    """The dynamic symbols that a library of `sources` defines, with their types as nm prints them."""
    tool = nvcc.find()
    assert isinstance(tool, nvcc.Nvcc)
    written(folder, [*sources, *HEADERS])
    subprocess.run([tool.path, *FLAGS, *WARNINGS, "-o", "all.so", *sources], cwd=folder, check=True)
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", "all.so"], cwd=folder, check=True, capture_output=True, text=True
    )
    return {line.split()[2]: line.split()[1] for line in listed.stdout.splitlines()}


def check_symbols(found: dict[str, str], sources: list[str]) -> None:
    kernels = [name.removesuffix(".cu") for name in sources]
    wanted = {kernel + suffix for kernel in kernels for suffix in ("", "_check", "_workspace")}
    assert {name for name, kind in found.items() if kind not in "WV"} == wanted
    weak = {name for name in found if name not in wanted}
    assert all(name.startswith("_ZN4dim3C") for name in weak), "CUDA's own inline constructor, and nothing of kgen"


@needs_nvcc
def test_unlike_files_link_without_warnings_or_leaked_symbols(tmp_path: Path) -> None:
    sources = ["gemm_batch_sm_80.cu", "gemm_f32_tn_sm_80.cu", "gemm_sweep_sm_80_s2.cu"]
    check_symbols(linked(tmp_path, sources), sources)


@needs_nvcc
@pytest.mark.verify_all
def test_all_files_link_without_warnings_or_leaked_symbols(tmp_path: Path) -> None:
    assert len(SOURCES) >= 12
    check_symbols(linked(tmp_path, SOURCES), SOURCES)


@needs_gcc
@pytest.mark.parametrize(("suffix", "standard"), [(".c", "c99"), (".cpp", "c++11")])
def test_headers_meet_in_one_unit(suffix: str, standard: str, tmp_path: Path) -> None:
    written(tmp_path, HEADERS)
    unit = tmp_path / f"all{suffix}"
    calls = [f"  bad |= {plan.header.kernel}(0);" for plan in plans() if isinstance(plan, CudaPlan)]
    includes = [f'#include "{name}"' for name in HEADERS]
    unit.write_text(
        "\n".join([*includes, "int main(void) {", "  int32_t bad = KGEN_OK;", *calls, "  return bad;", "}\n"])
    )
    flags = [f"-std={standard}", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    subprocess.run(["gcc", *flags, str(unit)], check=True)


@needs_gcc
def test_a_header_leaks_no_macro_but_its_guards(tmp_path: Path) -> None:
    def macros(text: str) -> set[str]:
        command = ["gcc", "-std=c99", "-dM", "-E", "-I", str(tmp_path), "-x", "c", "-"]
        listed = subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout
        return {line.split()[1] for line in listed.splitlines()}

    written(tmp_path, HEADERS)
    own = macros("".join(f'#include "{name}"\n' for name in HEADERS)) - macros("#include <stdint.h>\n")
    guards = {name.replace(".", "_").upper() for name in HEADERS}
    assert own == guards | {"KGEN_STATUS_DEFINED"}


def test_swept_kernels_share_one_header() -> None:
    text = outputs()["gemm_sweep.h"]
    for stages in (2, 3, 4):
        assert f"int32_t gemm_sweep_sm_80_s{stages}(const gemm_sweep_args *args);" in text
