"""Bodies that are small on the wire and large inside: what they may cost, at both routes that read them."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import string
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from fastapi import FastAPI

from clickcurve.buckets.errors import BodyTooLarge
from clickcurve.buckets.ladder import CLICKS, DAY_S, fold_day
from ingest.agents.reader import AGENT_CHARACTERS
from ingest.attributes.profile import ProfileReader
from ingest.attributes.referrer import ReferrerReader
from ingest.batch import Batch
from ingest.hit_sums import HitSums
from ingest.imports.chunk import ChunkReader
from ingest.imports.routes import import_routes
from ingest.reading import request_sums
from ingest.reading.body import Media, read_hits
from ingest.reading.body_budget import FREE_BYTES, BodyBudget
from ingest.reading.hit_endpoint import HitRoutes
from ingest.reading.json_hit import HIT_BYTES
from ingest.reading.judge import AGENT_CHARACTERS_STEP
from ingest.reading.receipt import IngestCounters
from ingest.reading.request_sums import BODY_VALUES, REFUSED_HITS, RequestSums
from server.http.problems import Problems
from storage.contract import Source
from tests.hostile.piece import piece_s
from tests.ingest.http_kit import MOMENT, NOW, MemoryIntake, is_bot, minutes_since

MIB = 1 << 20
TODAY = fold_day(NOW) * DAY_S
JSON, LINES = "application/json", "application/x-ndjson"
HIT = b'{"key":"a"}'


class Intake(MemoryIntake):
    async def kept_offset(self, source: str) -> Source:
        return Source(1, 0, "")


class BodyRoutes:
    """Both routes of one worker, over one room."""

    def __init__(self, **options: Any) -> None:
        self.now = 0.0
        self.room = BodyBudget(lambda: self.now, **options)
        self.intake = Intake()
        self.counters = IngestCounters()
        self.hits = HitRoutes(self.intake, lambda: NOW, minutes_since, is_bot, self.counters, room=self.room)
        self.app = FastAPI()
        Problems().install(self.app)
        self.app.include_router(import_routes(self.intake, lambda: MOMENT, lambda: CLICKS, self.counters, self.room))

    async def post(self, route: str, pieces: asyncio.Queue[bytes | None], media: str, coding: str = "") -> Reply:
        """Sends the pieces as they come; None ends the body."""
        headers = [(b"content-type", media.encode()), (b"transfer-encoding", b"chunked")]
        headers += [(b"content-encoding", coding.encode())] if coding else []
        path = "/v1/hits" if route == "hits" else "/v1/import/s"
        scope = {
            "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "headers": headers,
            "query_string": b"" if route == "hits" else b"from=0&to=1", "root_path": "", "http_version": "1.1",
            "scheme": "http", "server": ("h", 80), "client": ("127.0.0.1", 1),
        }  # fmt: skip
        reply = Reply()

        async def receive() -> dict[str, Any]:
            piece = await pieces.get()
            return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

        async def send(message: Any) -> None:
            reply.status = message.get("status", reply.status)
            reply.headers |= dict(message.get("headers", ()))
            reply.body += message.get("body", b"")

        await (self.hits if route == "hits" else self.app)(scope, receive, send)
        return reply


class Reply:
    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = b""


def whole(*pieces: bytes) -> asyncio.Queue[bytes | None]:
    queue: asyncio.Queue[bytes | None] = asyncio.Queue()
    for piece in (*pieces, None):
        queue.put_nowait(piece)
    return queue


both = pytest.mark.parametrize("route", ["hits", "import"])
# An import is cut and read by the same parsers.
hits_first = pytest.mark.parametrize("route", ["hits", pytest.param("import", marks=pytest.mark.long)])

BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "zeros in an array": (lambda: b"[" + b"0," * 80_000 + b"0]", JSON),
    "objects without a key": (lambda: b"[" + b"{}," * 20_000 + b"{}]", JSON),
    "values on one line": (lambda: b"{}" * 80_000, LINES),
    "lines that are zero": (lambda: b"0\n" * 20_000, LINES),
    "a key of lists": (lambda: b'{"key":[' + b"[]," * 60_000 + b"[]]}", LINES),
    "a key of lists in an array": (lambda: b'[{"key":[' + b"[]," * 60_000 + b"[]]}]", JSON),
    "opening lists": (lambda: b"[" * 200_000, JSON),
    "empty lines": (lambda: b"\n" * 200_000, LINES),
    "lines of broken objects": (lambda: b'{"key":\n' * 20_000, LINES),
    "history without sense": (lambda: b'{"key":"a","buckets":[[],[]]}\n' * 2_000, LINES),
}


@hits_first
@pytest.mark.parametrize("name", BOMBS)
def test_a_small_packed_body_takes_little_memory_and_lets_others_run(route: str, name: str) -> None:
    make, media = BOMBS[name]
    body = make()
    packed = gzip.compress(body)
    assert len(packed) < len(body) // 50
    turns = 0

    async def ticking() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def run() -> Reply:
        ticker = asyncio.create_task(ticking())
        reply = await BodyRoutes().post(route, whole(packed), media, "gzip")
        ticker.cancel()
        return reply

    tracemalloc.start()
    try:
        reply = asyncio.run(run())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert reply.status in (200, 400, 413, 422)
    assert peak < 2 * len(body) + 3 * MIB  # packed, unpacked in blocks and whole, and a piece of it as values
    refused = json.loads(reply.body).get("refused", 0)
    assert turns >= refused // 400  # never more than some hundred values at once


@both
@pytest.mark.slow
def test_a_body_of_too_many_values_is_refused_with_413_that_says_how_many_fit(route: str) -> None:
    routes = BodyRoutes()
    body = b'{"key":"a","ts":%d}\n' % TODAY * (BODY_VALUES + 1)
    reply = asyncio.run(routes.post(route, whole(gzip.compress(body, 1)), LINES, "gzip"))
    assert (reply.status, routes.intake.total) == (413, 0)
    assert "1,000,000" in json.loads(reply.body)["rule"]


@hits_first
@pytest.mark.parametrize("value", [b"0", b'{"key":1}'])
def test_a_body_of_too_many_refused_hits_is_413_that_says_why_the_first_is_refused(route: str, value: bytes) -> None:
    routes = BodyRoutes()
    good = b'{"key":"a","ts":%d}' % TODAY
    for n, status in ((REFUSED_HITS, 200), (2 * REFUSED_HITS, 413)):
        reply = asyncio.run(routes.post(route, whole(b"[" + b",".join([good, *[value] * n]) + b"]"), JSON))
        assert reply.status == status
    problem = json.loads(reply.body)
    assert "hit 1 because" in problem["detail"] and "100,000" in problem["rule"]
    assert routes.intake.total == 1


@pytest.mark.parametrize(("ids", "leaves"), [(request_sums.IDS_AT_ONCE, False), (request_sums.IDS_AT_ONCE + 1, True)])
def test_a_batch_of_many_ids_is_made_beside_the_event_loop(
    ids: int, leaves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """50,000 hits with ids and referrers took 1.2 s of the event loop in one piece."""
    made_in: list[threading.Thread] = []
    make = HitSums.batch

    def batch(sums: HitSums, name: str | None = None) -> Batch:
        made_in.append(threading.current_thread())
        return make(sums, name)

    monkeypatch.setattr(HitSums, "batch", batch)
    routes = BodyRoutes()
    body = b"\n".join(b'{"key":"a","id":"%d"}' % n for n in range(ids))
    assert asyncio.run(routes.post("hits", whole(body), LINES)).status == 200
    assert [thread is not threading.main_thread() for thread in made_in] == [leaves]


@both
@pytest.mark.parametrize("named", [True, False])
def test_a_body_of_too_many_different_minutes_is_413_and_counts_nothing(route: str, named: bool) -> None:
    """700,000 minutes of one link took 1.4 s of the event loop in one piece."""
    routes = BodyRoutes()
    hit = b'{"key":"a","ts":%d' + (b',"count":2}' if named else b"}")
    body = b"\n".join([hit % (TODAY - 60 * n) for n in range(700_000)])
    reply = asyncio.run(routes.post(route, whole(body), LINES))
    assert (reply.status, routes.intake.total) == (413, 0)
    assert "250,000 different" in json.loads(reply.body)["rule"]


@pytest.mark.parametrize(
    "hit",
    [
        lambda n: {"key": f"k{n}", "ts": TODAY},
        lambda n: {"key": "a", "ts": TODAY, "ref": f"r{n}.example"},
        lambda n: {"key": "a", "ts": TODAY, "visitor": f"v{n}"},
        lambda n: {"key": "a", "ts": TODAY, "bot": True, "groups": [f"g{n}"]},
        lambda n: {"key": "a", "ts": TODAY - 60 * n},
    ],
    ids=["links", "referrers", "visitors", "groups", "minutes"],
)
def test_different_counts_of_a_request_are_bounded_and_others_are_not(
    hit: Callable[[int], dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_sums, "DIFFERENT_COUNTS", 1_000)

    def read(hits: int, different: int) -> int:
        reader = ProfileReader(("ref",), lambda address: "", ReferrerReader(()), salts={TODAY: b"x" * 32})
        sums = RequestSums(MOMENT, reader=reader)
        body = "\n".join(json.dumps(hit(n % different)) for n in range(hits)).encode()
        for some in read_hits(body, Media.lines, 2_000):
            sums.add(some, is_bot)
        return sums.receipt().counted

    assert read(9_000, 400) == 9_000
    with pytest.raises(BodyTooLarge, match="too many different counts"):
        read(3_000, 3_000)


def test_a_body_of_refused_hits_is_read_no_further_than_their_limit() -> None:
    """2,000,000 zeros in 4 kB of gzip took 0.95 s of processor before their 413."""
    sums, steps = RequestSums(MOMENT), read_hits(b"[" + b"0," * 1_999_999 + b"0]", Media.json)
    with pytest.raises(BodyTooLarge):
        for hits in steps:
            sums.add(hits, is_bot)
    assert REFUSED_HITS < sums.refusals.hits < 1.01 * REFUSED_HITS


@pytest.mark.parametrize("reads_more", [True, False])
@both
def test_a_step_judges_few_characters_of_new_agents(route: str, reads_more: bool) -> None:
    """3,000 hits with agents of 1,000 random characters held the event loop for 70 ms."""
    judged = Counter[int]()  # characters, by step

    def name_bot(agent: str) -> None:
        judged[steps] += len(agent)

    source, steps = random.Random(1), 0
    agents = ["".join(source.choices(string.ascii_letters, k=source.choice((10, 1_000, 3_000)))) for _ in range(600)]
    hits = [{"key": "a", "ts": TODAY, "ua": agent, **({"id": agent[:9]} if reads_more else {})} for agent in agents]
    body = "\n".join(map(json.dumps, hits)).encode()
    reader = ProfileReader(("bot",), lambda address: "", ReferrerReader(()), cache(name_bot))
    sums = RequestSums(MOMENT, reader=reader)

    def steps_of_hits() -> Iterator[None]:
        for hits in read_hits(body, Media.lines):
            yield from sums.add_steps(hits, is_bot)
            yield

    reading = steps_of_hits() if route == "hits" else ChunkReader(CLICKS).read_body(body, sums)
    for steps, _ in enumerate(reading, 1):  # noqa: B007  # name_bot reads it
        pass
    assert judged.total() == sum(min(len(agent), AGENT_CHARACTERS) for agent in agents)  # once each
    assert max(judged.values()) < AGENT_CHARACTERS_STEP + AGENT_CHARACTERS
    assert sums.receipt().counted == 600


@both
def test_refused_values_after_the_thousandth_are_counted_exactly(route: str) -> None:
    odd = [b"0", b"null", b'"x"', b"[]"]
    odd += [b'{"key":"","ts":5}', b'{"key":"a","ts":-1,"count":7}', b'{"key":"a","ts":"x"}']
    odd += [b'{"key":"a","ts":9999999999,"count":3}', b'{"key":"a","count":0,"ts":0}', b'{"key":"a","ts":0,"bot":1}']
    good = b'{"key":"a","ts":%d,"count":2}' % TODAY
    values = [*odd, good] * 300
    for body, media in ((b"[" + b",".join(values) + b"]", JSON), (b"\n".join(values), LINES)):
        routes = BodyRoutes()
        answer = json.loads(asyncio.run(routes.post(route, whole(body), media)).body)
        assert (answer["counted"], answer["refused"]) == (600, 300 * (8 + 7 + 3))
        assert (len(answer["items"]), answer["items_omitted"]) == (1000, 2000)
        assert [item["index"] for item in answer["items"][:11]] == [*range(10), 11]
        refused = {reason: count for reason, count in routes.counters.refused.items() if count}
        assert refused == {"hit": 1200, "key": 300, "ts": 300 * 8, "future": 900, "count": 300, "bot": 300}


def test_a_value_of_an_import_that_is_longer_than_a_hit_may_be_is_refused_unread() -> None:
    long = b'{"key":"a","ts":%d,"x":"%s"}' % (TODAY, b"x" * HIT_BYTES)
    good = b'{"key":"b","ts":%d}' % TODAY
    for body, media in ((b"[" + long + b"," + good + b"]", JSON), (long + b"\n" + good, LINES)):
        routes = BodyRoutes()
        answer = json.loads(asyncio.run(routes.post("import", whole(body), media)).body)
        assert (answer["counted"], answer["refused"], answer["items"][0]["field"]) == (1, 1, "hit")


@pytest.mark.parametrize(
    ("make", "media"),
    [
        (lambda pad: b'["' + pad * b"x" + b'"]', JSON),
        (lambda pad: b'["' + pad * b"x", JSON),
        (lambda pad: b'["' + pad // 2 * b'\\"' + b'"]', JSON),
        (lambda pad: b"[" + pad * b"1" + b"]", JSON),
        (lambda pad: b"[" + pad * b"[" + b"]", JSON),
        (lambda pad: b'[{"key":["' + pad // 3 * b"},{" + b'"]}]', JSON),
        (lambda pad: b"[" + HIT + pad * b" " + b",0]", JSON),
        (lambda pad: b"0" + pad * b" " + b"\n" + HIT, LINES),
        (lambda pad: HIT + b"\n" + pad * b"1", LINES),
        (lambda pad: pad * b" ", LINES),
    ],
    ids=[
        "string",
        "open string",
        "quotes",
        "digits",
        "lists",
        "cuts",
        "spaces",
        "line of spaces",
        "line",
        "blank line",
    ],
)
@both
def test_a_value_far_longer_than_a_hit_is_refused_with_413_before_it_is_walked(
    route: str, make: Callable[[int], bytes], media: str
) -> None:
    routes = BodyRoutes()
    reply = asyncio.run(routes.post(route, whole(make(8 * MIB)), media))
    assert (reply.status, routes.intake.total, routes.counters.body_bytes) == (413, 0, 0)
    assert "1,048,576 bytes" in json.loads(reply.body)["rule"]


@both
def test_no_step_of_a_body_takes_long(route: str) -> None:
    """One step over 63 MB of a string, or of white space, held up all others for 50 to 500 ms."""
    for body in (b'["' + b"x" * (63 * MIB) + b'"]', b"[" + b" " * (63 * MIB) + b"0]"):
        steps: Iterator[object] = read_hits(body, Media.json)
        if route == "import":
            steps = ChunkReader(CLICKS).read_body(body, RequestSums(MOMENT), is_array=True)
        begun = time.thread_time()
        with pytest.raises(BodyTooLarge):
            next(steps)
        assert time.thread_time() - begun < 13 * piece_s()  # of 3 ms on a quiet core


@hits_first
def test_values_that_are_nested_for_the_most_part_are_refused_before_they_cost_seconds(route: str) -> None:
    value = b'{"key":[' + b"[]," * 200_000 + b"[]]}"
    body = b"[" + b",".join([value] * 20) + b"]"
    routes = BodyRoutes()
    reply = asyncio.run(routes.post(route, whole(body), JSON))
    assert reply.status == 413
    assert "4,000,000" in json.loads(reply.body)["rule"]
    fewer = b"[" + b",".join([value] * 3) + b"]"
    assert json.loads(asyncio.run(routes.post(route, whole(fewer), JSON)).body)["refused"] == 3


def test_a_long_history_lets_others_run_within_one_line() -> None:
    buckets = b",".join(b"[%d,%d,1,0]" % (at * 60, at * 60 + 60) for at in range(20_000))
    line = b'{"key":"a","buckets":[' + buckets + b"]}"
    turns = 0

    async def run() -> Reply:
        async def ticking() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        ticker = asyncio.create_task(ticking())
        reply = await BodyRoutes().post("import", whole(line), LINES)
        ticker.cancel()
        return reply

    assert json.loads(asyncio.run(run()).body)["counted"] == 20_000
    assert turns > 60


# --- what clients hold ------------------------------------------------------------------------------------------------
PADDED = b"[" + b" " * MIB + HIT


@both
def test_bodies_that_hold_memory_without_sending_make_room_for_one_that_sends(route: str) -> None:
    async def run() -> None:
        routes = BodyRoutes(waiting_bytes=16 * MIB)
        slow: list[tuple[asyncio.Queue[bytes | None], asyncio.Task[Reply]]] = []
        for _ in range(60):
            pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
            pieces.put_nowait(PADDED)
            slow.append((pieces, asyncio.create_task(routes.post("hits", pieces, JSON))))
            await asyncio.sleep(0)
        for _ in range(5):
            await asyncio.sleep(0)
        refused = [task.result() for _, task in slow if task.done()]
        assert {reply.status for reply in refused} == {429}  # none was slow yet: the newest are refused
        assert all(int(reply.headers[b"retry-after"]) >= 1 for reply in refused)
        assert 10 * MIB < routes.room.used <= 16 * MIB
        small = await routes.post(route, whole(b'[{"key":"a","ts":%d}' % TODAY, b" " * (FREE_BYTES - 40), b"]"), JSON)
        assert small.status == 200  # the first 16 KiB of a body are always free

        routes.now += 30.0
        large = b"[" + b" " * (5 * MIB // 2) + b'{"key":"a","ts":%d}]' % TODAY
        honest = await routes.post(route, whole(large[:MIB], large[MIB:]), JSON)
        assert honest.status == 200
        for pieces, _ in slow:
            pieces.put_nowait(b"]")
            pieces.put_nowait(None)
        replies = [await task for _, task in slow]
        assert {reply.status for reply in replies} == {200, 429}
        assert routes.intake.people.total() + routes.intake.singles.total() == 2 + [r.status for r in replies].count(
            200
        )
        assert routes.room.used == 0

    asyncio.run(run())


def test_bodies_that_wait_take_no_more_memory_than_the_budget() -> None:
    """600 bodies held 329 MiB where 256 is the bound: a buffer that grows has more bytes than it holds."""

    async def run() -> int:
        routes = BodyRoutes(waiting_bytes=16 * MIB)
        waiting: list[tuple[asyncio.Queue[bytes | None], asyncio.Task[Reply]]] = []
        block = b" " * 9_000
        tracemalloc.start()
        for _ in range(60):
            pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
            for _ in range(60):
                pieces.put_nowait(block)
            waiting.append((pieces, asyncio.create_task(routes.post("hits", pieces, JSON))))
        for _ in range(200):
            await asyncio.sleep(0)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        for pieces, _ in waiting:
            pieces.put_nowait(None)
        assert {(await task).status for _, task in waiting} == {400, 429}
        assert routes.room.used == 0
        return held

    assert 12 * MIB < asyncio.run(run()) < 16 * MIB + 60 * FREE_BYTES + MIB


@pytest.mark.parametrize("trickles", [False, True], ids=["still", "trickling"])
def test_an_honest_body_waits_a_second_for_still_ones_and_four_for_ones_that_trickle(trickles: bool) -> None:
    """They came in one burst, so their mean rate stays high for long: with 1 MiB each it was 16 s."""

    async def run() -> None:
        routes = BodyRoutes(waiting_bytes=16 * MIB)
        slow: list[tuple[asyncio.Queue[bytes | None], asyncio.Task[Reply]]] = []
        for _ in range(20):
            pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
            pieces.put_nowait(PADDED[: FREE_BYTES + 1])
            pieces.put_nowait(PADDED[FREE_BYTES + 1 :])
            slow.append((pieces, asyncio.create_task(routes.post("hits", pieces, JSON))))
        honest = b"[" + b" " * (2 * MIB) + b'{"key":"a","ts":%d}]' % TODAY
        await turns()
        assert (await routes.post("hits", whole(honest), JSON)).status == 429
        for _ in range(8 if trickles else 2):
            routes.now += 0.5
            if trickles:
                for pieces, _ in slow:
                    pieces.put_nowait(b" ")
            await turns()
        assert (await routes.post("hits", whole(honest), JSON)).status == 200
        for pieces, _ in slow:
            pieces.put_nowait(b"]")
            pieces.put_nowait(None)
        assert {(await task).status for _, task in slow} == {200, 429}
        assert routes.room.used == 0

    async def turns() -> None:
        for _ in range(30):
            await asyncio.sleep(0)

    asyncio.run(run())


def test_a_body_that_comes_at_a_fair_rate_is_never_refused_for_a_newer_one() -> None:
    async def run() -> None:
        routes = BodyRoutes(waiting_bytes=4 * MIB)
        pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        steady = asyncio.create_task(routes.post("hits", pieces, JSON))
        pieces.put_nowait(b"[")
        for second in range(30):
            routes.now = float(second)
            pieces.put_nowait(b" " * (100 * 1024))
            while not pieces.empty():
                await asyncio.sleep(0)
        newer = await routes.post("hits", whole(b"[" + b" " * (2 * MIB) + HIT + b"]"), JSON)
        assert newer.status == 429
        pieces.put_nowait(HIT + b"]")
        pieces.put_nowait(None)
        assert (await steady).status == 200

    asyncio.run(run())


def test_a_body_in_pieces_of_one_byte_is_held_as_bytes_not_as_pieces() -> None:
    async def run() -> int:
        pieces = whole(*(b" " for _ in range(20_000)), HIT)
        routes = BodyRoutes()
        assert (await routes.post("hits", whole(HIT), JSON)).status == 200  # the first one loads what reads it
        tracemalloc.start()
        try:
            assert (await routes.post("hits", pieces, JSON)).status == 200
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert asyncio.run(run()) < MIB // 2


def test_many_long_bodies_take_turns_and_a_small_one_passes_them() -> None:
    async def run() -> None:
        routes = BodyRoutes()
        order: list[int] = []

        async def post(number: int, body: bytes) -> None:
            assert (await routes.post("hits", whole(body), JSON)).status in (200, 422)
            order.append(number)

        long = b"[" + b"0," * 20_000 + b"0]"
        tasks = [asyncio.create_task(post(number, long)) for number in range(12)]
        for _ in range(10):
            await asyncio.sleep(0)
        tasks.append(asyncio.create_task(post(99, b"[" + HIT + b"," + HIT + b"]")))
        await asyncio.gather(*tasks)
        assert order[0] == 99

    asyncio.run(run())
