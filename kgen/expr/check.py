"""Types: from a parsed expression and the variables it may name to a `Typed` expression."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

from kgen.expr.dtypes import DTYPES
from kgen.expr.errors import ExprError, listed, suggestion
from kgen.expr.functions import FUNCTIONS
from kgen.expr.nodes import ARITHMETIC, COMPARISONS, Binary, Call, Name, Node, Span, Unary, walk
from kgen.expr.parser import Expression, parse

BOOL = "bool"
_INTEGERS = frozenset(name for name, dtype in DTYPES.items() if dtype.kind == "int")


@dataclass(frozen=True)
class Value:
    """What a variable is: its dtype (a key of `DTYPES`, or `bool`) and its dims, one letter each; "" for a scalar."""

    dtype: str
    axes: str = ""


@dataclass(frozen=True)
class Typed:
    """An expression whose names are known. `dtype` is `f32` unless the root is a name, a cast or a condition."""

    source: str
    root: Node
    dtype: str
    axes: str
    """Union of the variables' dims, in the order given to `check`."""
    variables: tuple[tuple[str, Value], ...]
    """The variables the expression names, in order of first use."""
    functions: tuple[str, ...]
    """The functions and casts called, in order of first use."""

    @property
    def names(self) -> tuple[str, ...]:
        """The variables' names, in order of first use."""
        return tuple(name for name, _ in self.variables)

    @property
    def env(self) -> Mapping[str, Value]:
        """The variables by name."""
        return MappingProxyType(dict(self.variables))


def widened(typed: Typed) -> Typed:
    """`typed` over variables that have been converted to f32 already, for targets that convert as they load."""
    variables = tuple((name, Value("f32", value.axes)) for name, value in typed.variables)
    return replace(typed, variables=variables, dtype=dtype_of(typed.root, dict(variables)))


def dtype_of(node: Node, env: Mapping[str, Value]) -> str:
    """The dtype of a checked node: names and casts have their own, conditions are `bool`, all else is `f32`."""
    if isinstance(node, Name):
        return env[node.name].dtype
    if isinstance(node, Call):
        return node.function if node.function in DTYPES else "f32"
    condition = isinstance(node, Unary | Binary) and (node.op == "not" or node.op not in ARITHMETIC)
    return BOOL if condition else "f32"


def compares_integers(node: Binary, env: Mapping[str, Value]) -> bool:
    """Whether both sides of a comparison are integers, and so are compared as integers, without rounding to f32."""
    return node.op in COMPARISONS and all(dtype_of(side, env) in _INTEGERS for side in (node.left, node.right))


def check(
    expression: Expression, env: Mapping[str, Value], *, order: str = "bmn", condition: bool = False
) -> Typed | tuple[ExprError, ...]:
    """Types `expression` over the variables of `env`, or all its type errors in text order.

    `order` is the order of dims in `axes` (letters it lacks follow in alphabetical order). The result is to be a
    number, or with `condition` a bool.
    """
    checker = _Checker(env)
    for node in walk(expression.root):
        checker.visit(node)
    if not checker.errors:
        checker.expect(expression.root, condition, "the expression")
    if checker.errors:
        return tuple(sorted(checker.errors, key=lambda error: (error.offset, error.length)))
    variables = {node.name: env[node.name] for node in walk(expression.root) if isinstance(node, Name)}
    return Typed(
        source=expression.source,
        root=expression.root,
        dtype=dtype_of(expression.root, env),
        axes=_union((value.axes for value in variables.values()), order),
        variables=tuple(variables.items()),
        functions=_functions(expression.root),
    )


@cache
def definition(function: str) -> Typed:
    """The typed definition of a composite function over its parameters."""
    composite = FUNCTIONS[function]
    parsed = parse(composite.definition)
    if isinstance(parsed, Expression):
        typed = check(parsed, dict.fromkeys(composite.parameters, Value("f32")))
        if isinstance(typed, Typed):
            return typed
    raise LookupError(f"{function} has no definition")


def _union(axes: Iterable[str], order: str) -> str:
    letters = sorted(set().union(*axes))
    known = [letter for letter in order if letter in letters]
    return "".join(known + [letter for letter in letters if letter not in order])


def _functions(root: Node) -> tuple[str, ...]:
    calls = sorted((node for node in walk(root) if isinstance(node, Call)), key=lambda call: call.span.offset)
    return tuple(dict.fromkeys(call.function for call in calls))


class _Checker:
    def __init__(self, env: Mapping[str, Value]) -> None:
        self._env = env
        self._broken: set[int] = set()
        self.errors: list[ExprError] = []

    def _report(self, span: Span, message: str, fix: str) -> None:
        self.errors.append(ExprError(span.offset, span.length, message, fix))

    def visit(self, node: Node) -> None:
        """Checks one node whose operands have been visited."""
        before = len(self.errors)
        if isinstance(node, Name):
            self._name(node)
        elif isinstance(node, Call):
            self._call(node)
        elif isinstance(node, Unary):
            self.expect(node.operand, node.op == "not", f"the operand of `{node.op}`")
        elif isinstance(node, Binary):
            for side in (node.left, node.right):
                self.expect(side, node.op in ("and", "or"), f"an operand of `{node.op}`")
        if len(self.errors) > before:
            self._broken.add(id(node))

    def expect(self, node: Node, condition: bool, what: str) -> None:
        """Reports a number where a condition belongs and the reverse; silent where `node` is in error already."""
        if id(node) in self._broken:
            return
        if condition and dtype_of(node, self._env) != BOOL:
            self._report(node.span, f"{what} is a number, not a condition", "write a comparison, such as x > 0")
        if not condition and dtype_of(node, self._env) == BOOL:
            self._report(node.span, f"{what} is a condition, not a number", "write where(condition, x, y)")

    def _name(self, node: Name) -> None:
        if node.name in self._env:
            return
        known = FUNCTIONS.get(node.name)
        if known is not None:
            call = f"{known.name}({', '.join(known.parameters)})"
            self._report(node.span, f"{node.name!r} is a function", f"write {call}")
        elif node.name in DTYPES:
            self._report(node.span, f"{node.name!r} is a cast", f"write {node.name}(x)")
        else:
            self._report(node.span, f"unknown name {node.name!r}", suggestion(node.name, self._env))

    def _call(self, node: Call) -> None:
        name, count = node.function, len(node.arguments)
        if name not in FUNCTIONS and name not in DTYPES:
            self._unknown(node)
            return
        parameters = FUNCTIONS[name].parameters if name in FUNCTIONS else ("x",)
        if count != len(parameters):
            arguments = "argument" if len(parameters) == 1 else "arguments"
            message = f"{name} takes {len(parameters)} {arguments}, not {count}"
            self._report(node.span, message, f"write {name}({', '.join(parameters)})")
            return
        for argument, parameter in zip(node.arguments, parameters, strict=True):
            self.expect(argument, parameter == "condition", f"{parameter} of {name}")

    def _unknown(self, node: Call) -> None:
        if node.function in self._env:
            self._report(node.name_span, f"{node.function!r} is a variable, not a function", "write * to multiply")
        elif node.function.startswith("f8"):
            self._report(node.name_span, f"no cast {node.function!r}", f"casts: {listed(DTYPES)}")
        else:
            fix = suggestion(node.function, (*FUNCTIONS, *DTYPES))
            self._report(node.name_span, f"unknown function {node.function!r}", fix)
