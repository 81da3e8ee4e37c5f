"""The PTX executor: one product of 1024^3 in bf16, executed eagerly on one core, launcher included."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Figure, Missing
from kgen.execute.gpu.harness import Call, Outcome, Run, build_launcher, execute
from kgen.plan import CudaPlan, plan_kernel
from kgen.render.files import render
from kgen.spec.kernel import Kernel
from kgen.spec.load import load
from kgen.toolchain import nvcc
from kgen.verify.gpu_arguments import arguments
from kgen.verify.inputs import make_inputs

ROOT = Path(__file__).resolve().parents[1]
SPEC = ROOT / "specs" / "gemm_bias_gelu.yaml"
SIZES = {"m": 1024, "n": 1024, "k": 1024, "b": 1}
WHAT = "executor, gemm_bias_gelu_sm_80, 1024^3 bf16, eager"


def figures(scratch: Path, runs: int) -> Iterator[Figure | Missing]:
    """The processor time of the launch, without its process's start and the making of inputs."""
    tool = nvcc.find()
    if isinstance(tool, nvcc.ToolMissing):
        yield Missing(WHAT, tool.fix)
        return
    kernel, plan = _planned()
    folder = scratch / "executor"
    folder.mkdir()
    for name, text in render([plan]).items():
        (folder / name).write_text(text)
    flags = [*nvcc.gencode(kernel.arch), "-std=c++17"]
    library = build_launcher(folder / f"{kernel.name}.cu", folder, [tool.path], flags)
    outcomes = execute(library, library.with_suffix(".ptx"), [_run(kernel, plan)] * runs)
    finished = [one for one in outcomes if isinstance(one, Outcome)]
    if len(finished) != runs or any(one.findings or one.returned != (0,) for one in finished):
        yield Missing(WHAT, f"the run failed: {outcomes[0]}")
        return
    counted = finished[0].counters
    least = min(one.cpu_seconds for one in finished)
    mma, rest = counted["mma"] / 1e6, (counted["instructions"] - counted["mma"]) / 1e6
    words = f"arithmetic of {mma:.1f} million mma (over half), then dispatch of {rest:.1f} million other instructions"
    yield Figure(WHAT, least, words, target=0.25)


def _planned() -> tuple[Kernel, CudaPlan]:
    (document,) = load(SPEC, ROOT).documents
    kernel = next(kernel for kernel in document.kernels() if kernel.target == "cuda")
    plan = plan_kernel(kernel)
    assert isinstance(plan, CudaPlan)
    return kernel, plan


def _run(kernel: Kernel, plan: CudaPlan) -> Run:
    call = arguments(kernel.signature, SIZES, plan.align)
    inputs = make_inputs(kernel.signature, SIZES, "benchmark")
    scalars = {o.name: float(inputs[o.name]) for o in kernel.signature.inputs if not o.layout}
    return Run((Call(kernel.name, tuple(call.fields(scalars))),), call.buffers(inputs), arch=kernel.arch)
