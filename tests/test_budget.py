from __future__ import annotations

from testing.server import ROOT
from tests.budget import BUDGETS_S, DEFAULT_BUDGET_S, over_budget, suite_of


def test_a_suite_is_the_folder_or_the_file_directly_under_tests() -> None:
    assert suite_of("tests/storage/test_contract.py::test_a[memory]") == "storage"
    assert suite_of("tests/test_readme.py::test_b") == "test_readme"
    assert suite_of("tests/crash/deep/test_c.py::test_c") == "crash"


def test_only_a_suite_over_its_budget_is_named_with_both_numbers() -> None:
    spent_s = {"slow": 11.0, "quick": 1.0}
    assert over_budget(spent_s, {"slow": 10.0}) == ["suite slow took 11 s, its budget is 10 s"]


def test_a_suite_without_a_budget_of_its_own_has_the_default() -> None:
    assert over_budget({"new": DEFAULT_BUDGET_S}) == []
    assert len(over_budget({"new": DEFAULT_BUDGET_S + 1})) == 1


def test_every_budget_is_that_of_a_suite() -> None:
    assert [suite for suite in BUDGETS_S if not (ROOT / "tests" / suite).is_dir()] == []
