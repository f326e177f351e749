"""The command line: a word names a part or a group of parts, and none names the usual ones."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from bench.command import Options, Part, run
from bench.measure import Line


def line_of(name: str, _: Options) -> Iterator[Line]:
    yield Line(f"figure of {name}", "1 s")


PARTS: dict[str, Part] = {name: partial(line_of, name) for name in ("one", "two.first", "two.second", "three")}


@pytest.mark.parametrize(
    ("words", "measured"),
    [([], ["one", "two.first", "two.second"]), (["three", "two.second"], ["three", "two.second"])],
)
def test_parts_are_named_or_left_out(words: list[str], measured: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    run(PARTS, words, usual=("one", "two"))
    printed = capsys.readouterr().out
    found = [line.split()[2] for line in printed.splitlines() if line.startswith("figure of ")]
    assert found == measured


def test_what_is_no_part_is_refused_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(PARTS, ["tw"])
    assert "'tw' is none of one, two.first, two.second, three" in capsys.readouterr().err
