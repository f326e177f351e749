"""The bench of peers without the peers: its workload, its judgement of answers, and the page that it makes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from time import time
from typing import Any

import pytest

from bench.command import Options
from bench.peers import measure
from bench.peers.hits import Feed, Question, prepare, questions
from bench.peers.over_http import OwnPeer
from bench.peers.peer import Peer, SqliteRows
from bench.peers.report import plots, render
from bench.workload import Workload
from testing.server import ROOT

END = int(time()) // 3_600 * 3_600  # Clickcurve keeps minutes of today
FIGURES = ROOT / "bench" / "peers" / "figures.json"
AGAIN = "python -m bench render.performance --sheet bench/peers/figures.json"


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory) -> Feed:
    return prepare(tmp_path_factory.mktemp("hits") / "feed", Workload(40, 3_000, 400, END))


def test_files_hold_the_same_hits(feed: Feed) -> None:
    raw = feed.raw.read_text().splitlines()
    bodies = [json.loads(line) for body in feed.bodies for line in body.read_text().splitlines()]
    assert [f"{hit['key']},{hit['ts']}" for hit in bodies] == raw
    summed = {(key, ts): count for key, hits in feed.by_link() for ts, count in hits}
    assert sum(summed.values()) == len(raw) == 3_000
    assert all(raw.count(f"{key},{ts}") == count for (key, ts), count in list(summed.items())[:50])


def test_every_question_finds_hits_and_a_total_finds_all(feed: Feed) -> None:
    top = feed.truth.top(of_week=False)[0]
    asked = questions(feed.workload)
    assert asked[0].counts(feed.truth.hits[top[0]]) == [top[1]]
    for question in asked[1:]:
        assert len(question.counts([])) == question.points
        assert sum(sum(question.counts(hits)) for hits in feed.truth.hits.values()), question.name


@pytest.mark.parametrize("kind", [OwnPeer, SqliteRows])
@pytest.mark.slow
def test_a_store_that_counts_right_is_found_right(kind: type[Peer], feed: Feed, tmp_path: Path) -> None:
    asked = questions(feed.workload)
    with measure.running(kind(tmp_path / "peer")) as peer:
        peer.load(feed)
        peer.settle()
        found = measure.answers(peer, feed, asked)
        assert not any(each["wrong"] for each in found.values())
        assert measure.late(peer, feed, asked[0]) == 1
        assert measure.twice(peer, feed.workload, asked[0]) == 2
        assert measure.survives(peer, feed.workload, asked[0], 0)


class Overwriting(SqliteRows):
    """Keeps one hit a link and moment, and forgets what was not asked for before a kill."""

    def add(self, key: str, ts: int) -> None:
        if not sum(self.ask(Question("", ts, ts + 1, 1), key) or []):
            super().add(key, ts)

    def ask(self, question: Question, key: str) -> list[int] | None:
        found = super().ask(question, key)
        return [count + 3 for count in found or []] if question.name == "total" else found


def test_wrong_answers_are_reported_with_their_number_and_size(feed: Feed, tmp_path: Path) -> None:
    asked = questions(feed.workload)
    with measure.running(Overwriting(tmp_path / "peer")) as peer:
        peer.load(feed)
        found = measure.answers(peer, feed, asked)
        assert found["total"] == {"asked": len(feed.truth.hits), "wrong": len(feed.truth.hits), "by": 3}
        assert found["curve 30 d"]["wrong"] == 0
        assert measure.late(peer, feed, asked[0]) == 0


def test_rates_are_of_all_rounds_in_turn(feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Overwriting, "name", "another")
    found = measure.rates_in_turn(tmp_path, [SqliteRows, Overwriting], feed.workload, rounds=2, seconds=0.01)
    for kind in (SqliteRows, Overwriting):
        assert all(rate > 0 for rate in found[kind.name]["singles"])
        assert [len(found[kind.name]["singles"]), *map(len, found[kind.name]["batches"].values())] == [2, 2, 2]


def test_the_page_and_its_plots_are_made_of_the_figures(tmp_path: Path) -> None:
    for made in render(Options(tmp_path, sheet=json.loads(FIGURES.read_text()), docs=tmp_path)):
        kept = ROOT / "docs" / made.what
        assert (tmp_path / made.what).read_bytes() == kept.read_bytes(), f"{kept.name}: {AGAIN}"


def test_the_greater_figure_has_the_longer_bar() -> None:
    figures: dict[str, Any] = json.loads(FIGURES.read_text())
    peers: dict[str, Any] = figures["peers"]
    sizes = [peer["bytes"] / peer["links"] for peer in peers.values() if "bytes" in peer]
    drawn = plots(figures)["size"].decode()
    bars = [float(width) for width in re.findall(r'class="(?:bar|partial)"[^>]* width="([\d.]+)"', drawn)]
    assert sorted(range(len(sizes)), key=sizes.__getitem__) == sorted(range(len(bars)), key=bars.__getitem__)
