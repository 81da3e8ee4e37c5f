"""YAML with positions: traps, limits, and places inside scalars."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kgen.spec import source as module
from kgen.spec.diagnostic import Diagnostic
from kgen.spec.scalar import character
from kgen.spec.source import MAX_BYTES, Tree, parse, read_text
from tests.spec.good_spec import GOOD, changed, messages


def tree(text: str) -> Tree:
    source = read_text(text.encode(), "s.yaml")
    assert not isinstance(source, Diagnostic)
    return parse(source)


def test_plain_data_and_places() -> None:
    found = tree("a: 1\nb:\n  - x\n  - {c: 'd', e: true}\n")
    assert found.data == {"a": 1, "b": ["x", {"c": "d", "e": True}]}
    assert found.diagnostics == []
    at = {path: found.source.place(found.index(path)) for path in found.places}
    assert at[("b", 1, "e")] == (4, 17)
    assert found.source.place(found.index(("b", 1, "e"), on_key=True)) == (4, 14)
    assert found.source.place(found.index(("b", 1, "zzz", "deeper"))) == (4, 5), "the nearest ancestor"


def test_anchors_are_allowed_and_equal_values_written_out() -> None:
    spec = changed(("a: {dtype", "a: &x {dtype"), ("b: {dtype: bf16, layout: nk}", "b: *x"))
    assert messages(spec) == ["s.yaml:5:31: layout: layout mk is not one b can have; allowed: nk, kn, bnk, bkn"]


def test_what_an_anchor_stands_before_is_the_place() -> None:
    found = tree("a: &anchor value\n")
    assert found.source.place(found.index(("a",))) == (1, 12)


@pytest.mark.parametrize(
    "word",
    [
        "yes",
        "No",
        "ON",
        "off",
        "12:30",
        "1:2:3",
        "010",
        "0_1",
        "1_000",
        "0b11",
        "0o17",
        "0x1F",
        "1e3",
        ".5",
        "-.inf",
        ".nan",
        "2001-12-14",
        "=",
    ],
)
def test_traps_are_errors_and_harmless_when_quoted(word: str) -> None:
    assert [d.clause for d in tree(f"a: {word}\n").diagnostics] == ["yaml-trap"]
    quoted = tree(f'a: "{word}"\n')
    assert (quoted.diagnostics, quoted.data) == ([], {"a": word})


@pytest.mark.parametrize("word", ["n", "y", "nk", "tpu-v4", "sm_80", "x*y", "1x", "v1.2.3", "a:b"])
def test_names_are_not_traps(word: str) -> None:
    found = tree(f"a: {word}\n")
    assert (found.diagnostics, found.data) == ([], {"a": word})


@pytest.mark.parametrize("text", ["a: 12", "a: -3", "a: true", "a: 0", "a: 1.5"])
def test_plain_values_are_read_as_pyyaml_reads_them(text: str) -> None:
    assert tree(text).data == yaml.safe_load(text)


def test_a_number_too_long_to_convert_is_no_traceback() -> None:
    assert isinstance(tree(f"a: {'9' * 10_000}").data["a"], str)


def test_size_is_bounded() -> None:
    found = read_text(b"#" * (MAX_BYTES + 1), "s.yaml")
    assert isinstance(found, Diagnostic)
    assert str(found) == f"s.yaml: too-large: more than {MAX_BYTES} bytes; a spec has at most {MAX_BYTES} bytes"
    assert not isinstance(read_text(b"#" * MAX_BYTES, "s.yaml"), Diagnostic)


def test_deep_nesting_stops_in_the_events_not_in_python() -> None:
    assert [d.clause for d in tree("a: " + "[" * 500 + "]" * 500).diagnostics] == ["too-deep"]
    assert next(d.clause for d in tree("a: " + "[" * 5000).diagnostics) in ("too-deep", "syntax")


def test_depth_through_aliases_is_bounded() -> None:
    chain = "a0: &a0 [1]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 100))
    assert [d.clause for d in tree(chain).diagnostics] == ["too-deep"]


def test_windows_files_and_a_byte_order_mark() -> None:
    assert messages(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode()) == []
    broken = changed(("acc + bias", "acc + bais")).replace("\n", "\r\n")
    assert messages(broken)[0].startswith("s.yaml:9:45: expression")


def test_without_the_c_library_the_same_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = changed(("layout: n}", "layout: no}"), ("stages: 3", "stages: 3, stages: 4"), ("acc + bias", "acc + bais"))
    fast = messages(spec)
    monkeypatch.setattr(module, "_LOADER", yaml.SafeLoader)
    assert messages(spec) == fast
    assert len(fast) == 3


SCALARS = {
    "plain": ("v: acc + bias * x\n", "*", (1, 15)),
    "plain over lines": ("v: acc\n  + bias\n   * x\n", "*", (3, 4)),
    "single quotes": ("v: 'a''c * x'\n", "*", (1, 10)),
    "double quotes": ('v: "a\\x20c \\u002b * x"\n', "*", (1, 19)),
    "double quotes over lines": ('v: "a +\\\n   c\n   * x"\n', "*", (3, 4)),
    "literal block": ("v: |\n    acc\n      + b\n    * x\n", "*", (4, 5)),
    "folded block": ("v: >-\n  acc\n  + b\n\n  * x\n", "*", (5, 3)),
    "block with indent indicator": ("v: |2-\n    acc\n  * x\n", "*", (3, 3)),
}


@pytest.mark.parametrize("name", SCALARS)
def test_a_character_of_a_scalar_is_found_in_the_file(name: str) -> None:
    text, char, place = SCALARS[name]
    found = tree(text)
    assert found.data == yaml.safe_load(text)
    assert found.source.place(found.index(("v",), found.data["v"].index(char))) == place


def test_one_past_the_end_of_a_scalar() -> None:
    for text in ("v: abc\n", "v: 'abc'\n", "v: |\n  abc\n"):
        found = tree(text)
        index = found.index(("v",), 3)
        assert text[index - 1] == "c"


@given(st.text(alphabet="ab +*'\"\\\n", min_size=1), st.sampled_from(["'", '"', "|", ">"]))
def test_every_visible_character_maps_to_itself(value: str, style: str) -> None:
    text = yaml.dump({"v": value}, default_style=style, width=20)
    found = tree(text)
    assert found.data == {"v": value}
    place = found.places[("v",)]
    quote = text[place.start]
    for offset, char in enumerate(value):
        written = text[character(text, place.start, place.end, value, offset)]
        assert written == char or char.isspace() or (quote == '"' and written == "\\"), (text, offset)
