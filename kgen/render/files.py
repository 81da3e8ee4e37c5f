"""From plans to {relative path: text}: pure, the same bytes for the same plan."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from kgen.plan import Plan
from kgen.plan.base import Header
from kgen.plan.cabi import Abi, Member
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


def body_digest(body: str) -> str:
    """Digest of a generated file below its header comment."""
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def body_of(text: str) -> str:
    """What stands below the header comment of a generated file."""
    return text.partition("\n\n")[2]


def render(plans: Iterable[Plan], overrides: Path | None = None) -> dict[str, str]:
    """The files of `plans`: one source each, and one C header for every signature that has C kernels."""
    files: dict[str, str] = {}
    interfaces: dict[str, list[Plan]] = {}
    for plan in plans:
        files[source_path(plan)] = render_source(plan, overrides)
        if plan.abi is not None:
            interfaces.setdefault(plan.abi.header_file, []).append(plan)
    for path, sharers in interfaces.items():
        files[path] = render_header(sharers, overrides)
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


def render_header(sharers: list[Plan], overrides: Path | None = None) -> str:
    """The C header of the signature that `sharers` have in common."""
    abis = [plan.abi for plan in sharers if plan.abi is not None]
    abi, kernels = abis[0], tuple(plan.header.kernel for plan in sharers)
    shared = Interface(abi.guard, abi.arguments, abi.description, abi.members, kernels)
    made = environment("cuda", overrides)
    body = tidy(made.get_template("file/header.h.jinja").render({"h": shared}), 1)
    return _with_header("cuda", _interface_header(sharers[0].header, abis[0]), body, overrides)


@dataclass(frozen=True)
class Interface:
    """What the C header of a signature shows: its argument struct, and every kernel that shares it."""

    guard: str
    arguments: str
    description: tuple[str, ...]
    members: tuple[Member, ...]
    kernels: tuple[str, ...]


def _interface_header(header: Header, abi: Abi) -> Header:
    """The header comment of an interface: it belongs to a signature, not to an arch or schedule."""
    digest = header.signature_digest
    return replace(header, kernel=abi.kernel, kernel_digest=digest, arch="any", schedule="any", requires="C99")


def _with_header(target: str, header: Header, body: str, overrides: Path | None) -> str:
    template = environment(target, overrides).get_template("file/header.jinja")
    comment = tidy(template.render({"header": header, "body_digest": body_digest(body)}), 1)
    return f"{comment}\n{body}"
