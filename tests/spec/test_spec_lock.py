"""The lock: read with located errors, written only when changed, obeyed only where it fits."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kgen.spec.digest import kernel_digest, signature_digest
from kgen.spec.kernel import Kernel
from kgen.spec.lock import Entry, Lock, Missing, Stale, entry, fill, read, to_text, write
from tests.spec.good_spec import GOOD, changed, document


def kernel(text: str = GOOD) -> Kernel:
    return next(document(text).kernels())


def locked(chosen: dict[str, int | str]) -> Lock:
    return Lock("1.2.3", {"cuda": "0123456789abcdef"}, {"gemm_sm_80": entry(kernel(), chosen)})


def test_what_was_chosen_is_found_again(tmp_path: Path) -> None:
    lock = locked({"warps.m": 2, "warps.n": 4, "schedule": "multistage"})
    assert write(tmp_path / "kgen.lock", lock)
    again = read(tmp_path / "kgen.lock")
    assert again == lock
    assert isinstance(again, Lock)
    assert again.lookup(kernel()) == fill(kernel(), {"warps.m": 2, "warps.n": 4, "schedule": "multistage"})


def test_chosen_fields_complete_a_kernel_and_never_replace_what_the_spec_gives() -> None:
    made = fill(kernel(), {"warps.m": 2, "warps.n": 4, "stages": 5})
    assert made.algorithm == {"stages": 3, "tile": (("k", 32), ("m", 128), ("n", 128)), "warps": (("m", 2), ("n", 4))}


def test_partly_given_mappings_are_completed() -> None:
    half = kernel(changed(("tile: {m: 128, n: 128, k: 32}", "tile: {m: 128}")))
    assert fill(half, {"tile.n": 64, "tile.k": 32}).algorithm["tile"] == (("k", 32), ("m", 128), ("n", 64))


def test_a_file_is_written_only_if_it_changes_and_leaves_no_rest(tmp_path: Path) -> None:
    path = tmp_path / "kgen.lock"
    assert write(path, locked({"warps.m": 2}))
    before = path.stat().st_mtime_ns
    assert not write(path, locked({"warps.m": 2}))
    assert path.stat().st_mtime_ns == before
    assert write(path, locked({"warps.m": 4}))
    assert [file.name for file in tmp_path.iterdir()] == ["kgen.lock"]


def test_the_text_does_not_depend_on_order() -> None:
    one, two = Entry("00000000", {"b": 1, "a": 2}), Entry("11111111", {})
    assert to_text(Lock("1", {}, {"x": one, "y": two})) == to_text(Lock("1", {}, {"y": two, "x": one}))


def test_no_lock_is_an_empty_one(tmp_path: Path) -> None:
    lock = read(tmp_path / "kgen.lock")
    assert lock == Lock()
    assert Lock().lookup(kernel()) == Missing()


@pytest.mark.parametrize(
    "change", [("acc + bias", "acc - bias"), ("stages: 3", "stages: 4"), ("layout: mk", "layout: km")]
)
def test_a_changed_spec_makes_the_entry_stale(change: tuple[str, str]) -> None:
    assert isinstance(locked({}).lookup(kernel(changed(change))), Stale)


@pytest.mark.parametrize(
    "change",
    [("acc + bias", '"(acc) +bias"'), ("{m: 128, n: 128, k: 64}", "{m: 1, n: 1, k: 1}"), ("tpu-v5e", "tpu-v4")],
)
def test_other_changes_do_not(change: tuple[str, str]) -> None:
    assert isinstance(locked({}).lookup(kernel(changed(change))), Kernel)


@pytest.mark.parametrize(
    ("chosen", "reason"),
    [
        ({"stages": 4}, "it chooses stages, which the spec gives"),
        ({"warp.m": 4}, "it chooses warp: a cuda target has no field warp"),
        ({"warps.m": "four"}, "it chooses warps.m: m is the string 'four'"),
        ({"schedule": "hope"}, "it chooses schedule: there is no schedule hope"),
    ],
)
def test_an_edited_lock_is_not_followed_blindly(chosen: dict[str, int | str], reason: str) -> None:
    assert locked(chosen).lookup(kernel()) == Stale(reason)


GOOD_LOCK = json.loads(to_text(locked({"warps.m": 2})))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "kgen.lock:1:1: lock: not JSON: Expecting value"),
        ('{"lock": 1,\n "kgen": }', "kgen.lock:2:10: lock: not JSON: Expecting value"),
        ('{"lock": 1,\n<<<<<<< ours\n', "kgen.lock:2:1: lock: not JSON"),
        ('{"lock": 1,\n "lock": 1}', "kgen.lock:2:2: duplicate-key: lock is given twice, first in line 1"),
        ("[1]", "kgen.lock:1:1: type: the lock is a list; expected: a mapping"),
        (json.dumps({**GOOD_LOCK, "lock": 2}), "kgen.lock:1:110: value: lock is the number 2; allowed: 1"),
        (json.dumps({**GOOD_LOCK, "templates": {"cuda": "zz"}}), ": value: cuda"),
        (json.dumps({**GOOD_LOCK, "kernels": {"Gemm": {}}}), "name: 'Gemm' is not a name"),
        (json.dumps({**GOOD_LOCK, "extra": 1}), "unknown-field: the lock has no field extra"),
        ("[" * 100_000, "kgen.lock"),
        ("\xff", "encoding"),
    ],
)
def test_a_corrupt_lock_is_located_and_says_what_to_do(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "kgen.lock").write_bytes(text.encode("latin-1"))
    found = read(tmp_path / "kgen.lock")
    assert isinstance(found, tuple)
    assert any(message in str(line) for line in found), found
    assert all(line.fix for line in found)


def test_digests_ignore_spelling_and_see_meaning() -> None:
    one = kernel()
    same = kernel(changed(("acc + bias", "( acc+bias )"), ("kgen: 1", "# comment\nkgen: 1")))
    assert signature_digest(one.signature) == signature_digest(same.signature)
    assert kernel_digest(one) == kernel_digest(replace(one, spec="elsewhere.yaml", verify=(), header=("x",)))
    assert kernel_digest(one) != kernel_digest(fill(one, {"warps.m": 2}))
    assert signature_digest(one.signature) != signature_digest(
        kernel(changed(("bias: {dtype: f32", "bias: {dtype: bf16"))).signature
    )
    numbers = [kernel(changed(("acc + bias", f"acc * {n} + bias"))) for n in ("0.5", "5e-1", "0.25")]
    digests = [signature_digest(number.signature) for number in numbers]
    assert digests[0] == digests[1] != digests[2]


def test_digests_are_what_they_were() -> None:
    assert kernel_digest(kernel()) == "df8d32861416c4fc", "every generated file and lock of users would change"
