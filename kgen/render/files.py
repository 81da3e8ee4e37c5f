"""From plans to {relative path: text}: pure, the same bytes for the same plan."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from kgen.plan import Plan
from kgen.plan.base import Header
from kgen.plan.cabi import Abi, Declared, Member
from kgen.render.environment import environment, tidy


@dataclass(frozen=True)
class FileKind:
    """How a target's source files are called and which template makes them."""

    suffix: str
    template: str
    blank_lines: int
    """Most empty lines in a row."""


KINDS: Mapping[str, FileKind] = MappingProxyType(
    {"cuda": FileKind(".cu", "file/kernel.cu.jinja", 1), "pallas": FileKind(".py", "file/kernel.py.jinja", 2)}
)


EMPTY: Mapping[str, Sequence[Declared]] = MappingProxyType({})


def body_digest(body: str) -> str:
    """Digest of a generated file below its header comment."""
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def body_of(text: str) -> str:
    """What stands below the header comment of a generated file."""
    return text.partition("\n\n")[2]


def render(
    plans: Iterable[Plan], overrides: Path | None = None, siblings: Mapping[str, Sequence[Declared]] = EMPTY
) -> dict[str, str]:
    """The files of `plans`: one source each, and one C header for every signature that has C kernels.

    `siblings` names, by header, all kernels that share it, where that is more than `plans`.
    """
    files: dict[str, str] = {}
    sharers: dict[str, list[Plan]] = {}
    for plan in plans:
        files[source_path(plan)] = render_source(plan, overrides)
        if plan.abi is not None:
            sharers.setdefault(plan.abi.header_file, []).append(plan)
    for path, found in sharers.items():
        own = [plan.abi.declared for plan in found if plan.abi is not None]
        files[path] = _render_header(found[0], siblings.get(path, own), overrides)
    return files


def source_path(plan: Plan) -> str:
    """The relative path of a plan's source file."""
    return plan.header.kernel + KINDS[plan.target].suffix


def render_source(plan: Plan, overrides: Path | None = None) -> str:
    """One source file: header comment, empty line, body."""
    made = environment(plan.target, overrides)
    kind = KINDS[plan.target]
    body = tidy(made.get_template(kind.template).render({"k": plan}), kind.blank_lines)
    return _with_header(plan.target, plan.header, body, overrides)


def _render_header(plan: Plan, kernels: Sequence[Declared], overrides: Path | None) -> str:
    """The C header of a signature: `plan` is any of its kernels."""
    assert plan.abi is not None
    shared = Interface.of(plan.abi, kernels)
    made = environment("cuda", overrides)
    body = tidy(made.get_template("file/header.h.jinja").render({"h": shared}), 1)
    header = _interface_header(plan.header, plan.abi, body_digest(body))
    return _with_header("cuda", header, body, overrides)


@dataclass(frozen=True)
class Interface:
    """What the C header of a signature shows: its argument struct, and every kernel that shares it."""

    guard: str
    arguments: str
    description: tuple[str, ...]
    members: tuple[Member, ...]
    kernels: tuple[str, ...]

    @staticmethod
    def of(abi: Abi, kernels: Sequence[Declared]) -> Interface:
        """One description where all kernels compute the same from the same types, else one for each variant."""
        variants: dict[tuple[tuple[str, ...], tuple[Member, ...]], list[str]] = {}
        for one in kernels:
            variants.setdefault((one.description, one.members), []).append(one.kernel)
        names = tuple(one.kernel for one in kernels)
        (description, members), *others = variants
        if not others:
            return Interface(abi.guard, abi.arguments, description, members, names)
        lines = [line for variant, users in variants.items() for line in _variant(variant, users)]
        return Interface(abi.guard, abi.arguments, tuple(lines), _common(list(variants)), names)


def _variant(variant: tuple[tuple[str, ...], tuple[Member, ...]], users: Sequence[str]) -> Iterator[str]:
    description, members = variant
    yield f"{', '.join(users)}:"
    yield from (f"  {line}" for line in description)
    yield from (f"  {member.comment}" for member in members if "*" in member.declaration)


def _common(variants: Sequence[tuple[tuple[str, ...], tuple[Member, ...]]]) -> tuple[Member, ...]:
    """The members, each with its comment where that holds for every variant."""
    columns = zip(*(members for _, members in variants), strict=True)
    return tuple(column[0] if len(set(column)) == 1 else replace(column[0], comment="see above") for column in columns)


def _interface_header(header: Header, abi: Abi, digest: str) -> Header:
    """The header comment of an interface: it belongs to a signature, not to a kernel, arch or schedule."""
    return replace(header, kernel=abi.kernel, kernel_digest=digest, arch="any", schedule="any", requires="C99")


def _with_header(target: str, header: Header, body: str, overrides: Path | None) -> str:
    template = environment(target, overrides).get_template("file/header.jinja")
    comment = tidy(template.render({"header": header, "body_digest": body_digest(body)}), 1)
    return f"{comment}\n{body}"
