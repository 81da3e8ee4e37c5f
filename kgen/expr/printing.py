"""What the printers share: minimal parentheses that keep the order of evaluation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from kgen.expr.check import Typed, compares_integers, dtype_of
from kgen.expr.dtypes import DTYPES
from kgen.expr.nodes import COMPARISONS, Binary, Call, Name, Node, Number, Unary


@dataclass(frozen=True)
class Printed:
    """Target text of an expression, and the helpers it calls, each after those it needs itself."""

    text: str
    helpers: tuple[str, ...]


class Level(IntEnum):
    """How tightly text holds together; text is put in parentheses where a tighter level is asked for."""

    CHOICE = 1
    OR = 2
    AND = 3
    COMPARE = 4
    SUM = 5
    PRODUCT = 6
    SIGN = 7
    ATOM = 8


_ARITHMETIC = {"+": Level.SUM, "-": Level.SUM, "*": Level.PRODUCT, "/": Level.PRODUCT}
Fragment = tuple[str, Level]


class Printer(ABC):
    """One walk over one expression. `names` maps variables to text that holds together (a name, a call, an index)."""

    def __init__(self, typed: Typed, names: Mapping[str, str]) -> None:
        self.env = typed.env
        self.names = names
        self.used: set[str] = set()

    @abstractmethod
    def number(self, value: float) -> str:
        """A literal."""

    @abstractmethod
    def call(self, node: Call) -> Fragment:
        """A function that is not a cast."""

    @abstractmethod
    def convert(self, node: Node, source: str, target: str) -> str:
        """The value of `node`, of dtype `source`, as dtype `target`."""

    @abstractmethod
    def logical(self, node: Binary) -> Fragment:
        """`and` or `or`."""

    @abstractmethod
    def negation(self, node: Unary) -> Fragment:
        """`not`."""

    def helper(self, name: str) -> str:
        """The name, noted as used."""
        self.used.add(name)
        return name

    def text(self, node: Node, level: Level = Level.CHOICE) -> str:
        """The node in its own dtype, in parentheses if it holds less tightly than `level`."""
        text, own = self._fragment(node)
        return f"({text})" if own < level else text

    def f32(self, node: Node, level: Level = Level.CHOICE) -> str:
        """The node as f32."""
        source = dtype_of(node, self.env)
        return self.text(node, level) if source == "f32" else self.convert(node, source, "f32")

    def arguments(self, node: Call) -> str:
        """All arguments as f32, separated by commas."""
        return ", ".join(self.f32(argument) for argument in node.arguments)

    def _fragment(self, node: Node) -> Fragment:
        if isinstance(node, Number):
            return self.number(node.value), Level.ATOM
        if isinstance(node, Name):
            return self.names[node.name], Level.ATOM
        if isinstance(node, Unary):
            # -(-x), not --x: C reads that as a decrement
            return (f"-{self.f32(node.operand, Level.ATOM)}", Level.SIGN) if node.op == "-" else self.negation(node)
        if isinstance(node, Binary):
            return self._binary(node)
        return self._cast(node) if node.function in DTYPES else self.call(node)

    def _binary(self, node: Binary) -> Fragment:
        if node.op in COMPARISONS:
            return self._comparison(node), Level.COMPARE
        if node.op not in _ARITHMETIC:
            return self.logical(node)
        return self.arithmetic(node), _ARITHMETIC[node.op]

    def arithmetic(self, node: Binary) -> str:
        """`+ - * /`; the right side of equal strength keeps its parentheses, as no operation is associative."""
        level = _ARITHMETIC[node.op]
        return f"{self.f32(node.left, level)} {node.op} {self.f32(node.right, Level(level + 1))}"

    def _comparison(self, node: Binary) -> str:
        side = self.text if compares_integers(node, self.env) else self.f32
        return f"{side(node.left, Level.SUM)} {node.op} {side(node.right, Level.SUM)}"

    def _cast(self, node: Call) -> Fragment:
        argument = node.arguments[0]
        source = dtype_of(argument, self.env)
        if source == node.function:
            return self._fragment(argument)
        return self.convert(argument, source, node.function), Level.ATOM
