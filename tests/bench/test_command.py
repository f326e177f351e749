"""Every bench starts without a word after it: then it measures all of its parts."""

from __future__ import annotations

import argparse

import pytest

from bench.command import add_parts


def parts_of(*words: str) -> list[str]:
    asked = argparse.ArgumentParser()
    add_parts(asked, {"one": 1, "two": 2})
    found: list[str] = asked.parse_args(words).parts
    return found


def test_parts_are_named_or_left_out() -> None:
    assert parts_of() == []
    assert parts_of("two", "one") == ["two", "one"]


def test_what_is_no_part_is_refused_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parts_of("three")
    assert "'three' is none of one, two" in capsys.readouterr().err
