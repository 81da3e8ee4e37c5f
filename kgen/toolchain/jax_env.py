"""jax and libtpu: whether they are there, in which versions, and the environment their processes need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from types import MappingProxyType, ModuleType

INSTALL = "pip install 'kgen[pallas]'"

INTERPRET_ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "0", "XLA_FLAGS": "", "LIBTPU_INIT_ARGS": ""}
)
"""For processes that interpret kernels on the host: results do not depend on flags that the caller happens to have."""

AOT_ENVIRONMENT: Mapping[str, str] = MappingProxyType({
    **INTERPRET_ENVIRONMENT,
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-1",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # else a second process dies at libtpu's lock file
    "TF_CPP_MIN_LOG_LEVEL": "3",
})  # fmt: skip
"""For processes that load libtpu on a host without a TPU."""


@dataclass(frozen=True)
class MissingTool:
    """Packages that are not installed, and how to get them."""

    packages: tuple[str, ...]
    fix: str = INSTALL

    @property
    def message(self) -> str:
        """One line for people."""
        return f"{', '.join(self.packages)} not installed; {self.fix}"


def versions(*packages: str) -> Mapping[str, str] | MissingTool:
    """Installed versions of `packages`, or those that are missing. Imports none of them."""
    found, missing = {}, []
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            missing.append(package)
    return MissingTool(tuple(missing)) if missing else found


def interpreter_versions() -> Mapping[str, str] | MissingTool:
    """What executing a Pallas kernel on the host takes."""
    return versions("jax", "jaxlib", "ml_dtypes")


def compiler_versions() -> Mapping[str, str] | MissingTool:
    """What compiling a Pallas kernel for a TPU takes."""
    return versions("jax", "jaxlib", "libtpu")


@lru_cache(maxsize=8)
def load_module(text: str) -> ModuleType:
    """A generated file as a module of its own, for use in a child process."""
    module = ModuleType("generated")
    exec(compile(text, "<generated>", "exec"), module.__dict__)
    return module
