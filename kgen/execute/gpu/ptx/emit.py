"""C text of handlers: a rule's body, with loads and stores of register rows around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kgen.execute.gpu.ptx.module import PtxError
from kgen.execute.gpu.ptx.parser import BITS

HALF = {"f16": "f16", "bf16": "bf16", "f16x2": "f16", "bf16x2": "bf16"}
PACKED = ("f16x2", "bf16x2")
_SINK_VALUE = {"f16": "f32", "bf16": "f32", "f16x2": "f32", "bf16x2": "f32", "tf32": "b32"}


@dataclass(frozen=True, slots=True)
class Part:
    """A slot as the emitter sees it: ``form`` tells how its value is reached.

    Forms: ``row`` (a register, constant or special row of ``bits`` storage bits), ``not`` (a negated predicate row),
    ``none`` (absent or not wanted), ``clock`` (the warp's instruction count), ``base32``/``base64``/``fixed``
    (addresses), with ``extra`` set when a row with the displacement follows."""

    name: str
    type: str
    role: str
    form: str
    bits: int
    index: int
    vector: str = ""
    space: str = ""
    bytes: int = 0
    write: bool = False
    extra: bool = False
    default: str = ""


def lane_handler(parts: Sequence[Part], body: str, groups: Mapping[str, str]) -> str:
    """A handler that runs the body once for each active lane; ``@`` stands for its name."""
    serial = any(p.role in ("address", "number") for p in parts)
    statement = body.strip() if body.strip().endswith(";") else f"d = ({body});"
    if any(p.type in PACKED for p in parts):
        inner = _packed(parts, statement, groups)
    else:
        loads = "".join(_load(p, groups) for p in parts)
        inner = loads + statement + "".join(_store(p, groups) for p in parts)
    each = "EACH_IN_ORDER" if serial else "EACH"
    return f"void @(Warp *w, const Insn *I, u32 M) {{ {''.join(map(_pointer, parts))}{each}({inner}); }}"


def raw_handler(parts: Sequence[Part], body: str) -> str:
    """A handler whose body works on whole rows."""
    declared = "".join(_raw(p) for p in parts if not p.vector)
    vectors: dict[str, list[Part]] = {}
    for p in parts:
        if p.vector:
            vectors.setdefault(p.vector, []).append(p)
    for name, items in vectors.items():
        rows = ", ".join(f"ROW(u32, {p.index})" for p in items)
        const = "" if items[0].role == "out" else "const "
        declared += f"u32 *{name}_[] = {{{rows}}}; {const}u32 *const *{name} = (void *){name}_; "
    return f"void @(Warp *w, const Insn *I, u32 M) {{ {declared}{body} }}"


def _storage(p: Part) -> str:
    """C type of the elements of a part's row."""
    if p.type == "pred":
        return "u8"
    if p.bits == BITS[p.type] and p.type not in HALF:
        return p.type if p.type != "tf32" else "b32"
    return f"u{p.bits}"


def _pointer(p: Part) -> str:
    if p.form in ("row", "not"):
        return f"{_storage(p)} *o{p.index} = ROW({_storage(p)}, {p.index}); "
    if p.form in ("base32", "base64"):
        return f"u{p.form[4:]} *o{p.index} = ROW(u{p.form[4:]}, {p.index}); " + _extra(p)
    return _extra(p)


def _extra(p: Part) -> str:
    return f"u64 *x{p.index} = ROW(u64, {p.index + (p.form != 'fixed')}); " if p.extra else ""


def _address(p: Part) -> str:
    displacement = f"x{p.index}[l]" if p.extra else "I->imm"
    if p.form == "base32":
        return f"(u64)(u32)(o{p.index}[l] + (u32){displacement})"
    if p.form == "base64":
        return f"(o{p.index}[l] + (u64){displacement})"
    return f"(u64){displacement}"


def _flush(p: Part, value: str, groups: Mapping[str, str]) -> str:
    if "ftz" not in groups or p.type not in ("f32", *HALF):
        return value
    return f"ftz_f16({value})" if p.type in ("f16", "f16x2") else f"ftz({value})"


def _value(p: Part, shift: int = 0) -> str:
    """C expression of a source part's value in lane l."""
    element = f"o{p.index}[l]"
    if p.form == "clock":
        return f"({p.type})w->executed"
    if p.form == "none":
        return "0"
    if p.type == "pred":
        return f"{'!' if p.form == 'not' else ''}{element}"
    if p.type in HALF:
        return f"{HALF[p.type]}_to_f32((u16)({element} >> {shift}))"
    return element if p.bits == BITS[p.type] else f"({p.type}){element}"


def _value_type(p: Part) -> str:
    return "f32" if p.type in HALF else _SINK_VALUE.get(p.type, p.type)


def _load(p: Part, groups: Mapping[str, str], shift: int = 0) -> str:
    if p.role == "address":
        return f"u8 *{p.name} = kg_at_{p.space}(w, I, l, {_address(p)}, {p.bytes}, {p.bytes}, {int(p.write)}); "
    if p.role == "number":
        return f"u64 {p.name} = {_address(p)}; (void){p.name}; "
    if p.role == "out":
        return f"{_value_type(p)} {p.name}; "
    if p.form == "none" and p.role == "in":
        return f"u32 {p.name} = {p.default or 0}; (void){p.name}; "
    if p.default and p.type == "pred":  # true: nothing instead of the default
        return f"u32 {p.name} = {_value(p)} ? 0 : {p.default}; "
    return f"{_value_type(p)} {p.name} = {_flush(p, _value(p, shift), groups)}; "


def _result(p: Part, groups: Mapping[str, str]) -> str:
    value = _flush(p, p.name, groups)
    if "sat" in groups and p.type in ("f32", "f64", *HALF):
        value = f"sat01d({value})" if p.type == "f64" else f"sat01({value})"
    return f"f32_to_{HALF[p.type]}({value})" if p.type in HALF else value


def _store(p: Part, groups: Mapping[str, str]) -> str:
    if p.role not in ("out", "inout"):
        return ""
    if p.form == "none":
        return f" (void){p.name};"
    if p.type == "pred":
        return f" o{p.index}[l] = ({p.name}) != 0;"
    value = _result(p, groups)
    if p.bits != BITS[p.type] and p.type not in HALF:
        if p.type[0] == "f":
            raise PtxError(f"a {p.type} result needs a register of {BITS[p.type]} bits")
        value = f"(u{p.bits})(s{p.bits}){value}" if p.type[0] == "s" else f"(u{p.bits}){value}"
    return f" o{p.index}[l] = {value};"


def _packed(parts: Sequence[Part], statement: str, groups: Mapping[str, str]) -> str:
    """The body once for each half of packed pairs."""
    out = next(p for p in parts if p.role == "out")
    halves = ""
    for shift in (0, 16):
        loads = "".join(_load(p, groups, shift) for p in parts)
        halves += f"{{ {loads}{statement} r |= (u32){_result(out, groups)} << {shift}; }} "
    return f"u32 r = 0; {halves}o{out.index}[l] = r;"


def _raw(p: Part) -> str:
    if p.role in ("address", "number"):
        pointer = _pointer(p)
        return f"{pointer}u64 {p.name}[32]; for (u32 l = 0; l < 32; l++) {p.name}[l] = {_address(p)}; "
    if p.form == "none":
        return f"{_raw_type(p)} *{p.name} = 0; (void){p.name}; "
    if p.type == "pred" and p.role == "in":
        return f"u32 {p.name} = {'~' if p.form == 'not' else ''}pred_mask(ROW(u8, {p.index})); "
    if p.bits != BITS[p.type] and p.type != "pred":
        raise PtxError(f"operand {p.name} needs a register of {BITS[p.type]} bits")
    const = "const " if p.role == "in" else ""
    return f"{const}{_raw_type(p)} *{p.name} = ROW({_raw_type(p)}, {p.index}); (void){p.name}; "


def _raw_type(p: Part) -> str:
    return "u8" if p.type == "pred" else p.type
