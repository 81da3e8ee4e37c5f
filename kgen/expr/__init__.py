"""The expression language: parsed, typed and printed; never evaluated as Python. Reference: docs/expressions.md."""

from __future__ import annotations

from kgen.expr.bound import Bounded, evaluate
from kgen.expr.check import Typed, Value, check, widened
from kgen.expr.dtypes import DTYPES, DType
from kgen.expr.errors import ExprError
from kgen.expr.functions import FUNCTIONS, RESERVED, Function
from kgen.expr.helpers import HELPERS, Helper
from kgen.expr.machines import MACHINES, Machine
from kgen.expr.parser import Expression, parse
from kgen.expr.print_c import to_c
from kgen.expr.print_python import to_jax, to_numpy
from kgen.expr.printing import Printed

__all__ = [
    "DTYPES",
    "FUNCTIONS",
    "HELPERS",
    "MACHINES",
    "RESERVED",
    "Bounded",
    "DType",
    "ExprError",
    "Expression",
    "Function",
    "Helper",
    "Machine",
    "Printed",
    "Typed",
    "Value",
    "check",
    "evaluate",
    "parse",
    "to_c",
    "to_jax",
    "to_numpy",
    "widened",
]
