"""pydantic's errors in the words of a spec: a path in the document, a clause, and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin

from pydantic import Tag, ValidationError
from pydantic_core import ErrorDetails

from kgen.arch import TARGETS, targets_of
from kgen.spec.diagnostic import choices, suggest
from kgen.spec.models import ALGORITHMS, NAME, TAGS, Model
from kgen.spec.problem import Path, Problem
from kgen.spec.vocabulary import ALIASES, all_archs


def problems(model: type[Model], error: ValidationError, prefix: Path = ()) -> list[Problem]:
    """The errors of validating what stands at `prefix` in the document as `model`.

    A field that is missing because its name is misspelt is reported once, as the misspelling.
    """
    found = [_problem(model, detail, prefix) for detail in error.errors(include_url=False)]
    meant = {(*problem.path[:-1], field) for problem in found for field in re.findall(_MEANT, problem.fix)}
    return [p for p in found if p.clause != "missing-field" or (*p.path, p.message.split()[-1]) not in meant]


_MEANT = r"did you mean (\w+)\?"


def _problem(model: type[Model], detail: ErrorDetails, prefix: Path) -> Problem:
    *above, last = detail["loc"] or ("",)
    path = (*prefix, *(part for part in above if not _is_tag(part)))
    if detail["type"] == "extra_forbidden" or not (_is_tag(last) or last in ("[key]", "")):
        path = (*path, last)
    make = _MAKERS.get(detail["type"])
    if make is not None:
        return make(model, path, detail)
    if detail["type"].endswith(("_type", "_parsing")):
        return _type(model, path, detail)
    return Problem(path, "value", f"{_name(path, model)}: {detail['msg']}")


def _is_tag(part: int | str) -> bool:
    return part in TAGS


def _name(path: Path, model: type[Model]) -> str:
    """What messages call the value at a path: the last name, with its index in a list."""
    if not path:
        return model.what
    if isinstance(path[-1], int) and len(path) > 1:
        return f"{path[-2]}[{path[-1]}]"
    return str(path[-1])


def describe(value: Any) -> str:
    """A value as a message shows it; whole lists and mappings only by kind."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, str):
        return f"the string {value[:60]!r}"
    return f"the number {value}"


_EXPECTED = {
    "int_type": "an integer",
    "string_type": "a string",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


def _type(model: type[Model], path: Path, detail: ErrorDetails) -> Problem:
    expected = _EXPECTED.get(detail["type"], "another type")
    return Problem(path, "type", f"{_name(path, model)} is {describe(detail['input'])}", f"expected: {expected}")


def _unknown_field(model: type[Model], path: Path, detail: ErrorDetails) -> Problem:
    name = str(path[-1])
    owner = next(iter(_models_at(model, detail["loc"][:-1])), model)
    fields = field_names(owner)
    others = [target for target, algorithm in ALGORITHMS.items() if name in algorithm.model_fields]
    message = f"{owner.what} has no field {name}"
    if others and path[:1] == ("targets",) and len(path) == 3:
        message += f" (target {', '.join(others)} has)"
        return Problem(path, "unknown-field", message, choices(fields), on_key=True)
    return Problem(path, "unknown-field", message, suggest(name, fields), on_key=True)


def field_names(model: type[Model]) -> list[str]:
    """The fields of a mapping as a spec spells them."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _missing(model: type[Model], path: Path, detail: ErrorDetails) -> Problem:
    owner = next(iter(_models_at(model, detail["loc"][:-1])), model)
    return Problem(path[:-1], "missing-field", f"{owner.what} needs {path[-1]}", on_key=True)


def _literal(model: type[Model], path: Path, detail: ErrorDetails) -> Problem:
    value = detail["input"]
    allowed = re.findall(r"'([^']*)'|(\d+)", str(detail["ctx"]["expected"]))
    words = [text or number for text, number in allowed]
    field = _name(path, model)
    if not isinstance(value, str) or words[0].isdigit():
        return Problem(path, "value", f"{field} is {describe(value)}", choices(words))
    tag = next((part for part in detail["loc"] if _is_tag(part)), "")
    if field == "arch" and (target := str(tag).strip("<>")):
        other = next((f"did you mean target: {name}?" for name in targets_of(value)), "")
        fix = "; ".join(filter(None, (choices(words), other)))
        return Problem(path, "unknown-arch", f"{target} has no arch {value[:60]}", fix)
    return Problem(path, f"unknown-{field}", f"there is no {field} {value[:60]}", suggest(value, words, ALIASES))


def _target(model: type[Model], path: Path, detail: ErrorDetails) -> Problem:
    """An entry of `targets` whose target cannot be told."""
    entry = detail["input"]
    if not isinstance(entry, dict):
        return Problem(path, "type", f"{_name(path, model)} is {describe(entry)}", "expected: a mapping with arch")
    if entry.get("target") is not None:
        fix = suggest(entry["target"], TARGETS, ALIASES)
        return Problem((*path, "target"), "unknown-target", f"there is no target {_shown(entry['target'])}", fix)
    if "arch" not in entry:
        return Problem(path, "missing-field", "a target needs arch", choices(all_archs()), on_key=True)
    return Problem((*path, "arch"), "unknown-arch", _arch_message(entry["arch"]), suggest_arch(entry["arch"]))


def _shown(value: Any) -> str:
    return value[:60] if isinstance(value, str) else describe(value)


def _arch_message(arch: Any) -> str:
    if isinstance(arch, str) and (found := re.fullmatch(r"(sm_\d+)[af]", arch)) and found[1] in all_archs():
        return f"there is no arch {arch} ({found[1]} has no suffixed variant)"
    return f"there is no arch {_shown(arch)}"


def suggest_arch(arch: Any) -> str:
    """The archs there are, and the one most likely meant."""
    return suggest(arch, all_archs(), ALIASES)


def _pattern(model: type[Model], path: Path, detail: ErrorDetails) -> Problem:
    value = str(detail["input"])
    on_key = detail["loc"][-1] == "[key]"
    if detail["ctx"]["pattern"] != NAME:
        return Problem(path, "value", f"{_name(path, model)} holds a character that is not printable ASCII")
    fix = "allowed: lower-case letters, digits and single underscores, a letter first"
    near = re.sub(r"[^a-z0-9]+", "_", value.lower()).strip("_")
    if re.fullmatch(NAME, near):
        fix += f"; did you mean {near}?"
    return Problem(path, "name", f"{value[:60]!r} is not a name", fix, on_key=on_key)


def _least(model: type[Model], path: Path, detail: ErrorDetails) -> Problem:
    limit = detail["ctx"]["ge"]
    return Problem(path, "range", f"{_name(path, model)} is {detail['input']}", f"allowed: {limit} or more")


def _most(model: type[Model], path: Path, detail: ErrorDetails) -> Problem:
    limit = detail["ctx"]["le"]
    return Problem(path, "range", f"{_name(path, model)} is {detail['input']}", f"allowed: at most {limit}")


def _step(model: type[Model], path: Path, detail: ErrorDetails) -> Problem:
    step = detail["ctx"]["multiple_of"]
    return Problem(path, "range", f"{_name(path, model)} is {detail['input']}", f"allowed: multiples of {step}")


def _empty(model: type[Model], path: Path, detail: ErrorDetails) -> Problem:
    return Problem(path, "empty", f"{_name(path, model)} is empty", "give at least one")


def _long(model: type[Model], path: Path, detail: ErrorDetails) -> Problem:
    length, limit = len(str(detail["input"])), detail["ctx"]["max_length"]
    return Problem(path, "range", f"{_name(path, model)} has {length} characters", f"allowed: at most {limit}")


_MAKERS: Mapping[str, Callable[[type[Model], Path, ErrorDetails], Problem]] = {
    "extra_forbidden": _unknown_field,
    "missing": _missing,
    "literal_error": _literal,
    "union_tag_not_found": _target,
    "string_pattern_mismatch": _pattern,
    "greater_than_equal": _least,
    "less_than_equal": _most,
    "multiple_of": _step,
    "too_short": _empty,
    "string_too_short": _empty,
    "string_too_long": _long,
}


def _models_at(model: type[Model], loc: tuple[int | str, ...]) -> Iterator[type[Model]]:
    """The models that a location of an error can be: annotations followed name by name, tag by tag."""
    found: list[Any] = [model]
    for part in loc:
        found = [step for annotation in found for step in _steps(annotation, part)]
    for annotation in found:
        yield from (member for member in members(annotation) if isinstance(member, type) and issubclass(member, Model))


def members(annotation: Any) -> Iterator[Any]:
    """A union's members without their annotations; anything else is its own only member."""
    for _, member in _tagged(annotation):
        yield member


def _tagged(annotation: Any, tag: str = "") -> Iterator[tuple[str, Any]]:
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        yield from _tagged(inner, next((item.tag for item in metadata if isinstance(item, Tag)), tag))
    elif get_origin(annotation) is None or get_origin(annotation) in (list, dict):
        yield tag, annotation
    else:
        for member in get_args(annotation):
            yield from _tagged(member, tag)


def _steps(annotation: Any, part: int | str) -> Iterator[Any]:
    for tag, member in _tagged(annotation):
        if _is_tag(part):
            if tag in ("", part):
                yield member
        elif get_origin(member) in (list, dict):
            yield get_args(member)[-1]
        elif isinstance(member, type) and issubclass(member, Model):
            field = next((f for n, f in member.model_fields.items() if part in (n, f.alias)), None)
            if field is not None:
                yield field.annotation
