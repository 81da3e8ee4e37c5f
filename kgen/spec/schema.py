"""The JSON Schema of a spec, for editors. Checked in as kgen.schema.json and kept current by a test."""

from __future__ import annotations

import json
from typing import Any

from kgen.spec.models import Spec


def schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a spec."""
    made = Spec.model_json_schema(by_alias=True)
    cleaned: dict[str, Any] = _clean(made)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **cleaned, "title": "kgen spec"}


def schema_text() -> str:
    """The checked-in file's content."""
    return json.dumps(schema(), indent=2) + "\n"


def _clean(value: Any) -> Any:
    """Without nulls (a field is left out instead), titles repeating names, and alternatives that exclude each other."""
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if not isinstance(value, dict):
        return value
    members = value.get("anyOf")
    if isinstance(members, list) and {"type": "null"} in members:
        rest = [member for member in members if member != {"type": "null"}]
        other = {k: v for k, v in value.items() if k not in ("anyOf", "default")}
        value = {**(rest[0] if len(rest) == 1 else {"anyOf": rest}), **other}
    renamed = {"anyOf" if name == "oneOf" else name: inner for name, inner in value.items()}
    return {k: _clean(v) for k, v in renamed.items() if not (k == "title" and isinstance(v, str))}
