"""No input makes a traceback, and every message has a place in the file."""

from __future__ import annotations

import random

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kgen.spec.load import load_bytes
from tests.spec.good_spec import GOOD

SEEDS = [
    GOOD,
    GOOD
    + "sweep: {targets.0.tile.m: [64, 128], targets.0.block_order: [{kind: raster}]}\nheader: [x]\nf32_mma: tf32\n",
    GOOD.replace("{arch: tpu-v5e}", "{arch: tpu-v5e, inputs: {a: {dtype: f32}}, as: other, f32_mma: exact}"),
]
WORDS = ["x", "acc", "mk", "bmn", "f32", "f16", "sm_80", "tpu-v4", "no", "12:30", "*x", "&x", "<<", "{", "[", "!!str"]
WORDS += ["", "\t", "\x00", "é", "<cuda>", "[key]", '"\\0"']
VALUES: list[object] = [
    None,
    True,
    0,
    -1,
    3.5,
    10**30,
    "",
    "x",
    "acc",
    "bmk",
    [],
    {},
    [1],
    {"a": 1},
    {"kind": "raster"},
    [[]],
]


def check(raw: bytes) -> None:
    """Load; the only outcomes are a document, or messages placed inside the file."""
    result = load_bytes(raw, "f.yaml")
    assert result.documents or result.diagnostics
    lines = raw.count(b"\n") + 1
    for diagnostic in result.diagnostics:
        assert 0 <= diagnostic.line <= lines
        assert str(diagnostic).startswith("f.yaml")
    for document in result.documents:
        assert list(document.kernels())


@given(st.binary(max_size=200))
@settings(max_examples=50, deadline=None)
def test_any_bytes(raw: bytes) -> None:
    check(raw)


@given(st.sampled_from(SEEDS), st.randoms(use_true_random=False), st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_mutated_text(text: str, chance: random.Random, count: int) -> None:
    for _ in range(count):
        start = chance.randrange(len(text))
        end = min(len(text), start + chance.choice([0, 1, 1, 2, 5, 20]))
        text = text[:start] + chance.choice(WORDS) + text[end:]
    check(text.encode())


@given(st.sampled_from(SEEDS), st.randoms(use_true_random=False), st.integers(1, 3))
@settings(max_examples=100, deadline=None)
def test_mutated_structure(text: str, chance: random.Random, count: int) -> None:
    data = yaml.safe_load(text)
    for _ in range(count):
        data = mutate(data, chance)
    check(yaml.safe_dump(data, sort_keys=False).encode())


def mutate(data: object, chance: random.Random) -> object:
    """The data with one place replaced, removed, renamed or repeated."""
    if not isinstance(data, dict | list) or not data or chance.random() < 0.1:
        return chance.choice(VALUES)
    if isinstance(data, list):
        index = chance.randrange(len(data))
        return [*data[:index], mutate(data[index], chance), *data[index + chance.choice([0, 1, 1]) :]]
    name = chance.choice(list(data))
    action = chance.random()
    copy = dict(data)
    if action < 0.15:
        del copy[name]
    elif action < 0.3:
        copy[chance.choice(["x", "m", "a", name + "s", "targets"])] = copy.pop(name)
    else:
        copy[name] = mutate(copy[name], chance)
    return copy


def test_expressions_with_any_text_stay_inside_their_line() -> None:
    for text in ("acc +", "(", "((acc)", "1 + + 2", "acc ? 1 : 2", "a" * 5000, "--acc", "acc == acc", "gelu()"):
        check(GOOD.replace("value: acc + bias", f'value: "{text} + bias"').encode())
