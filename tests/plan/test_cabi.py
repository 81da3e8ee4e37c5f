"""The C interface of a signature: members, and the clauses that launchers check."""

from __future__ import annotations

from kgen.plan.cabi import Abi, CheckClause
from tests.plan.builders import kernel, planned


def abi(fields: str = "", dtype: str = "bf16", a: str = "mk", b: str = "nk") -> Abi:
    return planned(kernel(f"tile: {{m: 64, n: 64, k: 32}}, warps: {{m: 2, n: 2}}, stages: 2{fields}", dtype, a, b)).abi


def names(clauses: tuple[CheckClause, ...]) -> list[str]:
    return [clause.name for clause in clauses]


def test_sizes_are_checked_before_anything_is_read() -> None:
    assert names(abi().size_clauses) == ["m >= 0", "n >= 0", "k >= 0", "ceil(m / 64) * ceil(n / 64) <= 2147483647"]


def test_clauses_of_tensors_by_the_promised_alignment() -> None:
    assert names(abi().tensor_clauses) == [
        "a != NULL", "a % 16 bytes == 0", "a_stride[0] >= k", "a_stride[0] % 8 == 0",
        "b != NULL", "b % 16 bytes == 0", "b_stride[0] >= k", "b_stride[0] % 8 == 0",
        "c != NULL", "c % 16 bytes == 0", "c_stride[0] >= n", "c_stride[0] % 4 == 0",
    ]  # fmt: skip
    assert names(abi(", align: 2").tensor_clauses) == [
        "a != NULL", "a % 2 bytes == 0", "a_stride[0] >= k",
        "b != NULL", "b % 2 bytes == 0", "b_stride[0] >= k",
        "c != NULL", "c % 4 bytes == 0", "c_stride[0] >= n",
    ]  # fmt: skip


def test_strides_are_bounded_by_the_fastest_dim() -> None:
    clauses = names(abi(a="km", b="kn").tensor_clauses)
    assert {"a_stride[0] >= m", "b_stride[0] >= n"} <= set(clauses)


def test_a_batch_may_share_an_operand() -> None:
    shared = abi(a="bmk", b="bnk")
    assert "batch >= 0" in names(shared.size_clauses)
    assert names(shared.size_clauses)[-1] == "ceil(m / 64) * ceil(n / 64) * batch <= 2147483647"
    by_name = {clause.name: clause.broken for clause in shared.tensor_clauses}
    assert by_name["a_stride[0] >= 0"] == "args->a_stride[0] < 0", "a stride of 0 repeats one matrix"
    assert shared.declared.members[0].declaration == "int64_t m, n, k, batch"


def test_a_clause_is_broken_where_it_says() -> None:
    by_name = {clause.name: clause.broken for clause in abi().tensor_clauses}
    assert by_name["a != NULL"] == "args->k > 0 && args->a == nullptr", "with no k nothing is read"
    assert by_name["c != NULL"] == "args->c == nullptr"
    assert by_name["a % 16 bytes == 0"] == "reinterpret_cast<uintptr_t>(args->a) % 16 != 0"
    assert by_name["a_stride[0] >= k"] == "args->m > 1 && args->a_stride[0] < args->k", "one row needs no stride"


def test_long_clauses_stand_on_two_lines() -> None:
    clause = CheckClause("x" * 90, "y" * 40)
    assert max(map(len, clause.statement.splitlines())) <= 120
    assert clause.statement.count("\n") == 1


def test_members_in_the_order_of_the_struct() -> None:
    assert [member.declaration for member in abi().declared.members] == [
        "int64_t m, n, k", "const void *a", "const void *b", "void *c",
        "int64_t a_stride[1]", "int64_t b_stride[1]", "int64_t c_stride[1]",
    ]  # fmt: skip
