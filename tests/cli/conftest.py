"""A project of one small spec in a temporary folder, and kgen run inside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kgen.cli.main import main

SPEC = """\
kgen: 1
kernel: small
op: gemm
inputs:
  a: {dtype: bf16, layout: mk}
  b: {dtype: bf16, layout: nk}
outputs: {c: {dtype: f32, layout: mn}}
targets:
  - {arch: sm_80, tile: {m: 32, n: 32, k: 32}, warps: {m: 1, n: 1}, stages: 2}
  - {arch: tpu-v5e, tile: {m: 128, n: 128, k: 128}}
"""

Kgen = Callable[..., Result]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's folder, which is also the working folder."""
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "small.yaml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def kgen() -> Kgen:
    """Runs a command line; an exception that is not an exit is a failure of the test."""

    def run(*arguments: str) -> Result:
        result = CliRunner().invoke(main, arguments)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run
