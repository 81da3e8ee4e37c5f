"""Pallas kernels compiled by libtpu ahead of time, for any TPU generation, on a host without a TPU.

Compilation runs under libtpu's LLO linter, which follows the compiled program and reports reads of uninitialised VMEM,
accesses out of bounds and DMA races. The work is done in child processes and cached by text, tool versions and flags.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgen.arch import TPU_ARCHS
from kgen.toolchain import cache
from kgen.toolchain.child import ChildError, Limits, run
from kgen.toolchain.jax_env import AOT_ENVIRONMENT, MissingTool, compiler_versions, load_module

if TYPE_CHECKING:
    import jax

LINT_OPTIONS: Mapping[str, str] = {
    "xla_tpu_enable_llo_linter": "true",
    "xla_tpu_llo_linter_analyze_tpu_custom_calls": "true",
    "xla_tpu_llo_race_analysis_check_vld_vst": "true",
}
LINT_TARGETS = ("dma_race", "bounds_check", "smem_poison_use", "scoped_alloc_boundary", "vmem_poison_use")
LIMITS = Limits(seconds=180.0, memory_bytes=8 << 30)
_KIND, _FILE = "jax_aot", "result.json"
_FORMAT = 2
"""Changes when a cached result no longer means the same."""
_JAX_DTYPES = {"f32": "float32", "bf16": "bfloat16"}


@dataclass(frozen=True)
class Argument:
    """An array that a kernel is compiled for. A scalar has shape ()."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class AotRequest:
    """A generated file, its entry point, and what to compile it for."""

    text: str
    entry: str
    arguments: tuple[Argument, ...]
    arch: str
    ragged: bool
    """A block reaches beyond an array. The linter's check of uninitialised VMEM is then left out: it takes the rest
    of such a block for uninitialised even where the kernel masks it."""

    @property
    def lint_targets(self) -> tuple[str, ...]:
        """The linter's checks that are meant to hold."""
        return tuple(target for target in LINT_TARGETS if not (self.ragged and target == "vmem_poison_use"))


@dataclass(frozen=True)
class AotResult:
    """What libtpu said. `ok` means that it compiled and the linter found nothing."""

    compiled: bool
    error: str
    """The compiler's own words where it did not compile."""
    lint: tuple[str, ...]
    """Findings of the linter, `check: detail`."""
    lint_targets: tuple[str, ...]
    """The checks that were made."""
    seconds: float
    vmem_bytes: int | None
    """VMEM that the compiled kernel uses, where the compiler tells."""
    precisions: tuple[str, ...]
    """What every product of the traced program asks for, in order: names of `lax.Precision`."""

    @property
    def ok(self) -> bool:
        """Compiled, and nothing found."""
        return self.compiled and not self.lint


def compile_all(
    requests: Sequence[AotRequest], *, limits: Limits = LIMITS, cached: bool = True
) -> tuple[AotResult | ChildError, ...] | MissingTool:
    """One result a request, in order. Results of the same text, tools and flags come from the cache."""
    tools = compiler_versions()
    if isinstance(tools, MissingTool):
        return tools
    keys = [_key(request, tools) for request in requests]
    known = [_read(key) if cached else None for key in keys]
    todo = [index for index, result in enumerate(known) if result is None]
    results: list[AotResult | ChildError | None] = list(known)
    made = run(f"{__name__}:compile_one", (requests[index] for index in todo), AOT_ENVIRONMENT, limits)
    for index, result in zip(todo, made, strict=True):
        assert isinstance(result, AotResult | ChildError)
        results[index] = result
        if isinstance(result, AotResult):
            _write(keys[index], result)
    return tuple(result for result in results if result is not None)


# ---- cache ----------------------------------------------------------------------------------------------------------


def _key(request: AotRequest, tools: Mapping[str, str]) -> str:
    parts = [_FORMAT, asdict(request), dict(tools), dict(LINT_OPTIONS), LINT_TARGETS]
    return cache.key_of(json.dumps(parts, sort_keys=True))


def _read(key: str) -> AotResult | None:
    try:
        fields = json.loads((cache.root() / _KIND / key / _FILE).read_text("utf-8"))
    except FileNotFoundError:
        return None
    lists = {name: tuple(fields[name]) for name in ("lint", "lint_targets", "precisions")}
    return AotResult(**{**fields, **lists})


def _write(key: str, result: AotResult) -> None:
    def fill(place: Path) -> None:
        (place / _FILE).write_text(json.dumps(asdict(result), sort_keys=True), "utf-8")

    cache.folder(_KIND, key, fill)


# ---- in the child ---------------------------------------------------------------------------------------------------


def compile_one(request: AotRequest) -> AotResult:
    """Compiles one request in this process, which must have AOT_ENVIRONMENT."""
    start = time.monotonic()
    targets = request.lint_targets
    options = {
        **LINT_OPTIONS,
        "xla_tpu_llo_linter_targets": ";".join(targets),
        # The kernel alone, which bears the name of the file: XLA's own copies about it do not pass on v4
        "xla_tpu_llo_linter_hlo_filter": f"{request.entry}.*",
    }
    compiled, error = _attempt(request, options)
    lint = tuple(_findings(error))
    if lint:  # the linter stops the compiler: what that would have said is asked for again
        compiled, error = _attempt(request, {})
    seconds = round(time.monotonic() - start, 3)
    vmem = _vmem(compiled.as_text()) if compiled is not None else None
    precisions = _precisions(request) if compiled is not None else ()
    return AotResult(compiled is not None, error, lint, targets, seconds, vmem, precisions)


def _attempt(request: AotRequest, options: dict[str, str]) -> tuple[Any, str]:
    import jax

    function, shapes = _call(request)
    try:
        lowered = jax.jit(function).trace(*shapes).lower(lowering_platforms=("tpu",))
        return lowered.compile(compiler_options=options), ""
    except Exception as error:  # whatever the compiler raises is what it says about this kernel
        return None, f"{type(error).__name__}: {error}"[:4000]


def _precisions(request: AotRequest) -> tuple[str, ...]:
    import jax

    function, shapes = _call(request)
    return tuple(_products(jax.make_jaxpr(function)(*shapes).jaxpr))


def _products(jaxpr: Any) -> Iterator[str]:
    """The precisions of all products in a traced program, those of the programs inside it included."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            given = equation.params["precision"]
            for one in given if isinstance(given, tuple) else (given,):
                yield "DEFAULT" if one is None else getattr(one, "name", str(one))
        for parameter in equation.params.values():
            for value in parameter if isinstance(parameter, (tuple, list)) else (parameter,):
                inner = getattr(value, "jaxpr", value)
                if hasattr(inner, "eqns"):
                    yield from _products(inner)


def _call(request: AotRequest) -> tuple[Callable[..., object], list[jax.ShapeDtypeStruct]]:
    """The entry as a function of its arrays. Scalars are constants: XLA's own copy of an argument to SMEM goes through
    VMEM that the linter later takes for the kernel's (libtpu 0.0.52, v5e and v5p)."""
    import jax
    import jax.numpy as jnp

    sharding = jax.sharding.SingleDeviceSharding(_device(TPU_ARCHS[request.arch].topology))
    entry = getattr(load_module(request.text), request.entry)
    shapes = []
    for argument in request.arguments:
        dtype = jnp.dtype(_JAX_DTYPES[argument.dtype])
        shapes.append(jax.ShapeDtypeStruct(argument.shape, dtype, sharding=sharding))  # type: ignore[no-untyped-call]
    arrays = [shape for shape in shapes if shape.shape]

    def function(*given: jax.Array) -> object:
        left = iter(given)
        return entry(*(next(left) if shape.shape else jnp.asarray(0.5, shape.dtype) for shape in shapes))

    return function, arrays


@lru_cache
def _device(topology: str) -> Any:
    from jax.experimental import topologies

    return topologies.get_topology_desc(topology_name=topology, platform="tpu").devices[0]


def _findings(error: str) -> Iterator[str]:
    for target, detail in re.findall(r"\[LLO_LINT\] (\w+) :: ([^\n]*)", error):
        yield f"{target}: {detail.strip()}"


def _vmem(text: str) -> int | None:
    call = next((line for line in text.splitlines() if 'custom_call_target="tpu_custom_call"' in line), "")
    used = re.search(r'"used_scoped_memory_configs":\[\{"memory_space":"1","offset":"0","size":"(\d+)"\}\]', call)
    return int(used[1]) if used else None
