"""What is measured of peers: rates in turn, then each one's store, its answers, and what a kill leaves of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from time import perf_counter, sleep, time
from typing import Any

from bench.peers.hits import Feed, Question, compared_keys, questions, week
from bench.peers.over_http import HttpPeer
from bench.peers.peer import Peer, rss_mb
from bench.peers.started import pause
from bench.servers import any_core, cores
from bench.workload import Workload

Figures = dict[str, Any]
BATCHES = ((1_000, 20), (100_000, 4))  # hits of a body, different bodies
KILLS = 3
SEEN_WITHIN_S = 30.0
SLOW_MS = 3_000  # a list of the top that takes so long is asked for once


@contextmanager
def running(peer: Peer, pinned: bool = False) -> Iterator[Peer]:
    """The peer, started; pinned: its processes on the second core."""
    with cores(0, 1) if pinned else nullcontext():
        peer.start()
    try:
        yield peer
    finally:
        peer.stop()


def rates(folder: Path, kinds: Sequence[type[Peer]], workload: Workload, rounds: int, seconds: float) -> Figures:
    """Hits a second of each peer by its name, from empty folders; in each round all have their turn alone."""
    now = int(time()) // 60 * 60
    keys = workload.draw(20_000, seed=1)
    bodies = {size: [workload.draw(size, seed=10 + n) for n in range(files)] for size, files in BATCHES}
    found: Figures = {
        kind.name: {"singles": [], "counted": [], "batches": {str(size): [] for size, _ in BATCHES}} for kind in kinds
    }
    with ExitStack() as stack:
        stack.enter_context(any_core())
        peers = [stack.enter_context(running(kind(folder / f"rates-{n}"), pinned=True)) for n, kind in enumerate(kinds)]
        with _standing_still(peers):
            for _ in range(rounds):
                for peer in peers:
                    with _going(peer):
                        figures = found[peer.name]
                        _note(figures["singles"], peer.singles(keys, seconds))
                        for size, some in bodies.items():
                            _note(figures["batches"][str(size)], peer.batches(some, now, seconds))
    return found


def _note(into: list[float], figure: float | None) -> None:
    if figure is not None:
        into.append(figure)


@contextmanager
def _standing_still(peers: Sequence[Peer]) -> Iterator[None]:
    for peer in peers:
        pause(peer.pids(), stopped=True)
    try:
        yield
    finally:
        for peer in peers:
            pause(peer.pids(), stopped=False)


@contextmanager
def _going(peer: Peer) -> Iterator[None]:
    pause(peer.pids(), stopped=False)
    try:
        yield
    finally:
        pause(peer.pids(), stopped=True)


def singles_counted(folder: Path, kind: type[Peer], workload: Workload) -> tuple[int, int] | None:
    """How many of the single hits that a peer answered it counts, and how many were answered; None: it cannot say.

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
    """One peer with the whole workload: load, bytes, answers, latencies, memory, and what becomes of single hits."""
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
        figures["rss_mb"] = rss_mb(peer.pids())
        figures["late"] = late(peer, feed, asked[0])
        figures["twice"] = twice(peer, feed.workload, asked[0])
        figures["killed"] = sum(survives(peer, feed.workload, asked[0], number) for number in range(KILLS))
        return figures


def answers(peer: Peer, feed: Feed, asked: Sequence[Question]) -> Figures:
    """Wrong answers of each question: how many of how many, and by how many hits at most; `not kept`: it has none."""
    found: Figures = {}
    keys = [key for key in compared_keys(feed.workload) if _loaded(peer, feed.workload, key)]
    for question in asked:
        off = []
        kept = True
        for key in keys:
            answer = peer.ask(question, key)
            kept = kept and answer is not None
            right = question.counts(feed.truth.hits[key])
            off.append(sum(abs(mine - true) for mine, true in zip(answer or [], right, strict=False)))
        wrong = {"asked": len(keys), "wrong": sum(map(bool, off)), "by": max(off)}
        found[question.name] = wrong if kept else None
    tops = (("top, life", (asked[0].start, asked[0].end), False), ("top, 7 d", week(feed.workload), True))
    for name, (since, until), of_week in tops:
        got, best = peer.top(since, until), feed.truth.top(of_week)
        apart = [abs(mine[1] - true[1]) for mine, true in zip(got, best, strict=False)]
        missing = len(best) - len(got)
        found[name] = {"asked": len(best), "wrong": sum(map(bool, apart)) + missing, "by": max([*apart, 0])}
    return found


def _loaded(peer: Peer, workload: Workload, key: str) -> bool:
    if peer.most_links is None or peer.most_links >= workload.links:
        return True
    return key in {workload.key(rank) for rank in range(peer.most_links)}


def _reads(peer: Peer, workload: Workload, asked: Sequence[Question], rounds: int, seconds: float) -> Figures:
    keys = [key for key in workload.draw(5_000, seed=2) if _loaded(peer, workload, key)]
    reads: Figures = {}
    for question in asked:
        if peer.ask(question, keys[0]) is not None:
            runs = [peer.latency(question, keys, seconds) for _ in range(rounds)]
            reads[question.name] = {"p50": [run.p50_ms for run in runs], "p99": [run.p99_ms for run in runs]}
    tops: Figures = {}
    for name, (since, until) in (("life", (asked[0].start, asked[0].end)), ("7 d", week(workload))):
        tops[name] = []
        for _ in range(rounds):
            begun = perf_counter()
            peer.top(since, until)
            tops[name].append((perf_counter() - begun) * 1_000)
            if tops[name][-1] > SLOW_MS:
                break
    return {"latencies": reads, "tops": tops}


def _counted(peer: Peer, total: Question, key: str) -> int:
    peer.counted()  # with some peers the only way to see at once what was answered
    answer = peer.ask(total, key)
    return answer[0] if answer else 0


def late(peer: Peer, feed: Feed, total: Question) -> int | None:
    """By how much the total of a popular link grows with a hit of three days ago, where it has some; right is 1."""
    if not peer.keeps:
        return None
    key = feed.workload.key(0)
    at = max(ts for ts, _ in feed.truth.hits[key] if ts <= feed.workload.end - 3 * 86_400)
    before = _counted(peer, total, key)
    peer.add(key, at)
    return _counted(peer, total, key) - before


def twice(peer: Peer, workload: Workload, total: Question) -> int:
    """How many of two hits of one link and moment are counted."""
    for _ in range(2):
        peer.add(_new(workload, 8), workload.end - 120)
    return _counted(peer, total, _new(workload, 8))


def survives(peer: Peer, workload: Workload, total: Question, number: int) -> bool:
    """Whether a hit is there after a kill that follows its answer at once."""
    peer.add(_new(workload, number), workload.end - 120)
    peer.kill()
    peer.start()
    return _counted(peer, total, _new(workload, number)) == 1


def _new(workload: Workload, number: int) -> str:
    """A link that the workload does not have."""
    return f"k{workload.links * 10 + number}"
