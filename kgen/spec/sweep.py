"""`sweep`: lists of values for algorithm fields, and the kernels' names and fields they make."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

from pydantic import BaseModel, ValidationError

from kgen.spec import schema_errors
from kgen.spec.diagnostic import suggest
from kgen.spec.kernel import Value
from kgen.spec.models import ALGORITHMS, ENTRIES, Model
from kgen.spec.problem import Path, Problem
from kgen.spec.vocabulary import target_of

MAX_KERNELS = 100_000
"""Most kernels one document makes."""
_SHORT = {
    "tile.m": "m", "tile.n": "n", "tile.k": "k", "warps.m": "wm", "warps.n": "wn", "stages": "s", "align": "al",
    "block_order.group": "g", "block_order.kind": "", "schedule": "", "instruction": "", "vmem_limit_mib": "v",
    "shared_bytes": "sh",
}  # fmt: skip
"""Field -> what stands before its value in a name; words speak for themselves."""
_KEY = re.compile(r"targets\.(0|[1-9][0-9]{0,5})\.([a-z0-9_.]+)")


@dataclass(frozen=True)
class Choice:
    """One value of a swept field: its leaves (dotted field, value), its part of the name, its place."""

    fields: tuple[tuple[str, int | str], ...]
    suffix: str
    index: int


@dataclass(frozen=True)
class Axis:
    """A swept field of one target."""

    key: str
    """As the document spells it: `targets.0.tile.m`."""
    target: int
    """Index in `targets`."""
    field: str
    """`tile.m`"""
    choices: tuple[Choice, ...]


def algorithm(entry: Mapping[str, Any], target: str) -> dict[str, int | str]:
    """The algorithm fields an entry gives, dotted, in order of name."""
    names = ALGORITHMS[target].model_fields
    return dict(sorted(leaf for name in names if name in entry for leaf in leaves(entry[name], name)))


def leaves(value: Any, name: str) -> Iterator[tuple[str, int | str]]:
    """Dotted field and value of everything in a field."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, f"{name}.{key}")
    else:
        yield name, value


def nested(flat: Mapping[str, int | str]) -> dict[str, Value]:
    """Dotted fields as a kernel holds them: scalars, and sorted pairs for mappings."""
    groups: dict[str, dict[str, int | str]] = {}
    fields: dict[str, Value] = {}
    for name, value in flat.items():
        head, _, rest = name.partition(".")
        if rest:
            groups.setdefault(head, {})[rest] = value
        else:
            fields[head] = value
    for head, group in groups.items():
        fields[head] = tuple(sorted(group.items()))
    return dict(sorted(fields.items()))


def axes(swept: Mapping[str, list[Any]], targets: list[Any]) -> tuple[list[Axis], list[Problem]]:
    """The swept fields of a document, every value validated in place of the one the entry of `targets` gives."""
    found: list[Axis] = []
    problems: list[Problem] = []
    for key, values in swept.items():
        result = _axis(targets, key, values)
        if isinstance(result, Axis):
            found.append(result)
        else:
            problems += result
    problems += _overlaps(found)
    sizes = [size(found, index) for index in range(len(targets))]
    if sum(sizes) > MAX_KERNELS:
        message = f"{sum(sizes)} kernels are more than {MAX_KERNELS}"
        problems.append(Problem(("sweep",), "sweep-size", message, "sweep fewer values, or split the document"))
    return found, problems


def size(found: list[Axis], target: int) -> int:
    """How many kernels a target makes."""
    return prod(len(axis.choices) for axis in found if axis.target == target)


def _axis(targets: list[Any], key: str, values: list[Any]) -> Axis | list[Problem]:
    path: Path = ("sweep", key)
    parsed = _KEY.fullmatch(key)
    if parsed is None:
        fix = "write targets.<index>.<field>, such as targets.0.tile.m"
        return [Problem(path, "sweep-path", f"{key[:60]} names no field of a target", fix, on_key=True)]
    index, field = int(parsed[1]), parsed[2]
    if index >= len(targets):
        fix = f"allowed: targets.0 to targets.{len(targets) - 1}"
        return [Problem(path, "sweep-path", f"there are {len(targets)} targets", fix, on_key=True)]
    target = target_of(targets[index])
    if target is None:
        return []
    if field not in (known := sweepable(target)):
        message = f"{target} has no algorithm field {field}"
        return [Problem(path, "sweep-path", message, suggest(field, known), on_key=True)]
    problems = _value_problems(targets[index], target, field, values, path)
    return problems or Axis(key, index, field, _choices(field, values))


def sweepable(target: str) -> list[str]:
    """The dotted fields of a target that a sweep may vary."""
    found: list[str] = []
    for name, field in ALGORITHMS[target].model_fields.items():
        found.append(name)
        for member in schema_errors.members(field.annotation):
            if isinstance(member, type) and issubclass(member, BaseModel):
                found += [f"{name}.{inner}" for inner in member.model_fields]
    return [name for name in dict.fromkeys(found) if name != "block_order.kind"]


def _value_problems(entry: Any, target: str, field: str, values: list[Any], path: Path) -> list[Problem]:
    problems: list[Problem] = []
    seen: dict[str, int] = {}
    for index, value in enumerate(values):
        first = seen.setdefault(repr(value), index)
        if first != index:
            message = f"value {index} repeats value {first}"
            problems.append(Problem((*path, index), "sweep-value", message, "keep one of them"))
            continue
        problems += _validate(entry, target, field, value, (*path, index))
    return problems


def _validate(entry: Any, target: str, field: str, value: Any, path: Path) -> list[Problem]:
    """Errors of an entry that come with a swept value and are not there without it."""
    head, _, rest = field.partition(".")
    given = entry.get(head)
    inner = {**(given if isinstance(given, dict) else {}), rest: value} if rest else value
    model: type[Model] = ENTRIES[target]
    trial = {"arch": entry.get("arch"), head: inner}
    try:
        model.model_validate(trial)
    except ValidationError as error:
        at: Path = (head, rest) if rest else (head,)
        found = schema_errors.problems(model, error)
        own = [p for p in found if p.path[: len(at)] == at or (p.clause == "missing-field" and p.path == (head,))]
        return [_moved(problem, at, path) for problem in own]
    return []


def _moved(problem: Problem, at: Path, path: Path) -> Problem:
    """The problem at the swept value instead of the field it stands for."""
    inside = problem.path[len(at) :] if problem.path[: len(at)] == at else ()
    return replace(problem, path=(*path, *inside), on_key=problem.on_key and bool(inside))


def _choices(field: str, values: list[Any]) -> tuple[Choice, ...]:
    flat = [tuple(leaves(value, field)) for value in values]
    common = set(flat[0]).intersection(*flat[1:])
    return tuple(
        Choice(fields, "".join(_suffix(*leaf) for leaf in fields if leaf not in common), index)
        for index, fields in enumerate(flat)
    )


def _suffix(name: str, value: int | str) -> str:
    short = _SHORT.get(name, name.replace("align.", "al_").replace(".", "_"))
    return f"_{short}{value}".replace("-", "_")


def _overlaps(found: list[Axis]) -> Iterator[Problem]:
    for outer, inner in product(found, found):
        if inner.key.startswith(outer.key + "."):
            message = f"{inner.key} is a part of {outer.key}, which is swept too"
            yield Problem(("sweep", inner.key), "sweep-path", message, "sweep one of them", on_key=True)


def combinations(found: list[Axis], target: int) -> Iterator[tuple[Choice, ...]]:
    """Every combination of a target's swept values; one empty one where nothing is swept."""
    return product(*(axis.choices for axis in found if axis.target == target))
