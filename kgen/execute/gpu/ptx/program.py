"""C structures of the engine (native/engine.h, native/findings.h, native/regions.h) and the packing of a translated
kernel."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kgen.execute.gpu.ptx.library import handler_addresses
from kgen.execute.gpu.ptx.ops import Kind
from kgen.execute.gpu.ptx.translate import Translation

_u32, _u64, _ptr = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p

INSN = np.dtype(
    [("fn", "u8"), ("imm", "i8"), ("rows", "u8"), ("count", "u8"), ("guard", "u4"), ("target", "u4"), ("members", "u4"),
     ("kind", "u2"), ("negated", "u2"), ("table", "u8")]
)  # fmt: skip


class CProgram(ctypes.Structure):
    """Program in native/engine.h."""

    _fields_ = [
        ("name", ctypes.c_char_p), ("code", _ptr), ("constants", _ptr), ("specials", _ptr), ("params", _ptr),
        ("shared", _ptr), ("ncode", _u32), ("nconstants", _u32), ("nspecials", _u32), ("nparams", _u32),
        ("nshared", _u32), ("nrows", _u32),
        ("param_size", _u32), ("local_size", _u32), ("static_size", _u32), ("dynamic_at", _u32), ("max_threads", _u32),
        ("required", _u32 * 3), ("target", _u32), ("target_exact", _u32), ("index", _u32),
    ]  # fmt: skip


class CLaunch(ctypes.Structure):
    """Launch in native/engine.h."""

    _fields_ = [
        ("program", _ptr), ("grid", _u32 * 3), ("block", _u32 * 3), ("dynamic_shared", _u32), ("params", _ptr),
        ("mode", _u32), ("shared_poison", _u32), ("seed", _u64),
    ]  # fmt: skip


class CFinding(ctypes.Structure):
    """Finding in native/findings.h."""

    _fields_ = [
        ("severity", _u32), ("program", _u32), ("site", _u32), ("block", _u32 * 3), ("warp", _u32), ("lane", _u32),
        ("count", _u64), ("kind", ctypes.c_char * 32), ("message", ctypes.c_char * 512),
    ]  # fmt: skip


class CFindings(ctypes.Structure):
    """Findings in native/findings.h."""

    _fields_ = [("n", _u32), ("cap", _u32), ("stop", _u32), ("items", CFinding * 256)]


@dataclass(slots=True)
class Program:
    """A translated kernel in the engine's form. Its arrays stay alive as long as it does."""

    translation: Translation
    c: CProgram
    code: npt.NDArray[np.void]
    keep: list[object]

    @property
    def address(self) -> int:
        """Address of the C structure."""
        return ctypes.addressof(self.c)

    def counts(self) -> npt.NDArray[np.uint64]:
        """Executions of each step so far."""
        return self.code["count"].copy()

    def reset(self) -> None:
        """Set the execution counts to 0."""
        self.code["count"] = 0


def _array(values: Sequence[int], dtype: str) -> npt.NDArray[np.generic]:
    return np.array(list(values) or [0], dtype=dtype)


def _address(array: npt.NDArray[np.generic]) -> int:
    return int(array.ctypes.data)


def pack(translation: Translation, target: str, index: int) -> Program:
    """Lay a translated kernel out for the engine; compiles handlers that are not cached yet.

    Args:
        translation: the kernel.
        target: the module's target, such as ``sm_80`` or ``sm_90a``.
        index: number by which findings name the kernel.
    """
    addresses = handler_addresses(translation.handlers)
    steps = translation.steps
    code = np.zeros(len(steps), INSN)
    code["fn"] = [addresses[s.handler] if s.handler else 0 for s in steps]
    for name, values in (
        ("imm", [s.imm if s.imm < 1 << 63 else s.imm - (1 << 64) for s in steps]),
        ("guard", [s.guard for s in steps]),
        ("target", [s.target for s in steps]),
        ("members", [s.members for s in steps]),
        ("kind", [int(s.kind) for s in steps]),
        ("negated", [s.negated for s in steps]),
    ):
        code[name] = values
    offsets = np.cumsum([0] + [len(s.rows) for s in steps[:-1]], dtype=np.uint64)
    rows = _array([r for s in steps for r in s.rows], "u2")
    if translation.rows > 0xFFFF:
        raise ValueError(f"{translation.entry.name}: {translation.rows} register rows exceed 65535")
    code["rows"] = _address(rows) + 2 * offsets
    keep: list[object] = [code, rows]
    for i, step in enumerate(steps):
        if step.kind is Kind.BRANCH_TABLE:
            table = _array([len(step.table), *step.table], "u4")
            keep.append(table)
            code["table"][i] = _address(table)
    return Program(translation, _structure(translation, target, index, code, keep), code, keep)


def _structure(
    translation: Translation, target: str, index: int, code: npt.NDArray[np.void], keep: list[object]
) -> CProgram:
    layout, entry = translation.layout, translation.entry
    constants = np.array(translation.constants or [(0, 0, 0)], dtype=[("row", "u4"), ("bits", "u4"), ("value", "u8")])
    specials = _array([x for pair in translation.specials for x in pair], "u4")
    params = _array([x for p in entry.parameters for x in (p.offset, p.size)], "u4")
    shared = _array([x for _, offset, size in layout.shared for x in (offset, size)], "u4")
    keep += [constants, specials, params, shared]
    match = re.match(r"sm_(\d+)([af]?)", target)
    required = (*entry.directives.get("reqntid", ()), 0, 0, 0)[:3]
    most = 1
    for size in entry.directives.get("maxntid", ()) or (1024,):
        most *= size
    last = entry.parameters[-1] if entry.parameters else None
    return CProgram(
        name=entry.name.encode(), code=_address(code), constants=_address(constants), specials=_address(specials),
        params=_address(params), shared=_address(shared), ncode=len(code), nconstants=len(translation.constants),
        nspecials=len(translation.specials), nparams=len(entry.parameters), nshared=len(layout.shared),
        nrows=translation.rows + 4, param_size=last.offset + last.size if last else 0, local_size=layout.local_size,
        static_size=layout.static_size, dynamic_at=layout.dynamic_at, max_threads=most, required=(_u32 * 3)(*required),
        target=int(match.group(1)) if match else 0, target_exact=int(bool(match and match.group(2))), index=index,
    )  # fmt: skip
