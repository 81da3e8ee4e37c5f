"""Grammar, types, and every error with its exact place and wording."""

from __future__ import annotations

import sys
from itertools import pairwise

import pytest

from kgen.expr import ExprError, Expression, Typed, Value, check, parse
from kgen.expr.literals import f32, shortest
from kgen.expr.nodes import Binary, Call, Name, Node, Number, Unary

ENV = {"acc": Value("f32", "mn"), "bias": Value("bf16", "n"), "alpha": Value("f32"), "i": Value("i32", "m")}


def tree(node: Node) -> str:
    """The tree as nested prefix text."""
    match node:
        case Number(value):
            return shortest(value)
        case Name(name):
            return name
        case Unary(op, operand):
            return f"({op} {tree(operand)})"
        case Binary(op, left, right):
            return f"({op} {tree(left)} {tree(right)})"
        case Call(function, arguments):
            return f"({function} {' '.join(map(tree, arguments))})"


def parsed(text: str) -> Expression:
    expression = parse(text)
    assert isinstance(expression, Expression), expression
    return expression


def errors(text: str, condition: bool = False) -> tuple[ExprError, ...]:
    expression = parse(text)
    if isinstance(expression, Expression):
        typed = check(expression, ENV, condition=condition)
        assert not isinstance(typed, Typed), f"{text} is accepted"
        return typed
    return expression


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a - b - c", "(- (- a b) c)"),
        ("a / b * c", "(* (/ a b) c)"),
        ("a + b * c", "(+ a (* b c))"),
        ("(a + b) * c", "(* (+ a b) c)"),
        ("-a * b", "(* (- a) b)"),
        ("- a + b", "(+ (- a) b)"),
        ("--a", "(- (- a))"),
        ("a < b and b < c or d == e", "(or (and (< a b) (< b c)) (== d e))"),
        ("a or b and c", "(or a (and b c))"),
        ("not a < b and c", "(and (not (< a b)) c)"),
        ("a + b <= c - 1", "(<= (+ a b) (- c 1.0))"),
        ("where(a != b, f(x, y), 2e-3)", "(where (!= a b) (f x y) 0.002)"),
        ("\n  a\t+\r\n.5", "(+ a 0.5)"),
        ("f()", "(f )"),
        ("1e5 + 1.E+2 - 3e-2", "(- (+ 100000.0 100.0) 0.03)"),
    ],
)
def test_precedence(text: str, expected: str) -> None:
    assert tree(parsed(text).root) == expected


def test_spans_cover_the_operands() -> None:
    root = parsed("x + (y * -zz)").root
    assert isinstance(root, Binary) and isinstance(root.right, Binary)
    assert (root.span.offset, root.span.length) == (0, 12)
    assert (root.right.span.offset, root.right.span.length) == (5, 7)


SYNTAX = [
    ("", "0+0: empty expression; write a value, such as acc"),
    ("  ", "2+0: empty expression; write a value, such as acc"),
    ("acc +", "5+0: the expression ends early; expected here: a number, a name, a call or '('"),
    ("acc * / 2", "6+1: unexpected '/'; expected here: a number, a name, a call or '('"),
    ("acc ** 2", "5+1: unexpected '*'; there is no operator '**'"),
    ("acc // 2", "5+1: unexpected '/'; there is no operator '//'"),
    ("acc 2", "4+1: unexpected '2'; allowed here: an operator or the end"),
    ("(acc + 1", "0+1: '(' is never closed; add ')'"),
    ("relu(acc", "4+1: '(' is never closed; add ')'"),
    ("acc)", "3+1: ')' without '('; remove it, or open a parenthesis before it"),
    ("max(acc 1)", "8+1: unexpected '1'; allowed here: an operator, ',' or ')'"),
    ("max(acc, )", "9+1: unexpected ')'; expected here: a number, a name, a call or '('"),
    ("acc, 1", "3+1: unexpected ','; allowed here: an operator or the end"),
    ("acc < 1 < 2", "8+1: comparisons do not chain; write `a < b and b < c`"),
    ("acc = 1", "4+1: unexpected character '='; write == to compare"),
    ("!acc", "0+1: unexpected character '!'; write `not x`, or != to compare"),
    ("acc && 1", "4+1: unexpected character '&'; write `and`"),
    ("acc ^ 2", "4+1: unexpected character '^'; there is no power; write x * x"),
    ("acc ? 1 : 2", "4+1: unexpected character '?'; write where(condition, x, y)"),
    ("acc[0]", "3+1: unexpected character '['; allowed: numbers, names, + - * / ( ) , < <= > >= == !="),
    ("acc.real", "3+1: unexpected character '.'; allowed: numbers, names, + - * / ( ) , < <= > >= == !="),
    ("π", "0+1: unexpected character 'π'; allowed: numbers, names, + - * / ( ) , < <= > >= == !="),
    ("1.2.3", "0+5: '1.2.3' is no number; write digits such as 2, 0.5 or 1e-5"),
    ("0x10", "0+4: '0x10' is no number; write digits such as 2, 0.5 or 1e-5"),
    ("1_000", "0+5: '1_000' is no number; write digits such as 2, 0.5 or 1e-5"),
    ("2acc", "0+4: '2acc' is no number; write digits such as 2, 0.5 or 1e-5"),
    ("1e+", "0+3: '1e+' is no number; write digits such as 2, 0.5 or 1e-5"),
    ("acc * 1e39", "6+4: 1e39 is beyond f32; largest: 3.4028235e38"),
    ("1e999", "0+5: 1e999 is beyond f32; largest: 3.4028235e38"),
    ("1e-60", "0+5: 1e-60 rounds to 0 in f32; smallest: 1e-45"),
    ("1" * 41, "0+41: number of 41 characters; allowed: 40"),
    ("a" * 4097, "4096+1: expression of 4097 characters; allowed: 4096"),
    ("(" * 300, "100+1: nested deeper than 100 levels; allowed: 100 levels; split the expression"),
    ("-" * 300 + "1", "100+1: nested deeper than 100 levels; allowed: 100 levels; split the expression"),
    ("relu(" * 300, "500+4: nested deeper than 100 levels; allowed: 100 levels; split the expression"),
    ("+".join("a" * 101), "0+201: 101 levels of operators; allowed: 100 levels; split the expression"),
]
TYPES = [
    ("biass", "0+5: unknown name 'biass'; did you mean 'bias'?"),
    ("zz", "0+2: unknown name 'zz'; allowed: acc, bias, alpha, i"),
    ("gelu_tan(acc)", "0+8: unknown function 'gelu_tan'; did you mean 'gelu_tanh'?"),
    ("f8_e4m3fn(acc)", "0+9: no cast 'f8_e4m3fn'; casts: f32, f16, bf16, i32, i8"),
    ("alpha(acc)", "0+5: 'alpha' is a variable, not a function; write * to multiply"),
    ("relu + 1", "0+4: 'relu' is a function; write relu(x)"),
    ("where", "0+5: 'where' is a function; write where(condition, x, y)"),
    ("bf16 + 1", "0+4: 'bf16' is a cast; write bf16(x)"),
    ("relu(acc, 1)", "0+12: relu takes 1 argument, not 2; write relu(x)"),
    ("clamp(acc)", "0+10: clamp takes 3 arguments, not 1; write clamp(x, lo, hi)"),
    ("bf16()", "0+6: bf16 takes 1 argument, not 0; write bf16(x)"),
    ("acc > 0", "0+7: the expression is a condition, not a number; write where(condition, x, y)"),
    ("acc + (acc > 0)", "7+7: an operand of `+` is a condition, not a number; write where(condition, x, y)"),
    ("-(acc > 0)", "2+7: the operand of `-` is a condition, not a number; write where(condition, x, y)"),
    ("relu(acc > 0)", "5+7: x of relu is a condition, not a number; write where(condition, x, y)"),
    ("where(acc, 1, 2)", "6+3: condition of where is a number, not a condition; write a comparison, such as x > 0"),
    ("where(not i,0,1)", "10+1: the operand of `not` is a number, not a condition; write a comparison, such as x > 0"),
    ("(acc > 0) == (acc < 1)", "1+7: an operand of `==` is a condition, not a number; write where(condition, x, y)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), SYNTAX + TYPES, ids=lambda text: text[:24])
def test_error(text: str, expected: str) -> None:
    error = errors(text)[0]
    assert f"{error.offset}+{error.length}: {error.message}; {error.fix}" == expected


def test_every_type_error_is_reported_once_in_text_order() -> None:
    found = errors("foo + relu(1, 2) * (acc > bar) + where(acc, baz(1), 2)")
    assert [error.offset for error in found] == [0, 6, 20, 26, 39, 44]


def test_a_wrong_operand_is_not_reported_again_by_its_operator() -> None:
    assert len(errors("where(nothing, 1, 2)")) == 1


def test_condition_is_asked_for() -> None:
    expression = parsed("i >= 4 and not acc < 0")
    typed = check(expression, ENV, condition=True)
    assert isinstance(typed, Typed) and typed.dtype == "bool"
    assert errors("acc", condition=True)[0].message == "the expression is a number, not a condition"


@pytest.mark.parametrize(
    ("text", "dtype", "axes", "names", "functions"),
    [
        ("gelu_tanh(alpha * acc + bias)", "f32", "mn", ("alpha", "acc", "bias"), ("gelu_tanh",)),
        ("bias", "bf16", "n", ("bias",), ()),
        ("-bias", "f32", "n", ("bias",), ()),
        ("bias * i", "f32", "mn", ("bias", "i"), ()),
        ("i8(max(acc, exp(acc)))", "i8", "mn", ("acc",), ("i8", "max", "exp")),
        ("2", "f32", "", (), ()),
    ],
)
def test_types(text: str, dtype: str, axes: str, names: tuple[str, ...], functions: tuple[str, ...]) -> None:
    typed = check(parsed(text), ENV)
    assert isinstance(typed, Typed)
    assert (typed.dtype, typed.axes, typed.names, typed.functions) == (dtype, axes, names, functions)


def test_axes_follow_the_given_order() -> None:
    env = {"x": Value("f32", "cr"), "y": Value("f32", "z")}
    typed = check(parsed("x + y"), env, order="rc")
    assert isinstance(typed, Typed) and typed.axes == "rcz"


def test_typed_expressions_are_values() -> None:
    first, second = (check(parsed("acc + 1"), ENV) for _ in range(2))
    assert first == second and hash(first) == hash(second)


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e-45, 3.4028235e38, 16777216.0, 2.0**-126, 0.70710678, 1e10])
def test_shortest_literal_reads_back(value: float) -> None:
    exact = f32(value)
    assert exact is not None
    text = shortest(exact)
    assert f32(float(text)) == exact
    assert any(mark in text for mark in ".e")


def test_no_heavy_import() -> None:
    import subprocess

    code = "import sys, kgen.expr; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_limits_hold_on_long_chains() -> None:
    """The deepest accepted tree is typed without a recursion error."""
    typed = check(parsed("+".join(["acc"] * 100)), ENV)
    assert isinstance(typed, Typed)
    offsets = [error.offset for error in errors("-".join(["zz"] * 90))]
    assert all(a < b for a, b in pairwise(offsets)) and len(offsets) == 90
