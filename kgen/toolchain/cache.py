"""A cache of tool results on disk: one folder a key, published by an atomic rename.

The key is a digest of everything the result depends on (text, tool version, flags). Place: $KGEN_CACHE, else
$XDG_CACHE_HOME/kgen, else ~/.cache/kgen. Deleting it is always safe.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def root() -> Path:
    """The cache folder."""
    if given := os.environ.get("KGEN_CACHE"):
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kgen"


def key_of(*parts: str | bytes) -> str:
    """The digest of `parts`, each told apart from its neighbours."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:32]


def folder(kind: str, key: str, make: Callable[[Path], None]) -> Path:
    """The folder of `key`, filled by `make` where it is not there yet. Nothing is kept when `make` raises."""
    place = root() / kind / key
    if place.is_dir():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=place.parent, prefix=".making-"))
    try:
        make(scratch)
        _publish(scratch, place)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return place


def _publish(scratch: Path, place: Path) -> None:
    try:
        scratch.rename(place)
    except OSError:
        if not place.is_dir():  # otherwise another process was first, with the same content
            raise
