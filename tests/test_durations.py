from __future__ import annotations

from tests.durations import NOTICED_S, SLOWEST, report, suite_of


def test_a_suite_is_the_folder_or_the_file_directly_under_tests() -> None:
    assert suite_of("tests/storage/test_contract.py::test_a[memory]") == "storage"
    assert suite_of("tests/test_readme.py::test_b") == "test_readme"
    assert suite_of("tests/crash/deep/test_c.py::test_c") == "crash"


def test_suites_and_slow_tests_are_named_longest_first() -> None:
    spent_s = {"tests/a/test_x.py::test_1": 0.5, "tests/b/test_y.py::test_2": 2.0, "tests/a/test_x.py::test_3": 3.0}
    assert [line.split() for line in report(spent_s)] == [
        ["3.5", "s", "a"],
        ["2.0", "s", "b"],
        ["3.0", "s", "tests/a/test_x.py::test_3"],
        ["2.0", "s", "tests/b/test_y.py::test_2"],
    ]


def test_a_few_tests_are_named() -> None:
    assert len(report({f"tests/a/test_x.py::test_{n}": NOTICED_S for n in range(SLOWEST + 5)})) == 1 + SLOWEST
