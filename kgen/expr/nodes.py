"""The syntax tree. Spans count characters of the text; they do not take part in equality."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

ARITHMETIC = ("+", "-", "*", "/")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
LOGICAL = ("and", "or")


@dataclass(frozen=True)
class Span:
    """Where a node stands in the text."""

    offset: int
    length: int

    def to(self, other: Span) -> Span:
        """From the start of this span to the end of `other`."""
        return Span(self.offset, other.offset + other.length - self.offset)


@dataclass(frozen=True)
class Number:
    """A literal, already rounded to f32."""

    value: float
    span: Span = field(compare=False)


@dataclass(frozen=True)
class Name:
    """A variable."""

    name: str
    span: Span = field(compare=False)


@dataclass(frozen=True)
class Unary:
    """`-x` or `not x`."""

    op: str
    operand: Node
    span: Span = field(compare=False)


@dataclass(frozen=True)
class Binary:
    """`left op right`, arithmetic, comparison or logical."""

    op: str
    left: Node
    right: Node
    span: Span = field(compare=False)


@dataclass(frozen=True)
class Call:
    """`function(arguments)`; casts are calls too. `span` covers the call, `name_span` the function's name."""

    function: str
    arguments: tuple[Node, ...]
    span: Span = field(compare=False)
    name_span: Span = field(compare=False)


Node = Number | Name | Unary | Binary | Call


def children(node: Node) -> tuple[Node, ...]:
    """Direct operands, in text order."""
    if isinstance(node, Unary):
        return (node.operand,)
    if isinstance(node, Binary):
        return (node.left, node.right)
    return node.arguments if isinstance(node, Call) else ()


def walk(root: Node) -> Iterator[Node]:
    """Every node, operands before their operator and left before right; needs no recursion."""
    pending = [(root, False)]
    while pending:
        node, expanded = pending.pop()
        if expanded:
            yield node
        else:
            pending.append((node, True))
            pending.extend((child, False) for child in reversed(children(node)))


def depth(root: Node) -> int:
    """Levels of the tree; 1 for a leaf."""
    depths: dict[int, int] = {}
    for node in walk(root):
        depths[id(node)] = 1 + max((depths[id(child)] for child in children(node)), default=0)
    return depths[id(root)]
