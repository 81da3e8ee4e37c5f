"""Expressions as JAX and as NumPy."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from types import MappingProxyType

from kgen.expr.check import Typed
from kgen.expr.helpers import closure
from kgen.expr.literals import shortest
from kgen.expr.nodes import Binary, Call, Name, Node, Unary, walk
from kgen.expr.printing import Fragment, Level, Printed, Printer

_JNP: Mapping[str, str] = MappingProxyType({
    "where": "jnp.where", "max": "jnp.maximum", "min": "jnp.minimum", "abs": "jnp.abs", "floor": "jnp.floor",
    "round": "jnp.round", "exp": "jnp.exp", "exp2": "jnp.exp2", "log": "jnp.log", "log2": "jnp.log2",
    "sqrt": "jnp.sqrt", "rsqrt": "lax.rsqrt", "tanh": "jnp.tanh", "erf": "lax.erf",
})  # fmt: skip
_DTYPES = MappingProxyType({"f32": "float32", "f16": "float16", "bf16": "bfloat16", "i32": "int32", "i8": "int8"})


def to_jax(typed: Typed, names: Mapping[str, str]) -> Printed:
    """`typed` as a JAX expression of its own dtype; `names` gives each variable's text, in the variable's dtype.

    The text uses `jnp` and `lax`. An expression of constants only is a Python float.
    """
    printer = _Jax(typed, names)
    text = printer.text(typed.root)
    return Printed(text, closure("jax", printer.used))


def to_numpy(typed: Typed, names: Mapping[str, str], dtype: str = "float32") -> Printed:
    """`typed` as NumPy over arrays of `dtype` (`float32` or `float64`), for documentation and tests.

    Every variable is an array of `dtype`, and so is the result; `numpy_library` holds the functions and casts.
    """
    printer = _NumPy(typed, names, dtype)
    text = printer.text(typed.root)
    return Printed(text, tuple(sorted(printer.used)))


def _constant(node: Node) -> bool:
    return not any(isinstance(inner, Name) for inner in walk(node))


class _Python(Printer):
    module: str

    @abstractmethod
    def function(self, name: str) -> str:
        """Target text of a function's name."""

    def call(self, node: Call) -> Fragment:
        arguments = self.arguments(node)
        if node.function == "where":
            condition, *values = node.arguments
            arguments = ", ".join((self.text(condition), *map(self.f32, values)))
        return f"{self.function(node.function)}({arguments})", Level.ATOM

    def arithmetic(self, node: Binary) -> str:
        if node.op == "/" and _constant(node):
            # Python raises where IEEE gives an infinity
            return f"{self.module}.divide({self.f32(node.left)}, {self.f32(node.right)})"
        return super().arithmetic(node)

    def logical(self, node: Binary) -> Fragment:
        # & and | bind tighter than comparisons
        operator = "&" if node.op == "and" else "|"
        left, right = (self.text(side, Level.ATOM) for side in (node.left, node.right))
        return f"{left} {operator} {right}", Level.AND

    def negation(self, node: Unary) -> Fragment:
        return f"{self.module}.logical_not({self.text(node.operand)})", Level.ATOM


class _Jax(_Python):
    module = "jnp"

    def number(self, value: float) -> str:
        return shortest(value)

    def function(self, name: str) -> str:
        return _JNP.get(name) or self.helper(name)

    def convert(self, node: Node, source: str, target: str) -> str:
        if target in ("i8", "i32"):
            return f"{self.helper(f'{target}_from_f32')}({self.f32(node)})"
        value = self.text if target == "f32" else self.f32
        if _constant(node):
            return f"jnp.{_DTYPES[target]}({value(node)})"
        return f"{value(node, Level.ATOM)}.astype(jnp.{_DTYPES[target]})"


class _NumPy(_Python):
    module = "np"

    def __init__(self, typed: Typed, names: Mapping[str, str], dtype: str) -> None:
        super().__init__(typed, names)
        self._dtype = dtype

    def number(self, value: float) -> str:
        return f"np.{self._dtype}({shortest(value) if self._dtype == 'float32' else repr(value)})"

    def function(self, name: str) -> str:
        return self.helper(name)

    def f32(self, node: Node, level: Level = Level.CHOICE) -> str:
        return self.text(node, level)

    def convert(self, node: Node, source: str, target: str) -> str:
        return f"{self.helper(target)}({self.text(node)})"
