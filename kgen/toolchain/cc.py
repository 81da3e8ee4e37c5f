"""The host C compiler: found on PATH, run for one job, its results cached.

`$KGEN_CC` names another compiler. The flags depend on the processor: results are built for the machine they run on,
and the processor's features are part of every key."""

from __future__ import annotations

import functools
import os
import platform
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kgen.toolchain import process

REQUIRED_FEATURES = ("avx2", "fma", "f16c", "bmi1")


class CompilerError(RuntimeError):
    """The host C compiler is missing, unusable or rejected its input."""


@dataclass(frozen=True)
class Compiler:
    """A C compiler: its path, its own version line, and the processor features its results depend on."""

    path: str
    version: str
    features: str

    @property
    def identity(self) -> tuple[str, ...]:
        """What results depend on besides their text and flags."""
        return (self.path, self.version, self.features)


@functools.lru_cache(maxsize=1)
def compiler() -> Compiler:
    """The host C compiler.

    Raises:
        CompilerError: none is on PATH, or the processor lacks AVX2, FMA or F16C.
    """
    candidates = [os.environ["KGEN_CC"]] if "KGEN_CC" in os.environ else ["cc", "gcc", "clang"]
    path = next((found for name in candidates if (found := shutil.which(name))), None)
    if path is None:
        raise CompilerError(
            f"no C compiler: looked for {', '.join(candidates)} on PATH; install gcc or clang, or set KGEN_CC"
        )
    version = process.run([path, "--version"]).stdout.splitlines()
    return Compiler(path, version[0] if version else "unknown", _features())


def _features() -> str:
    if platform.machine() not in ("x86_64", "AMD64"):
        raise CompilerError(f"executing GPU code needs an x86-64 processor with AVX2; this one is {platform.machine()}")
    flags: list[str] = []
    for line in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("flags"):
            flags = sorted(line.split(":", 1)[1].split())
            break
    missing = [feature for feature in REQUIRED_FEATURES if feature not in flags]
    if missing:
        raise CompilerError(f"executing GPU code needs the processor features {', '.join(missing)}")
    return " ".join(flags)


def build(output: Path, sources: Sequence[Path], flags: Sequence[str]) -> None:
    """Compile and link `sources` to `output`.

    Raises:
        CompilerError: with the compiler's message.
    """
    command = [compiler().path, *flags, "-o", str(output), *map(str, sources)]
    done = process.run(command)
    if done.code:
        raise CompilerError(f"{' '.join(command)}\n{done.words[:4000]}")
