"""Every example of docs/spec.md loads, and every field of the format has one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from kgen.spec.load import load_bytes
from kgen.spec.models import ENTRIES, Dim, GroupedOrder, Input, Output, Spec, Tile, Warps
from kgen.spec.schema_errors import field_names

TEXT = (Path(__file__).parents[2] / "docs" / "spec.md").read_text("utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
BASE = {
    "kgen": 1,
    "kernel": "gemm",
    "op": "gemm",
    "inputs": {"a": {"dtype": "bf16", "layout": "mk"}, "b": {"dtype": "bf16", "layout": "nk"}},
    "outputs": {"c": {"dtype": "bf16", "layout": "mn"}},
    "targets": [{"arch": "sm_80"}],
}


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_examples_load(number: int) -> None:
    text = EXAMPLES[number]
    if text.startswith("# part"):
        given = yaml.safe_load(text)
        text += yaml.safe_dump({name: value for name, value in BASE.items() if name not in given}, sort_keys=False)
    result = load_bytes(text.encode(), f"docs/spec.md example {number}")
    assert result.diagnostics == ()
    assert next(result.documents[0].kernels())


@pytest.mark.parametrize("model", [Spec, Input, Output, Dim, Tile, Warps, GroupedOrder, *ENTRIES.values()])
def test_every_field_is_in_an_example(model: type[BaseModel]) -> None:
    shown = set(re.findall(r"\b(\w+):", "\n".join(EXAMPLES)))
    missing = [name for name in field_names(model) if name not in shown]  # type: ignore[arg-type]
    assert missing == []
