"""Runs the scenarios next to this file. One is a text file, a line for each thing that happens or is asked:

    # a comment                              zone, owners: at the top, the zone that times without an offset mean
    zone Europe/Berlin
    ladder 60:1,3600:31,month                at the top: another one than the default
    now 2026-03-29T04:00                     moves the clock, forwards or backwards
    hit a 2026-03-29T01:59 5 bot owner=2     a hit: key, time, count (1), whether by a bot, which owner counted it (1)
    opening a 100                            an imported total without dates
    flush | begin | complete                 a whole flush of every owner; or its two ends, of owner 1
    fold                                     every owner folds every row it has
    erase a
    total a from=...&to=... -> 5             or `-> 3..5 inexact`; key * is all links together
    summary a tz=... -> today=5 yesterday=0  the members that are written here
    curve a last=2d&step=1d -> total=5 points=2
      2026-03-28 2026-03-29 0 complete       then its points: start, end, count, state, and
                                             `wide` where the point is wider than its step; all of them,
      ... 3                                  but for runs of `n` points that hold nothing
    top limit=2 -> a=5 b=3
    curve a step=1x -> refused step          asking this is refused, because of this parameter

Every question is asked in the parameters of the public interface, and times in them stand as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.buckets.ladder import Ladder
from query.parameters import moment
from query.zones import Zone, zone
from tests.query.queried_nodes import QueriedNodes

FILES = sorted(Path(__file__).parent.glob("*.txt"))


class Scenario:
    """One file as it runs. Errors say the line."""

    def __init__(self, text: str) -> None:
        self.nodes = QueriedNodes()
        self.zone: Zone = zone("UTC")
        self._lines = list(enumerate(text.splitlines(), start=1))

    def run(self) -> None:
        while self._lines:
            number, line = self._lines.pop(0)
            words = line.split("#")[0].split()
            if not words:
                continue
            try:
                getattr(self, f"do_{words[0]}")(*words[1:])
            except AssertionError as error:
                raise AssertionError(f"line {number}: {line}\n{error}") from None

    def t(self, text: str) -> int:
        return moment("time", text, self.zone)

    # --- what happens ---------------------------------------------------------------------------------------------
    def do_zone(self, name: str) -> None:
        self.zone = zone(name)

    def do_owners(self, count: str) -> None:
        self.nodes = QueriedNodes(owners=int(count))

    def do_ladder(self, text: str) -> None:
        self.nodes = QueriedNodes(ladder=Ladder.parse(text))

    def do_now(self, text: str) -> None:
        self.nodes.now = self.t(text)

    def do_hit(self, key: str, text: str, *rest: str) -> None:
        counts = [int(word) for word in rest if word.isdigit()]
        owners = [int(word.removeprefix("owner=")) for word in rest if word.startswith("owner=")]
        self.nodes.hit(key, self.t(text), counts[0] if counts else 1, "bot" in rest, owners[0] if owners else 1)

    def do_opening(self, key: str, count: str) -> None:
        self.nodes.owners[0].opening(key, int(count))

    def do_flush(self) -> None:
        self.nodes.flush()

    def do_begin(self) -> None:
        self.nodes.owners[0].begin(self.nodes.now)

    def do_complete(self) -> None:
        self.nodes.owners[0].complete()

    def do_fold(self) -> None:
        self.nodes.fold()

    def do_erase(self, key: str) -> None:
        self.nodes.erase(key)

    # --- what is asked --------------------------------------------------------------------------------------------
    def do_total(self, key: str, *words: str) -> None:
        query, expected = split(words)
        answer = self._asked(expected, lambda: self.nodes.total(None if key == "*" else key, query))
        if answer is None:
            return
        if "inexact" in expected:
            assert answer["total"] is None and not answer["exact"], answer
            assert f"{answer['at_least']}..{answer['at_most']}" == expected[0], answer
        else:
            assert (answer["total"], answer["at_least"], answer["at_most"]) == (int(expected[0]),) * 3, answer

    def do_summary(self, key: str, *words: str) -> None:
        query, expected = split(words)
        answer = self._asked(expected, lambda: self.nodes.summary(key, query))
        self._check_members(answer, expected)

    def do_curve(self, key: str, *words: str) -> None:
        query, expected = split(words)
        answer = self._asked(expected, lambda: self.nodes.curve(None if key == "*" else key, query))
        if answer is None:
            return
        points = answer["points"]
        assert answer["total"] == sum(point["count"] for point in points)
        self._check_members({**answer, "points": len(points)}, expected)
        written = list(self._points(points))
        if written:
            assert len(written) == len(points), f"{len(points)} points: {points}"

    def do_top(self, *words: str) -> None:
        query, expected = split(words)
        answer = self._asked(expected, lambda: self.nodes.top(query))
        if answer is not None:
            assert [f"{link['key']}={link['count']}" for link in answer["links"]] == expected

    # --- comparing ------------------------------------------------------------------------------------------------
    def _asked(self, expected: list[str], ask: Any) -> Any:
        if expected[:1] != ["refused"]:
            return ask()
        with pytest.raises(ParameterInvalid) as refused:
            ask()
        assert refused.value.field == expected[1], refused.value.detail
        return None

    def _check_members(self, answer: dict[str, Any] | None, expected: list[str]) -> None:
        for word in expected if answer is not None else []:
            name, _, value = word.partition("=")
            found = json.dumps(answer[name]).strip('"') if answer else ""
            if name in ("from", "to", "first_hit", "last_hit") and value != "null":
                value = str(self.t(value))
            assert found == value, f"{name} is {found}, not {value}: {answer}"

    def _points(self, points: list[dict[str, Any]]) -> Iterator[None]:
        """Compare the points written on the lines that follow; yields once for each."""
        at = 0
        while self._lines and self._lines[0][1].startswith(" "):
            number, line = self._lines.pop(0)
            words = line.split("#")[0].split()
            if words[:1] == ["..."]:
                skipped = points[at : at + int(words[1])]
                assert not any(point["count"] for point in skipped), f"line {number}: not empty: {skipped}"
                at += len(skipped)
                yield from [None] * len(skipped)
            elif words:
                start, end, count, state, *wide = words
                assert at < len(points), f"line {number}: there are {len(points)} points only"
                expected = {"start": self.t(start), "end": self.t(end), "count": int(count), "state": state}
                expected |= {"wide": True} if wide == ["wide"] else {}
                assert points[at] == expected, f"line {number}: {line}: {points[at]}"
                at += 1
                yield


def split(words: tuple[str, ...]) -> tuple[str, list[str]]:
    """The query, and what is written after the arrow."""
    arrow = words.index("->")
    return "&".join(words[:arrow]), list(words[arrow + 1 :])


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_scenario(file: Path) -> None:
    Scenario(file.read_text()).run()


def test_a_scenario_that_expects_something_else_fails() -> None:
    text = "now 2026-03-01\nhit a 2026-02-28\ntotal a -> 2\n"
    with pytest.raises(AssertionError, match="line 3"):
        Scenario(text).run()


def test_the_scenarios_are_there() -> None:
    assert len(FILES) >= 10
