"""CSV that a spreadsheet opens: what a stranger wrote runs as no formula, and Excel reads its letters."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.answers.counts import KeyCount, LinksAnswer
from clickcurve.answers.written import PLAIN_CSV, CsvForm, as_csv, without_formula
from clickcurve.csv_file import csv_form_of

FORMULAS = [
    "=cmd|' /C calc'!A0",
    '=HYPERLINK("http://a.example","x")',
    "+1+1",
    "-2+3",
    "@SUM(1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "\uff1d1",
]


def cells(key: str, form: CsvForm = PLAIN_CSV) -> list[list[str]]:
    answer = LinksAnswer(None, None, [KeyCount(key, 7)], True)
    return list(csv.reader(io.StringIO(as_csv(answer, form).decode(), newline="")))


@pytest.mark.parametrize("text", FORMULAS)
def test_a_text_that_begins_as_a_formula_has_a_sign_in_front(text: str) -> None:
    assert cells(text) == [["key", "count"], ["'" + text, "7"]]
    assert cells(text, CsvForm(raw=True)) == [["key", "count"], [text, "7"]]


@given(st.text(max_size=30))
def test_no_cell_begins_as_a_formula_and_raw_ones_are_the_texts(text: str) -> None:
    (_, (safe, _)), (_, (raw, _)) = cells(text), cells(text, CsvForm(raw=True))
    assert raw == text and safe in (text, "'" + text)
    assert not safe.startswith(tuple("=+-@\t\r\n"))


def test_numbers_below_zero_stay_numbers() -> None:
    assert without_formula("-5") == "'-5"
    assert b",-5\n" in as_csv(LinksAnswer(None, None, [KeyCount("a", -5)], True))


def test_a_byte_order_mark_stands_before_the_names_where_it_is_asked_for() -> None:
    answer = LinksAnswer(None, None, [KeyCount("münchen", 7)], True)
    assert as_csv(answer, CsvForm(bom=True)) == "\ufeffkey,count\nmünchen,7\n".encode()
    assert not as_csv(answer).startswith(b"\xef")


def test_the_pages_own_table_reads_both_from_its_address() -> None:
    assert csv_form_of(b"last=7d&bom=1") == (CsvForm(bom=True), b"last=7d")
    assert csv_form_of(b"raw=1&last=7d&bom=0") == (CsvForm(raw=True), b"last=7d")
    assert csv_form_of(b"") == (CsvForm(), b"")
