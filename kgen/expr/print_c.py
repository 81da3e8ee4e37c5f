"""Expressions as CUDA C++."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kgen.expr.check import Typed
from kgen.expr.helpers import closure
from kgen.expr.literals import shortest
from kgen.expr.nodes import Binary, Call, Node, Unary
from kgen.expr.printing import Fragment, Level, Printed, Printer

_LIBRARY: Mapping[str, str] = MappingProxyType({
    "abs": "fabsf", "floor": "floorf", "round": "rintf", "exp": "expf", "exp2": "exp2f", "log": "logf",
    "log2": "log2f", "sqrt": "sqrtf", "rsqrt": "rsqrtf", "tanh": "tanhf", "erf": "erff",
})  # fmt: skip
_RENAMED = MappingProxyType({"max": "max_nan", "min": "min_nan"})


def to_c(typed: Typed, names: Mapping[str, str]) -> Printed:
    """`typed` as a C++ expression of its own dtype; `names` gives each variable's text, in the variable's dtype."""
    printer = _C(typed, names)
    text = printer.text(typed.root)
    return Printed(text, closure("c", printer.used))


class _C(Printer):
    def number(self, value: float) -> str:
        return f"{shortest(value)}f"

    def call(self, node: Call) -> Fragment:
        if node.function == "where":
            condition, then, otherwise = node.arguments
            parts = (self.text(condition, Level.OR), self.f32(then, Level.OR), self.f32(otherwise))
            return "{} ? {} : {}".format(*parts), Level.CHOICE
        name = _LIBRARY.get(node.function) or self.helper(_RENAMED.get(node.function, node.function))
        return f"{name}({self.arguments(node)})", Level.ATOM

    def convert(self, node: Node, source: str, target: str) -> str:
        if source == "f32" or target == "f32":
            return f"{self.helper(f'{target}_from_{source}')}({self.text(node)})"
        return f"{self.helper(f'{target}_from_f32')}({self.convert(node, source, 'f32')})"

    def logical(self, node: Binary) -> Fragment:
        operator, own, other = ("&&", Level.AND, "or") if node.op == "and" else ("||", Level.OR, "and")
        left, right = (self._side(side, own, other) for side in (node.left, node.right))
        return f"{left} {operator} {right}", own

    def _side(self, node: Node, own: Level, other: str) -> str:
        mixed = isinstance(node, Binary) and node.op == other
        # compilers warn of && inside || without parentheses
        return f"({self.text(node)})" if mixed else self.text(node, own)

    def negation(self, node: Unary) -> Fragment:
        return f"!{self.text(node.operand, Level.ATOM)}", Level.SIGN
