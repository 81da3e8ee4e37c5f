# ruff: noqa: E501 (PTX text)
"""PTX text for tests: kernels around single instructions, and ways to run them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kgen.execute.gpu.devices import attributes
from kgen.execute.gpu.findings import Finding
from kgen.execute.gpu.ptx.session import Options, Session

HEADER = ".version 8.7\n.target sm_80\n.address_size 64\n"
Array = npt.NDArray[Any]
BITS = {"pred": 32, "f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32}


def bits(type_: str) -> int:
    return BITS.get(type_) or int(type_[1:])


def declare(name: str, type_: str) -> str:
    return f".reg .{type_ if type_ in ('f32', 'f64', 'pred') else f'b{bits(type_)}'} {name};"


def entry(name: str, body: str, params: int = 0, before: str = "") -> str:
    """A kernel with pointer parameters p0, p1, ... loaded into %q0, %q1, ...; %tid in %t, 8 * %tid in %o."""
    plist = ", ".join(f".param .u64 p{i}" for i in range(params))
    loads = "".join(f"ld.param.u64 %q{i}, [p{i}];\n" for i in range(params))
    return (
        f"{before}\n.visible .entry {name}({plist}) {{\n.reg .b64 %q<{max(params, 1)}>; .reg .b32 %t; .reg .b64 %o;\n{loads}"
        f"mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 8;\n{body}\nret;\n}}\n"
    )


def op_entry(name: str, instruction: str, ins: tuple[str, ...], outs: tuple[str, ...]) -> str:
    """A kernel that applies an instruction to 8-byte slots: sources a0, a1, ..., results d0, d1, ... ."""
    body = [".reg .b32 %x; .reg .b64 %m;"]
    for i, type_ in enumerate(ins):
        body.append(declare(f"a{i}", type_))
        body.append(f"add.u64 %m, %q{i}, %o;")
        if type_ == "pred":
            body.append(f"ld.global.b32 %x, [%m]; setp.ne.s32 a{i}, %x, 0;")
        else:
            body.append(f"ld.global.b{bits(type_)} a{i}, [%m];")
    body += [declare(f"d{i}", type_) for i, type_ in enumerate(outs)]
    body.append(instruction)
    for i, type_ in enumerate(outs):
        body.append(f"add.u64 %m, %q{len(ins) + i}, %o;")
        if type_ == "pred":
            body.append(f"selp.b32 %x, 1, 0, d{i}; st.global.b32 [%m], %x;")
        else:
            body.append(f"st.global.b{bits(type_)} [%m], d{i};")
    return entry(name, "\n".join(body), len(ins) + len(outs))


class Machine:
    """A session in the test's own process, with arrays as buffers."""

    def __init__(self, text: str) -> None:
        self.session = Session(text if ".version" in text else HEADER + text)

    def run(
        self,
        name: str,
        arrays: dict[str, Array],
        *,
        params: bytes | None = None,
        grid: tuple[int, ...] = (1,),
        block: tuple[int, ...] = (32,),
        shared: int = 0,
        **options: Any,
    ) -> tuple[dict[str, Array], list[Finding]]:
        """Launch with the arrays' addresses as parameters (then ``params``); returns copies of the arrays after it."""
        self.session.begin(attributes("sm_80"), Options(**options))
        placed = {}
        for key, array in arrays.items():
            space = np.zeros(array.nbytes + 512, np.uint8)
            begin = -space.ctypes.data % 256
            placed[key] = space[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
            placed[key][...] = array
            self.session.register(key, int(placed[key].ctypes.data), array.nbytes)
        space_of = b"".join(int(a.ctypes.data).to_bytes(8, "little") for a in placed.values()) + (params or b"")
        self.session.launch(name, space_of, grid, block, shared)
        return {key: array.copy() for key, array in placed.items()}, self.session.findings()


def run_one(body: str, arrays: dict[str, Array], **keywords: Any) -> tuple[dict[str, Array], list[Finding]]:
    """Run a kernel given by its body."""
    before = keywords.pop("before", "")
    return Machine(entry("k", body, len(arrays), before)).run("k", arrays, **keywords)


def bf16(x: Array) -> Array:
    """Nearest bf16, as uint16."""
    u = np.asarray(x, np.float32).view(np.uint32)
    return np.where(np.isnan(x), 0x7FFF, (u + 0x7FFF + (u >> 16 & 1)) >> 16).astype(np.uint16)


def from_bf16(h: Array) -> Array:
    return (np.asarray(h).astype(np.uint32) << 16).view(np.float32)


def write(path: Path, text: str) -> Path:
    path.write_text(text if ".version" in text else HEADER + text)
    return path
