"""Programs within limits, and the cache of what they made."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from kgen.toolchain import cache, nvcc, process


def test_output_and_exit_code() -> None:
    done = process.run([sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"])
    assert (done.code, done.stdout, done.stderr, done.words) == (3, "out\n", "err\n", "err")


def test_a_program_that_hangs_is_ended_with_its_children() -> None:
    child = "[sys.executable, '-c', 'import time; time.sleep(60)']"
    code = f"import subprocess, sys; subprocess.Popen({child}).wait()"
    start = time.monotonic()
    done = process.run([sys.executable, "-c", code], seconds=1.0)
    assert done.code < 0
    assert "did not finish within 1 s" in done.words
    assert time.monotonic() - start < 30


def test_memory_is_limited() -> None:
    code = "import time; time.sleep(0.5); x = bytearray(1 << 30)"
    done = process.run([sys.executable, "-c", code], memory_bytes=256 << 20)
    assert done.code != 0
    assert "MemoryError" in done.stderr


def test_the_cache_makes_once_and_keeps_nothing_of_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEN_CACHE", str(tmp_path))
    made = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "file").write_text("x")

    first = cache.folder("kind", "key", make)
    assert (first / "file").read_text() == "x"
    assert cache.folder("kind", "key", make) == first
    assert len(made) == 1
    with pytest.raises(ZeroDivisionError):
        cache.folder("kind", "other", lambda folder: 1 // 0 and None)
    assert [path.name for path in (tmp_path / "kind").iterdir()] == ["key"]


def test_keys_tell_parts_apart() -> None:
    assert cache.key_of("ab", "c") != cache.key_of("a", "bc")
    assert cache.key_of("a", b"b") == cache.key_of("a", "b")


def test_ptxas_log_is_read() -> None:
    log = """ptxas info    : Function properties for kernel
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 96 registers, used 1 barriers, 2048 bytes smem, 448 bytes cmem[0]
"""
    assert nvcc.parse_resources(log) == nvcc.Resources(96, 8, 12, 16, 2048)


def test_gencode_names_both_architectures() -> None:
    assert nvcc.gencode("sm_80") == ["-gencode", "arch=compute_80,code=sm_80"]
