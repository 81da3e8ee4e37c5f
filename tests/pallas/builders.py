"""Hand-made kernels and their generated text, without YAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgen.expr import Typed, Value, check, parse
from kgen.expr.parser import Expression
from kgen.plan.pallas import plan
from kgen.plan.pallas_views import PallasPlan
from kgen.render.files import render_source
from kgen.spec.kernel import Kernel, Operand, Output, Signature

BIAS = Operand("bias", "f32", "n")
ALPHA = Operand("alpha", "f32", "")
GELU = ("c", "bf16", "gelu_tanh(alpha * acc + bias)")


def typed(source: str, extras: Sequence[Operand], batch: str) -> Typed:
    """A checked expression over acc and the extra inputs."""
    expression = parse(source)
    assert isinstance(expression, Expression), expression
    names = {operand.name: Value(operand.dtype, operand.layout) for operand in extras}
    value = check(expression, {"acc": Value("f32", f"{batch}mn"), **names})
    assert isinstance(value, Typed), value
    return value


def kernel(
    arch: str = "tpu-v6e",
    dtype: str = "bf16",
    layouts: tuple[str, str] = ("mk", "nk"),
    extras: Sequence[Operand] = (BIAS, ALPHA),
    outputs: Sequence[tuple[str, str, str]] = (GELU,),
    tile: tuple[int, int, int] | None = (128, 128, 128),
    multiple_of: Mapping[str, int] | None = None,
    f32_mma: str | None = None,
    vmem_limit_mib: int | None = None,
) -> Kernel:
    """A gemm kernel called `gemm_<arch>`; batched where layouts, extras or a layout of three letters say so."""
    inputs = (Operand("a", dtype, layouts[0]), Operand("b", dtype, layouts[1]), *extras)
    batch = "b" if any(operand.batched for operand in inputs) else ""
    made = tuple(Output(name, out, f"{batch}mn", typed(source, extras, batch)) for name, out, source in outputs)
    exact = f32_mma or ("exact" if dtype == "f32" else None)
    signature = Signature("gemm", "gemm", inputs, made, multiple_of or {}, "f32", exact)
    fields: dict[str, object] = {}
    if tile is not None:
        fields["tile"] = (("k", tile[2]), ("m", tile[0]), ("n", tile[1]))
    if vmem_limit_mib is not None:
        fields["vmem_limit_mib"] = vmem_limit_mib
    name = f"gemm_{arch.replace('-', '_')}"
    return Kernel(name, signature, "pallas", arch, fields, "specs/gemm.yaml", ("targets", 0))  # type: ignore[arg-type]


def planned(of: Kernel) -> PallasPlan:
    """The plan of a legal kernel."""
    made = plan(of)
    assert isinstance(made, PallasPlan), made
    return made


def text(of: Kernel) -> str:
    """The generated file of a legal kernel."""
    return render_source(planned(of))
