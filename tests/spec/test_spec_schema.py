"""The checked-in JSON Schema is current, valid, and agrees with the models."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
import yaml

from kgen.spec.schema import schema, schema_text
from tests.spec.good_spec import GOOD, changed

ROOT = Path(__file__).parents[2]


def test_the_checked_in_schema_is_current(rewrite_golden: bool) -> None:
    """`kgen schema > kgen.schema.json` rewrites it, and so does `make golden`."""
    if rewrite_golden:
        (ROOT / "kgen.schema.json").write_text(schema_text(), "utf-8")
    assert (ROOT / "kgen.schema.json").read_text("utf-8") == schema_text()


def validator() -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(schema())
    return jsonschema.Draft202012Validator(schema())


@pytest.mark.parametrize("spec", sorted((ROOT / "specs").glob("*.yaml")), ids=lambda path: path.stem)
def test_editors_accept_the_specs(spec: Path) -> None:
    assert list(validator().iter_errors(yaml.safe_load(spec.read_text("utf-8")))) == []


@pytest.mark.parametrize(
    "change",
    [
        ("stages: 3", "stage: 3"),
        ("bf16, layout: mk", "bf17, layout: mk"),
        ("arch: sm_80", "arch: sm_81"),
        ("arch: tpu-v5e", "arch: tpu-v5e, stages: 3"),
        ("stages: 3", "stages: '3'"),
        ("kernel: gemm", "kernel: Gemm"),
        ("stages: 3", "block_order: {kind: raster, group: 3}"),
    ],
)
def test_editors_refuse_what_kgen_refuses(change: tuple[str, str]) -> None:
    assert list(validator().iter_errors(yaml.safe_load(GOOD))) == []
    assert list(validator().iter_errors(yaml.safe_load(changed(change)))) != []
