"""Every target's templates define the helpers that printed expressions call, with the meaning that the table states."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kgen.expr import FUNCTIONS, HELPERS, to_c, to_jax
from kgen.expr.check import definition
from kgen.expr.literals import f32, shortest

TEMPLATES = Path(__file__).parents[2] / "templates"
FILES = {"c": TEMPLATES / "cuda/tile/math.jinja", "jax": TEMPLATES / "pallas/tile/math.jinja"}
PRINTERS = {"c": to_c, "jax": to_jax}


def rounded(number: re.Match[str]) -> str:
    value = f32(float(number.group()))
    assert value is not None
    return shortest(value)


def macros(language: str) -> dict[str, str]:
    """Bodies by name, with numbers as the printers write them."""
    text = re.sub(r"\b\d+\.\d+", rounded, FILES[language].read_text())
    return dict(re.findall(r"<% macro (\w+)\(.*?%>(.*?)<%- endmacro %>", text, re.DOTALL))


@pytest.mark.parametrize("language", sorted(FILES))
def test_every_helper_is_defined_and_no_other(language: str) -> None:
    assert set(macros(language)) == set(HELPERS[language])


@pytest.mark.parametrize("language", sorted(FILES))
def test_a_body_calls_the_helpers_it_needs(language: str) -> None:
    for name, body in macros(language).items():
        called = {other for other in HELPERS[language] if other != name and re.search(rf"\b{other}\(", body)}
        assert called == set(HELPERS[language][name].needs), name


@pytest.mark.parametrize("language", sorted(FILES))
def test_composites_compute_their_definition(language: str) -> None:
    composites = [name for name, function in FUNCTIONS.items() if function.definition]
    for name in composites:
        parameters = FUNCTIONS[name].parameters
        printed = PRINTERS[language](definition(name), {parameter: parameter for parameter in parameters})
        assert printed.text in macros(language)[name]
