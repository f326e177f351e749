"""What is measured of peers: rates in turn, then each one's store, its answers, and what a kill leaves of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter, sleep, time
from typing import Any

from bench.measure import in_turn
from bench.peers.hits import Feed, Question, compared_keys, questions, week
from bench.peers.over_http import HttpPeer
from bench.peers.peer import Peer
from bench.servers import any_core, rss_mb, second_core
from bench.workload import Workload

Figures = dict[str, Any]
BATCHES = ((1_000, 20), (100_000, 4))  # hits of a body, different bodies
KILLS = 3
SEEN_WITHIN_S = 30.0
SLOW_MS = 3_000  # a list of the top that takes so long is asked for once


@contextmanager
def running(peer: Peer) -> Iterator[Peer]:
    """Runs the peer; yields it."""
    try:
        peer.start()
        yield peer
    finally:
        peer.stop()


def rates(folder: Path, kinds: Sequence[type[Peer]], workload: Workload, rounds: int, seconds: float) -> Figures:
    """Returns hits a second of each peer by its name, from empty folders; in each round all have their turn alone."""
    now = int(time()) // 60 * 60
    keys = workload.draw(20_000, seed=1)
    bodies = {size: [workload.draw(size, seed=10 + n) for n in range(files)] for size, files in BATCHES}

    def turn(peer: Peer) -> tuple[float, dict[int, float]]:
        peer.pause(stopped=False)
        try:
            return peer.singles(keys, seconds), {
                size: peer.batches(some, now, seconds) for size, some in bodies.items()
            }
        finally:
            peer.pause(stopped=True)

    with ExitStack() as stack:
        stack.enter_context(any_core())
        peers = []
        for number, kind in enumerate(kinds):
            with second_core():
                peers.append(stack.enter_context(running(kind(folder / f"rates-{number}"))))
        for peer in peers:
            peer.pause(stopped=True)
            stack.callback(peer.pause, stopped=False)
        runs = in_turn(rounds, *(lambda peer=peer: turn(peer) for peer in peers))
    return {
        kind.name: {
            "singles": [single for single, _ in of],
            "counted": [],
            "batches": {str(size): [batches[size] for _, batches in of] for size in bodies},
        }
        for kind, of in zip(kinds, runs, strict=True)
    }


def singles_counted(folder: Path, kind: type[Peer], workload: Workload) -> tuple[int, int] | None:
    """Returns how many of the single hits that a peer answered it counts, and their number; None: it cannot say.

    It is asked until all are there, for SEEN_WITHIN_S at most: some show new links late, which is no loss.
    """
    with running(kind(folder)) as peer:
        if not isinstance(peer, HttpPeer):
            return None
        peer.singles(workload.draw(20_000, seed=1), 1)
        until = perf_counter() + SEEN_WITHIN_S
        while (counted := peer.counted() or 0) < peer.sent and perf_counter() < until:
            sleep(0.2)
        return counted, peer.sent


def store(folder: Path, kind: type[Peer], feed: Feed, rounds: int, seconds: float) -> Figures:
    """Measures one peer with the whole workload: load, bytes, answers, latencies, memory, and what becomes of hits."""
    asked = questions(feed.workload)
    with running(kind(folder)) as peer:
        figures: Figures = {}
        if peer.keeps:
            figures["load_s"] = peer.load(feed)
            begun = perf_counter()
            peer.settle()
            figures["settle_s"] = perf_counter() - begun
            figures["links"] = min(peer.most_links or feed.workload.links, feed.workload.links)
            figures["bytes"] = peer.size()
            figures["answers"] = answers(peer, feed, asked)
            figures |= _reads(peer, feed.workload, asked, rounds, seconds)
        figures["rss_mb"] = rss_mb(peer.pids)
        figures["late"] = late(peer, feed, asked[0])
        figures["twice"] = twice(peer, feed.workload, asked[0])
        figures["killed"] = sum(survives(peer, feed.workload, asked[0], number) for number in range(KILLS))
        return figures


def answers(peer: Peer, feed: Feed, asked: Sequence[Question]) -> Figures:
    """Returns wrong answers of each question: how many of how many, by how many hits at most; None: not kept."""
    found: Figures = {}
    keys = _loaded(peer, feed.workload, compared_keys(feed.workload))
    for question in asked:
        got = [peer.ask(question, key) for key in keys]
        right = [question.counts(feed.truth.hits[key]) for key in keys]
        off = [
            sum(abs(mine - true) for mine, true in zip(answer or [], counts, strict=False))
            for answer, counts in zip(got, right, strict=True)
        ]
        found[question.name] = None if None in got else _wrong(off, len(keys))
    tops = (("top, life", (asked[0].start, asked[0].end), False), ("top, 7 d", week(feed.workload), True))
    for name, (since, until), of_week in tops:
        listed, best = peer.top(since, until), feed.truth.top(of_week)
        off = [abs(mine[1] - true[1]) for mine, true in zip(listed, best, strict=False)]
        found[name] = _wrong(off, len(best))
    return found


def _wrong(off: Sequence[int], asked: int) -> Figures:
    """Returns the figures of answers that were off by so much; those that are missing are wrong too."""
    return {"asked": asked, "wrong": sum(map(bool, off)) + asked - len(off), "by": max(off, default=0)}


def _loaded(peer: Peer, workload: Workload, keys: Sequence[str]) -> list[str]:
    """Returns those of the keys that the peer was loaded with."""
    if peer.most_links is None or peer.most_links >= workload.links:
        return list(keys)
    loaded = {workload.key(rank) for rank in range(peer.most_links)}
    return [key for key in keys if key in loaded]


def _reads(peer: Peer, workload: Workload, asked: Sequence[Question], rounds: int, seconds: float) -> Figures:
    keys = _loaded(peer, workload, workload.draw(5_000, seed=2))
    reads: Figures = {}
    for question in asked:
        if peer.ask(question, keys[0]) is not None:
            runs = [peer.latency(question, keys, seconds) for _ in range(rounds)]
            reads[question.name] = {"p50": [run.p50_ms for run in runs], "p99": [run.p99_ms for run in runs]}
    tops: Figures = {}
    for name, (since, until) in (("life", (asked[0].start, asked[0].end)), ("7 d", week(workload))):
        tops[name] = []
        while len(tops[name]) < rounds and max(tops[name], default=0) < SLOW_MS:
            begun = perf_counter()
            peer.top(since, until)
            tops[name].append((perf_counter() - begun) * 1_000)
    return {"latencies": reads, "tops": tops}


def _counted(peer: Peer, total: Question, key: str) -> int:
    peer.counted()  # with some peers the only way to see at once what was answered
    answer = peer.ask(total, key)
    return answer[0] if answer else 0


def late(peer: Peer, feed: Feed, total: Question) -> int | None:
    """Returns by how much the total of a popular link grows with a hit of three days ago, where it has some."""
    if not peer.keeps:
        return None
    key = feed.workload.key(0)
    at = max(ts for ts, _ in feed.truth.hits[key] if ts <= feed.workload.end - 3 * 86_400)
    before = _counted(peer, total, key)
    peer.add(key, at)
    return _counted(peer, total, key) - before


def twice(peer: Peer, workload: Workload, total: Question) -> int:
    """Returns how many of two hits of one link and moment are counted."""
    for _ in range(2):
        peer.add(_new(workload, 8), workload.end - 120)
    return _counted(peer, total, _new(workload, 8))


def survives(peer: Peer, workload: Workload, total: Question, number: int) -> bool:
    """Says whether a hit is there after a kill that follows its answer at once."""
    peer.add(_new(workload, number), workload.end - 120)
    peer.kill()
    peer.start()
    return _counted(peer, total, _new(workload, number)) == 1


def _new(workload: Workload, number: int) -> str:
    """Returns a link that the workload does not have."""
    return f"k{workload.links * 10 + number}"
