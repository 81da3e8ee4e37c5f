"""The (value, bound) interpreter: an expression's exact value, and how far a machine's f32 result may be from it.

Every operation maps an interval of what may have been computed so far (`ranges.py`), so cancellation, overflow,
division by something near 0 and conditions near a tie are followed rather than linearised. The product inside a sum is
always counted as rounded, which covers a fused multiply-add too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgen.expr import ranges
from kgen.expr.check import Typed, Value, compares_integers, definition, dtype_of
from kgen.expr.dtypes import DTYPES
from kgen.expr.functions import FUNCTIONS
from kgen.expr.machines import MACHINES, Machine
from kgen.expr.nodes import COMPARISONS, Binary, Call, Name, Node, Number, Unary
from kgen.expr.numpy_library import library
from kgen.expr.ranges import Condition, Range

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


@dataclass(frozen=True)
class Bounded:
    """|computed - value| <= bound, element by element.

    A NaN or infinite value with bound 0 is certain; an infinite bound says that nothing is known, NaN included.
    """

    value: Array
    bound: Array


def evaluate(typed: Typed, env: Mapping[str, Bounded], machine: str) -> Bounded:
    """The exact value of `typed` and the largest error of `machine` (a key of `MACHINES`).

    `env` gives each variable as float64 arrays with one axis for each letter of its `axes`, in that order; bound 0
    says that the machine holds exactly this value. The result has one axis for each letter of `typed.axes`.
    """
    import numpy as np

    with np.errstate(all="ignore"):
        aligned = {name: _aligned(env[name], value.axes, typed.axes) for name, value in typed.variables}
        result = _Interpreter(MACHINES[machine], typed.env, aligned).number(typed.root)
        return Bounded(result.value, ranges.bound_of(result))


def _aligned(variable: Bounded, axes: str, order: str) -> Range:
    """The variable with its axes in `order`, and an axis of one element for each letter it lacks."""
    import numpy as np

    def align(array: Any) -> Any:
        present = [letter for letter in order if letter in axes]
        moved = np.transpose(np.asarray(array, dtype=np.float64), [axes.index(letter) for letter in present])
        return moved.reshape([moved.shape[present.index(letter)] if letter in axes else 1 for letter in order])

    bound = np.broadcast_to(variable.bound, np.shape(variable.value))
    return ranges.around(align(variable.value), align(bound))


class _Interpreter:
    def __init__(self, machine: Machine, env: Mapping[str, Value], values: Mapping[str, Range]) -> None:
        self._machine = machine
        self._env = env
        self._values = values

    def number(self, node: Node) -> Range:
        """A node that is a number, in its own dtype."""
        if isinstance(node, Number):
            return ranges.point(node.value)
        if isinstance(node, Name):
            return ranges.flushed(self._values[node.name], self._machine)
        if isinstance(node, Unary):
            return ranges.negate(self._f32(node.operand))
        if isinstance(node, Binary):
            return self._arithmetic(node)
        return self._cast(node) if node.function in DTYPES else self._call(node)

    def condition(self, node: Node) -> Condition:
        """A node that is a condition."""
        if isinstance(node, Unary):
            return ranges.opposite(self.condition(node.operand))
        if not isinstance(node, Binary):
            raise TypeError(f"{node} is no condition")
        if node.op in COMPARISONS:
            return self._comparison(node)
        left, right = self.condition(node.left), self.condition(node.right)
        if node.op == "and":
            return ranges.both(left, right)
        return ranges.opposite(ranges.both(ranges.opposite(left), ranges.opposite(right)))

    def _f32(self, node: Node) -> Range:
        result = self.number(node)
        # of the other dtypes, only i32 has values that f32 lacks
        wide = dtype_of(node, self._env) == "i32"
        return ranges.rounded(result, 0.5, self._machine) if wide else result

    def _arithmetic(self, node: Binary) -> Range:
        left, right = self._f32(node.left), self._f32(node.right)
        if node.op == "*":
            return ranges.multiply(left, right, self._machine)
        if node.op == "/":
            return ranges.divide(left, right, self._machine)
        return ranges.add(left, right if node.op == "+" else ranges.negate(right), self._machine)

    def _comparison(self, node: Binary) -> Condition:
        side = self.number if compares_integers(node, self._env) else self._f32
        left, right = side(node.left), side(node.right)
        if node.op in ("==", "!="):
            same = ranges.equal(left, right)
            return same if node.op == "==" else ranges.opposite(same)
        if node.op in (">", ">="):
            left, right = right, left
        return ranges.less(left, right) if node.op in ("<", ">") else ranges.less_equal(left, right)

    def _cast(self, node: Call) -> Range:
        argument = node.arguments[0]
        if dtype_of(argument, self._env) == node.function:
            return self.number(argument)
        return ranges.cast(self._f32(argument), DTYPES[node.function], self._machine)

    def _call(self, node: Call) -> Range:
        if node.function == "where":
            condition, then, otherwise = node.arguments
            return ranges.select(self.condition(condition), self._f32(then), self._f32(otherwise))
        arguments = [self._f32(argument) for argument in node.arguments]
        if FUNCTIONS[node.function].definition:
            composite = definition(node.function)
            values = dict(zip(FUNCTIONS[node.function].parameters, arguments, strict=True))
            return _Interpreter(self._machine, composite.env, values).number(composite.root)
        return self._primitive(node.function, arguments)

    def _primitive(self, name: str, arguments: list[Range]) -> Range:
        if name in ("max", "min"):
            return (ranges.maximum if name == "max" else ranges.minimum)(*arguments)
        x = arguments[0]
        if name == "abs":
            return ranges.absolute(x)
        exact = ranges.rsqrt(x) if name == "rsqrt" else ranges.rising(library("float64")[name], x)
        ulps = self._machine.ulps.get(name, 0.0)
        return ranges.rounded(exact, ulps, self._machine) if ulps else exact
