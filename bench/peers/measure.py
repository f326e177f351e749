"""What is measured of peers: rates in turn, then each one's store, its answers, and what a kill leaves of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter, sleep, time
from typing import Any, TypeVar

from bench.command import Options
from bench.measure import Line, in_turn
from bench.peers.hits import Feed, Question, compared_keys, prepare, questions, week
from bench.peers.over_http import HttpPeer, Influx, OwnPeer, Victoria
from bench.peers.peer import ClickHouse, DuckDb, Peer, SqliteRows, Whisper
from bench.servers import LOAD, SERVED, on_core, rss_mb
from bench.workload import Workload

P = TypeVar("P", bound=Peer)
Figures = dict[str, Any]
BATCHES = ((1_000, 20), (100_000, 4))  # hits of a body, different bodies
KILLS = 3
SEEN_WITHIN_S = 30.0
SLOW_MS = 3_000  # a list of the top that takes so long is asked for once


@contextmanager
def running(peer: P) -> Iterator[P]:
    """Runs the peer; yields it."""
    try:
        peer.start()
        yield peer
    finally:
        peer.stop()


def rates_in_turn(
    folder: Path, kinds: Sequence[type[Peer]], workload: Workload, rounds: int, seconds: float
) -> Figures:
    """Returns hits a second of each peer by its name, from empty folders; in each round all have their turn alone."""
    now = int(time()) // 60 * 60
    singles = _singles(workload)
    bodies = {size: [workload.draw(size, seed=10 + n) for n in range(files)] for size, files in BATCHES}

    def turn(peer: Peer) -> list[float]:
        peer.pause(stopped=False)
        try:
            return [peer.rate(some, now, seconds) for some in (singles, *bodies.values())]
        finally:
            peer.pause(stopped=True)

    found: Figures = {}
    with ExitStack() as stack:
        stack.enter_context(on_core(LOAD))
        peers = []
        for number, kind in enumerate(kinds):
            with on_core(SERVED):
                peers.append(stack.enter_context(running(kind(folder / f"rates-{number}"))))
            found[kind.name] = peers[-1].doors()
        for peer in peers:
            peer.pause(stopped=True)
            stack.callback(peer.pause, stopped=False)
        for name, runs in zip(found, in_turn(rounds, *(partial(turn, peer) for peer in peers)), strict=True):
            one_by_one, *batches = map(list, zip(*runs, strict=True))
            found[name] |= {"singles": one_by_one, "batches": dict(zip(map(str, bodies), batches, strict=True))}
    for kind in kinds:
        found[kind.name]["counted"] = singles_counted(folder / f"counted-{kind.__name__}", kind, workload)
    return found


def _singles(workload: Workload) -> list[list[str]]:
    return [[key] for key in workload.draw(20_000, seed=1)]


def singles_counted(folder: Path, kind: type[Peer], workload: Workload) -> tuple[int, int] | None:
    """Returns how many of the single hits that a peer answered it counts, and their number; None: it cannot say.

    It is asked until all are there, for SEEN_WITHIN_S at most: some show new links late, which is no loss.
    """
    if not issubclass(kind, HttpPeer):
        return None
    with running(kind(folder)) as peer:
        peer.rate(_singles(workload), int(time()) // 60 * 60, 1)
        until = perf_counter() + SEEN_WITHIN_S
        while (counted := peer.counted() or 0) < peer.sent and perf_counter() < until:
            sleep(0.2)
        return counted, peer.sent


def store(folder: Path, kind: type[Peer], feed: Feed, rounds: int, seconds: float) -> Figures:
    """Measures one peer with the whole workload: load, bytes, answers, latencies, memory, and what becomes of hits."""
    asked = questions(feed.workload)
    with running(kind(folder)) as peer:
        figures: Figures = {}
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
        return figures | peer.doors()


def answers(peer: Peer, feed: Feed, asked: Sequence[Question]) -> Figures:
    """Returns wrong answers of each question: how many of how many, by how many hits at most; None: not kept."""
    found: Figures = {}
    keys = _loaded(peer, feed.workload, compared_keys(feed.workload))
    for question in asked:
        got = [peer.ask(question, key) for key in keys]
        right = [question.counts(feed.truth.hits[key]) for key in keys]
        pairs = [zip(counts or [], true, strict=False) for counts, true in zip(got, right, strict=True)]
        off = [sum(abs(mine - true) for mine, true in each) for each in pairs]
        found[question.name] = None if None in got else _wrong(off, len(keys))
    for name, span in _tops(feed.workload, asked[0]).items():
        listed, best = peer.top(*span), feed.truth.top(of_week=name != "life")
        off = [abs(mine[1] - true[1]) for mine, true in zip(listed, best, strict=False)]
        found[f"top, {name}"] = _wrong(off, len(best))
    return found


def _tops(workload: Workload, total: Question) -> dict[str, tuple[int, int]]:
    return {"life": (total.start, total.end), "7 d": week(workload)}


def _wrong(off: Sequence[int], asked: int) -> Figures:
    """Returns the figures of answers that were off by so much; those that are missing are wrong too."""
    return {"asked": asked, "wrong": sum(map(bool, off)) + asked - len(off), "by": max(off, default=0)}


def _loaded(peer: Peer, workload: Workload, keys: Sequence[str]) -> list[str]:
    """Returns those of the keys that the peer was loaded with."""
    loaded = set(map(workload.key, range(min(peer.most_links or workload.links, workload.links))))
    return [key for key in keys if key in loaded]


def _reads(peer: Peer, workload: Workload, asked: Sequence[Question], rounds: int, seconds: float) -> Figures:
    keys = _loaded(peer, workload, workload.draw(5_000, seed=2))
    reads: Figures = {}
    for question in asked:
        if peer.ask(question, keys[0]) is not None:
            p50s, p99s = zip(*(peer.latency(question, keys, seconds) for _ in range(rounds)), strict=True)
            reads[question.name] = {"p50": p50s, "p99": p99s}
    tops: dict[str, list[float]] = {}
    for name, span in _tops(workload, asked[0]).items():
        tops[name] = []
        while len(tops[name]) < rounds and max(tops[name], default=0) < SLOW_MS:
            begun = perf_counter()
            peer.top(*span)
            tops[name].append((perf_counter() - begun) * 1_000)
    return {"latencies": reads, "tops": tops}


def _counted(peer: Peer, total: Question, key: str) -> int:
    peer.counted()  # with some peers the only way to see at once what was answered
    answer = peer.ask(total, key)
    return answer[0] if answer else 0


def late(peer: Peer, feed: Feed, total: Question) -> int:
    """Returns by how much the total of a popular link grows with a hit of three days ago, where it has some."""
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


# --- the parts of the command -----------------------------------------------------------------------------------------
PEERS: dict[str, type[Peer]] = {
    "clickcurve": OwnPeer,
    "victoria-metrics": Victoria,
    "influxdb": Influx,
    "clickhouse": ClickHouse,
    "duckdb": DuckDb,
    "sqlite-rows": SqliteRows,
    "whisper": Whisper,
}


def rates(options: Options) -> Iterator[Line]:
    """Hits a second of all, in turn."""
    kinds, workload = [PEERS[name] for name in options.peers or PEERS], options.workload()
    found = rates_in_turn(options.folder, kinds, workload, options.rounds, options.seconds)
    yield from _noted(options, "rates", found)


def stores(options: Options) -> Iterator[Line]:
    """The whole workload in each: load, bytes, answers, latencies, memory, and what becomes of hits."""
    feed = prepare(options.folder / "feed", options.workload())
    for name in options.peers or PEERS:
        place, kind = options.folder / name, PEERS[name]
        found = store(place, kind, feed, options.rounds, options.seconds)
        shutil.rmtree(place)
        yield from _noted(options, "stores", {kind.name: found})


def _noted(options: Options, part: str, found: Figures) -> Iterator[Line]:
    """Notes the figures of peers in the sheet, and how the part was run; yields what it has noted."""
    peers = options.sheet.setdefault("peers", {})
    for name, figures in found.items():
        peers.setdefault(name, {}).update(figures)
    options.sheet[part] = options.circumstances()
    yield Line(f"{part}: {', '.join(found)}", f"{options.sheet[part]['took_s']} s")
