"""What strangers write is shown, never obeyed: by a terminal, by a log, by an eye."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.visible import json_line, visible

ANYTHING = st.text(st.characters(codec=None))  # halves of surrogate pairs, too
JOINERS = {"\u200c", "\u200d"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("launch", "launch"),
        ("a/b ü 日本 👩\u200d🚀 क\u200dष", "a/b ü 日本 👩\u200d🚀 क\u200dष"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x00\x7f\x9b31m", r"\x00\x7f\x9b31m"),
        ("\u202egpj.exe\u202c \u2066x\u2069 \u200f\u061c", r"\u202egpj.exe\u202c \u2066x\u2069 \u200f\u061c"),
        ("a\u2028b\u2029c\ufeff", r"a\u2028b\u2029c\ufeff"),
        ("\ud800 \udc9b", r"\ud800 \udc9b"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_what_is_not_printable_is_shown_by_its_number(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(ANYTHING)
def test_nothing_that_is_shown_moves_hides_or_breaks_a_line(text: str) -> None:
    shown = visible(text)
    kinds = {unicodedata.category(sign) for sign in shown if sign not in JOINERS}
    assert not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert len(shown.splitlines()) == (1 if shown else 0)
    assert shown.encode().decode() == shown


@given(ANYTHING)
def test_a_printable_text_is_shown_as_it_is(text: str) -> None:
    plain = "".join(sign for sign in text if sign.isprintable())
    assert visible(plain) == plain


@given(st.dictionaries(st.text(), st.one_of(st.text(), st.integers(), st.none())), st.booleans())
def test_json_reads_back_as_the_same_value_and_is_safe_to_show(value: dict[str, object], ascii_only: bool) -> None:
    line = json_line(value, ascii_only)
    assert json.loads(line) == value
    assert visible(line) == line
    assert line.isascii() or not ascii_only


def test_half_of_a_surrogate_pair_is_json_that_can_be_sent() -> None:
    assert json_line({"key": "a\ud800"}) == '{"key":"a\\ud800"}'
