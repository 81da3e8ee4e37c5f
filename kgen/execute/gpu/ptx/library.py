"""Native libraries of the PTX engine: the engine itself and the handlers, built once and cached.

The engine is one library. Handlers are compiled in batches: a kernel compiles those that no cached batch has. A batch
is named after its content, and its list of handlers is its index; both appear atomically."""

from __future__ import annotations

import ctypes
import functools
import os
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kgen.toolchain import cache, cc

_HERE = Path(__file__).parent
_NATIVE = _HERE / "native"
_COMMON = _HERE.parent / "native"
ENGINE_NAME = "libkgen_ptx.so"
_PARTS, _MANY = 2, 60  # more handlers than that are compiled in two processes

# -ffp-contract=off: a sum of products is fused only where the semantics say so; -fwrapv: integers wrap
_FLAGS = ("-std=gnu11", "-march=native", "-ffp-contract=off", "-fno-strict-aliasing", "-fwrapv", "-fno-math-errno",
          "-fno-trapping-math", "-fPIC", "-w", f"-I{_NATIVE}", f"-I{_COMMON}")  # fmt: skip


def _sources() -> list[Path]:
    return sorted([*_NATIVE.glob("*.[ch]"), *_COMMON.glob("*.[ch]")])


def _key(suffixes: tuple[str, ...]) -> str:
    """Digest of the native sources with these suffixes, the compiler, its flags and the processor."""
    flags = [flag for flag in _FLAGS if not flag.startswith("-I")]
    sources = [p for p in _sources() if p.suffix in suffixes]
    return cache.key_of(*cc.compiler().identity, *flags, *(p.name for p in sources), *(p.read_bytes() for p in sources))


@functools.lru_cache(maxsize=1)
def engine_key() -> str:
    """Key of the engine library in the cache."""
    return _key((".c", ".h"))


def engine_path() -> Path:
    """Path of the engine library, which is also the stand-in for the CUDA runtime; built on first use."""

    def make(folder: Path) -> None:
        sources = [p for p in _sources() if p.suffix == ".c"]
        objects = [folder / f"{p.stem}.o" for p in sources]

        def compile_one(pair: tuple[Path, Path]) -> None:
            cc.build(pair[1], [pair[0]], [*_FLAGS, "-O3", "-c"])

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(compile_one, zip(sources, objects, strict=True)))
        soname = f"-Wl,-soname,{ENGINE_NAME}"
        cc.build(folder / ENGINE_NAME, objects, ["-shared", soname, "-Wl,-z,defs", "-lm"])
        for item in objects:
            item.unlink()

    return cache.folder("ptx-engine", engine_key(), make) / ENGINE_NAME


@functools.lru_cache(maxsize=1)
def engine() -> ctypes.CDLL:
    """The engine, loaded so that handlers and launchers resolve against it."""
    return ctypes.CDLL(str(engine_path()), mode=ctypes.RTLD_GLOBAL)


class _Handlers:
    """Addresses of handlers, from the batches on disk."""

    def __init__(self) -> None:
        self.folder = cache.root() / "ptx-handlers" / _key((".h",))  # the headers are all they include
        self.place: dict[str, Path] = {}
        self.libraries: dict[Path, ctypes.CDLL] = {}
        self.addresses: dict[str, int] = {}

    def scan(self) -> None:
        if self.folder.is_dir():
            for index in self.folder.glob("*.txt"):
                for name in index.read_text(encoding="ascii").split():
                    self.place.setdefault(name, index.with_suffix(".so"))

    def ensure(self, texts: Mapping[str, str]) -> None:
        missing = [name for name in texts if name not in self.place]
        if missing:
            self.scan()
            missing = [name for name in texts if name not in self.place]
        if missing:
            self.compile_all({**self.common(), **{name: texts[name] for name in missing}})
        for name in texts:
            if name not in self.addresses:
                self.addresses[name] = self.load(name)

    def load(self, name: str) -> int:
        path = self.place[name]
        if path not in self.libraries:
            engine()
            self.libraries[path] = ctypes.CDLL(str(path))
        return int(ctypes.cast(getattr(self.libraries[path], name), ctypes.c_void_p).value or 0)

    def common(self) -> dict[str, str]:
        """The common handlers that no batch has yet: they join the first batch."""
        from kgen.execute.gpu.ptx.core import handlers

        return {name: text for name, text in handlers().items() if name not in self.place}

    def compile_all(self, texts: Mapping[str, str]) -> None:
        names = sorted(texts)
        parts = [names[i::_PARTS] for i in range(_PARTS)] if len(names) > _MANY else [names]
        with ThreadPoolExecutor(len(parts)) as pool:
            list(pool.map(lambda part: self.compile({name: texts[name] for name in part}), parts))

    def compile(self, texts: Mapping[str, str]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        key = cache.key_of(*texts)
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=".making-") as scratch:
            source = Path(scratch, "handlers.c")
            source.write_text('#include "engine.h"\n' + "\n".join(texts.values()) + "\n", encoding="ascii")
            built = Path(scratch, "handlers.so")
            cc.build(built, [source], [*_FLAGS, "-O2", "-ftree-vectorize", "-shared", str(engine_path())])
            index = Path(scratch, "handlers.txt")
            index.write_text("\n".join(texts), encoding="ascii")
            os.replace(built, self.folder / f"{key}.so")
            os.replace(index, self.folder / f"{key}.txt")
        for name in texts:
            self.place[name] = self.folder / f"{key}.so"


@functools.lru_cache(maxsize=1)
def _handlers() -> _Handlers:
    return _Handlers()


def handler_addresses(texts: Mapping[str, str]) -> Mapping[str, int]:
    """Addresses of handlers (name -> C text), compiling those that are new."""
    handlers = _handlers()
    handlers.ensure(texts)
    return handlers.addresses
