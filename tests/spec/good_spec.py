"""What the tests of specs share: one good spec as text, and loading of text."""

from __future__ import annotations

from kgen.spec.document import Document
from kgen.spec.load import load_bytes

GOOD = """\
kgen: 1
kernel: gemm
op: gemm
inputs:
  a: {dtype: bf16, layout: mk}
  b: {dtype: bf16, layout: nk}
  bias: {dtype: f32, layout: n}
outputs:
  c: {dtype: bf16, layout: mn, value: acc + bias}
targets:
  - {arch: sm_80, tile: {m: 128, n: 128, k: 32}, stages: 3}
  - {arch: tpu-v5e}
verify:
  - {m: 128, n: 128, k: 64}
"""


def changed(*pairs: tuple[str, str]) -> str:
    """The good spec with parts of its text replaced."""
    text = GOOD
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def messages(text: str | bytes) -> list[str]:
    """What is wrong with a spec, as a user reads it."""
    raw = text if isinstance(text, bytes) else text.encode()
    return [str(diagnostic) for diagnostic in load_bytes(raw, "s.yaml").diagnostics]


def document(text: str) -> Document:
    """The document of a spec that is right."""
    result = load_bytes(text.encode(), "s.yaml")
    assert result.diagnostics == ()
    return result.documents[0]
