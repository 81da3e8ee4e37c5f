"""Templates decide nothing: rules over the Jinja syntax tree that keep decisions in the plan.

* no arithmetic, no comparison, no concatenation; filters `indent` and `join` only;
* `if` tests a plan boolean, or its negation; blocks nest at most two deep;
* no arch or dtype in a template's expressions, no arch in its text;
* every variable is declared with a view's type, and every attribute exists there. A file declares its variable in
  its first comment (`<# k: CudaPlan #>`), a macro on its own line (`<% macro load(step) %><# step: CopyStep #>`);
* every macro that a plan may name exists.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path

from jinja2 import Environment, nodes

from kgen.arch import TARGETS
from kgen.expr import DTYPES
from kgen.plan import base, cabi, cuda_views, pallas_views
from kgen.render import files
from kgen.render.environment import environment, template_root

DEPTH = 2
_DECLARATION = re.compile(r"<#-?\s*(?P<name>\w+): (?P<type>\w+)\b.*?#>", re.DOTALL)
_MACRO = re.compile(r"<%-?\s*macro (?P<macro>\w+)\((?P<argument>\w+)\)\s*-?%>(?P<rest>[^\n]*)")
_FORBIDDEN = (nodes.BinExpr, nodes.Compare, nodes.Concat, nodes.Neg, nodes.CondExpr, nodes.Assign, nodes.Getitem)
_FILTERS = frozenset({"indent", "join"})
_GLOBALS = frozenset({"emit", "layer", "loop", "body_digest"})


@dataclass(frozen=True, order=True)
class Finding:
    """A rule that a template breaks."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


Types = Mapping[str, type]


_VIEWS = {"cuda": (base, cabi, cuda_views, files), "pallas": (base, pallas_views)}


def views(target: str) -> dict[str, type]:
    """Every view a template of `target` may be given, by name."""
    views = [v for module in _VIEWS[target] for v in vars(module).values() if isinstance(v, type) and is_dataclass(v)]
    return {"str": str, **{view.__name__: view for view in views}}


def lint_all(root: Path | None = None) -> list[Finding]:
    """All findings in all templates under `root` (the shipped ones)."""
    root = root or template_root()
    found: list[Finding] = []
    for path in sorted(root.rglob("*.jinja")):
        target = path.relative_to(root).parts[0]
        found.extend(lint(path.read_text(), path.relative_to(root).as_posix(), environment(target)))
    return sorted(found)


def lint(text: str, name: str, made: Environment) -> Iterator[Finding]:
    """The findings in one template."""
    tree = made.parse(text, name)
    known = views(name.split("/", maxsplit=1)[0])
    yield from _forbidden(tree, name)
    yield from _text_literals(tree, name)
    macros = {m["macro"]: _declared(m["rest"], known) for m in _MACRO.finditer(text)}
    first = _DECLARATION.search(text)
    outer = _declared(first[0], known) if first else {}
    for macro in tree.find_all(nodes.Macro):
        yield from _Walk(name, macros.get(macro.name) or {}).block(macro.body, 0)
    body = [node for node in tree.body if not isinstance(node, nodes.Macro | nodes.FromImport)]
    yield from _Walk(name, outer).block(body, 0)


def _declared(text: str, known: Mapping[str, type]) -> dict[str, type]:
    return {m["name"]: known[m["type"]] for m in _DECLARATION.finditer(text) if m["type"] in known}


def _forbidden(tree: nodes.Template, name: str) -> Iterator[Finding]:
    for node in tree.find_all(_FORBIDDEN):
        yield Finding(name, node.lineno, f"{type(node).__name__} is a decision: it belongs in the plan")
    for used in tree.find_all(nodes.Filter):
        if used.name not in _FILTERS:
            yield Finding(name, used.lineno, f"filter {used.name}; allowed: {', '.join(sorted(_FILTERS))}")
    for constant in tree.find_all(nodes.Const):
        words = set(re.split(r"[^\w-]+", str(constant.value)))
        for literal in sorted(words & (set(DTYPES) | _archs())):
            yield Finding(name, constant.lineno, f"literal {literal} in an expression: take it from the plan")


def _archs() -> set[str]:
    return {arch for archs in TARGETS.values() for arch in archs}


def _text_literals(tree: nodes.Template, name: str) -> Iterator[Finding]:
    for data in tree.find_all(nodes.TemplateData):
        for arch in sorted(_archs()):
            if re.search(rf"(?<![\w-]){re.escape(arch)}(?![\w-])", data.data):
                yield Finding(name, data.lineno, f"arch {arch} in the text: take it from the plan")


@dataclass(frozen=True)
class _Walk:
    """Walks one template or macro with the types of its variables."""

    file: str
    types: Types

    def block(self, body: list[nodes.Node], depth: int) -> Iterator[Finding]:
        for node in body:
            yield from self.statement(node, depth)

    def statement(self, node: nodes.Node, depth: int) -> Iterator[Finding]:
        if isinstance(node, nodes.For | nodes.If) and depth == DEPTH:
            yield Finding(self.file, node.lineno, f"blocks nest more than {DEPTH} deep")
        if isinstance(node, nodes.For):
            yield from self.loop(node, depth)
        elif isinstance(node, nodes.If):
            yield from self.condition(node.test)
            yield from self.block([*node.body, *node.elif_, *node.else_], depth + 1)
        elif isinstance(node, nodes.Output):
            for part in node.nodes:
                yield from self.expression(part)

    def loop(self, node: nodes.For, depth: int) -> Iterator[Finding]:
        yield from self.expression(node.iter)
        element = _element(self.type_of(node.iter))
        assert isinstance(node.target, nodes.Name)
        inner = _Walk(self.file, {**self.types, node.target.name: element or object})
        yield from inner.block(node.body, depth + 1)

    def condition(self, test: nodes.Node) -> Iterator[Finding]:
        inner = test.node if isinstance(test, nodes.Not) else test
        if self.type_of(inner) is not bool:
            yield Finding(self.file, test.lineno, "if tests something that is no boolean of the plan")

    def expression(self, node: nodes.Node) -> Iterator[Finding]:
        if isinstance(node, nodes.Getattr | nodes.Name) and self.type_of(node) is None:
            yield Finding(self.file, node.lineno, f"{_spelt(node)} is not in a view that the template declares")
            return
        for child in node.iter_child_nodes():
            yield from self.expression(child)

    def type_of(self, node: nodes.Node) -> typing.Any:
        """The type of a name or attribute; None where a view does not have it."""
        if isinstance(node, nodes.Name):
            return self.types.get(node.name) or (object if node.name in _GLOBALS else None)
        if isinstance(node, nodes.Getattr):
            owner = self.type_of(node.node)
            return _hints(owner).get(node.attr) if isinstance(owner, type) else None
        return None


def _hints(view: type) -> dict[str, typing.Any]:
    if not is_dataclass(view):
        return {}
    hints = typing.get_type_hints(view)
    members = {name: member for owner in reversed(view.__mro__) for name, member in vars(owner).items()}
    properties = {n: typing.get_type_hints(p.fget)["return"] for n, p in members.items() if isinstance(p, property)}
    return {**{f.name: hints[f.name] for f in fields(view)}, **properties}


def _element(annotation: typing.Any) -> typing.Any:
    arguments = typing.get_args(annotation)
    return arguments[0] if arguments else None


def _spelt(node: nodes.Node) -> str:
    if isinstance(node, nodes.Getattr):
        return f"{_spelt(node.node)}.{node.attr}"
    return node.name if isinstance(node, nodes.Name) else "?"
