"""Control flow and barriers (PTX ISA 9.7.12, 9.7.13.1). The interpreter executes these; the rules state their
operands."""

from __future__ import annotations

from kgen.execute.gpu.ptx.ops.table import Groups, Kind, rule

# flags of a barrier, mirrored in native/engine.c
ARRIVE, RED, COUNT, ALIGNED = 1, 2, 4, 8
REDUCTIONS = {"popc": 16, "and": 32, "or": 64}

rule("bra[.uni]", "", "", isa="9.7.12.3", kind=Kind.BRANCH)
rule("brx.idx[.uni]", "a:u32", "", isa="9.7.12.4", kind=Kind.BRANCH_TABLE)
rule("ret[.uni]", "", "", isa="9.7.12.6", kind=Kind.EXIT)
rule("exit", "", "", isa="9.7.12.7", kind=Kind.EXIT)
for _bar in ("bar[.cta]", "barrier[.cta]"):
    _tail = "[.aligned]" if _bar.startswith("barrier") else ""
    rule(f"{_bar}.sync{_tail}", "id:u32 ?count:u32", "", isa="9.7.13.1", kind=Kind.BARRIER, counter="barrier")
    rule(f"{_bar}.arrive{_tail}", "id:u32 count:u32", "", isa="9.7.13.1", kind=Kind.BARRIER, counter="barrier")
    for _reductions, _type in (("popc", "u32"), ("and|or", "pred")):
        rule(
            f"{_bar}.red.{{red:{_reductions}}}{_tail}.{_type}",
            f"=d:{_type} id:u32 ?count:u32 a:pred",
            "",
            isa="9.7.13.1",
            kind=Kind.BARRIER,
            counter="barrier",
        )


def barrier_flags(opcode: str, groups: Groups, has_count: bool) -> int:
    """Flags of a barrier instruction for the interpreter."""
    flags = (ARRIVE if ".arrive" in opcode else 0) | (COUNT if has_count else 0)
    if "red" in groups:
        flags |= RED | REDUCTIONS[groups["red"]]
    aligned = opcode.startswith("bar.") or "aligned" in groups
    return flags | (ALIGNED if aligned else 0)
