"""The shipped templates decide nothing, and each rule that says so has a template that breaks it."""

from __future__ import annotations

import pytest

from kgen.ops import OPS
from kgen.plan import CudaPlan
from kgen.render.environment import environment, template_root
from kgen.render.lint import Finding, lint, lint_all
from tests.render.outputs import plans

HEAD = "<# k: CudaPlan #>\n"


def found(text: str, target: str = "cuda") -> list[str]:
    return [finding.message for finding in lint(text, f"{target}/tile/x.jinja", environment(target))]


def test_shipped_templates_have_no_findings() -> None:
    assert lint_all() == []


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "${ k.function }",
        HEAD + "<% if k.odd_k_steps %>x<% endif %>",
        HEAD + "<% if not k.odd_k_steps %>x<% endif %>",
        HEAD + "<% for step in k.prologue %>${ emit(step.macro, step) | indent(2) } ${ step.text }<% endfor %>",
        HEAD + "<% for c in k.constants %><% if k.odd_k_steps %>${ c.name }<% endif %><% endfor %>",
        "<% macro load(step) %><# step: CopyStep #>\n${ step.operand }\n<%- endmacro %>",
    ],
)
def test_what_templates_may_do(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${ k.vector + 1 }", "Add is a decision"),
        ("${ k.vector * 2 }", "Mul is a decision"),
        ("${ -k.vector }", "Neg is a decision"),
        ("${ k.function ~ 'x' }", "Concat is a decision"),
        ("${ k.function if k.odd_k_steps else k.skeleton }", "CondExpr is a decision"),
        ("<% set x = k.function %>", "Assign is a decision"),
        ("${ k.operands[0] }", "Getitem is a decision"),
        ("<% if k.vector == 8 %>x<% endif %>", "Compare is a decision"),
        ("${ k.function | upper }", "filter upper; allowed: indent, join"),
        ("${ emit('bf16', k) }", "literal bf16 in an expression"),
        ("${ emit('sm_80', k) }", "literal sm_80 in an expression"),
        ("code for sm_80 only", "arch sm_80 in the text"),
        ("code for tpu-v5e only", "arch tpu-v5e in the text"),
        ("<% if k.function %>x<% endif %>", "if tests something that is no boolean"),
        ("<% if k.odd_k_steps and k.odd_k_steps %>x<% endif %>", "if tests something that is no boolean"),
        ("${ k.nothing }", "k.nothing is not in a view"),
        ("${ k.header.nothing }", "k.header.nothing is not in a view"),
        ("${ x }", "x is not in a view"),
        ("<% for step in k.copies %>${ step.nothing }<% endfor %>", "step.nothing is not in a view"),
        ("<% for c in k.constants %><% if k.odd_k_steps %><% for d in k.maps %>x<% endfor %><% endif %><% endfor %>",
         "blocks nest more than 2 deep"),
    ],
)  # fmt: skip
def test_each_rule_has_a_template_that_breaks_it(text: str, message: str) -> None:
    assert any(message in words for words in found(HEAD + text))


def test_what_is_not_declared_is_not_known() -> None:
    assert found("${ k.function }") == ["k.function is not in a view that the template declares"]
    assert found("<% macro load(step) %>\n${ step.operand }\n<%- endmacro %>") != []
    assert found("<% macro load(step) %><# step: PallasPlan #>\n${ step.operand }\n<%- endmacro %>") != []


def test_a_finding_names_file_and_line() -> None:
    (finding,) = lint(HEAD + "\n\n${ k.nothing }", "cuda/tile/x.jinja", environment("cuda"))
    assert finding == Finding("cuda/tile/x.jinja", 4, finding.message)
    assert str(finding).startswith("cuda/tile/x.jinja:4: ")


def test_every_macro_that_a_plan_names_exists() -> None:
    for plan in plans():
        named = {*plan.operators, *(step.macro for step in plan.steps)}
        if isinstance(plan, CudaPlan):
            named |= {name for o in plan.operands for name in (o.copy_macro, o.fragment_macro)}
        for name in named:
            family, macro = name.split(".")
            module = environment(plan.target).get_template(f"tile/{family}.jinja").module
            assert hasattr(module, macro), name


def test_skeletons_are_short_and_name_no_op() -> None:
    for path in sorted(template_root().rglob("skeleton/*.jinja")):
        lines = path.read_text().splitlines()
        assert len(lines) <= 150, path
        assert not any(op in " ".join(lines).split() for op in OPS), path
