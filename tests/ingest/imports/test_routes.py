"""The import routes: places, chunks, what is refused, and a whole import through them."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from clickcurve.buckets.errors import (
    ImportElsewhere,
    ImportOutOfStep,
    JournalBehind,
    JournalFull,
    JournalUnknown,
    StoreUnavailable,
)
from clickcurve.buckets.ladder import CLICKS, DAY_S, fold_day
from ingest.batch import Batch, SourceStep, encode_batch
from ingest.hit import COUNT_MAX, Moment
from ingest.hit_sums import PAST_MAX
from ingest.imports.access_log import AccessLog
from ingest.imports.chunk import Chunk, DatedHit
from ingest.imports.importer import Importer
from ingest.imports.places import AS_IT_WAS, Placing
from ingest.imports.routes import import_routes
from ingest.imports.target import HttpTarget, ImportRefused, KeptOffset, Sender, Taken
from ingest.reading.body_budget import BodyBudget
from ingest.reading.receipt import IngestCounters
from server.http.problems import Problems
from storage.contract import Source
from testing.asgi import ask_app
from tests.ingest.imports.import_kit import NOW, expected, log_lines, no_wait

TODAY = fold_day(NOW) * DAY_S
LINES = "application/x-ndjson"


class Intake:
    """Takes batches whose step begins at the place. `fault` is raised by the next request."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.places: dict[str, Source] = {}
        self.fault: Exception | None = None

    async def accept(self, batch: Batch) -> frozenset[str]:
        self._fail()
        step = batch.source
        assert step is not None
        at = (await self.kept_offset(step.source)).position
        if at != step.start:
            raise ImportOutOfStep(f"the source stands at byte {at}", field="from", value=at)
        self.batches.append(batch)
        self.places[step.source] = Source(1, step.end, step.tail)
        return frozenset()

    async def kept_offset(self, source: str) -> Source:
        self._fail()
        return self.places.get(source, Source(1, 0, ""))

    def _fail(self) -> None:
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault


class Imports:
    def __init__(self) -> None:
        self.intake = Intake()
        self.counters = IngestCounters()
        app = FastAPI()
        Problems().install(app)
        self.room = BodyBudget(lambda: 0.0, body_bytes=100_000)
        moment = Moment(NOW, TODAY, NOW + 300)
        app.include_router(import_routes(self.intake, lambda: moment, lambda: CLICKS, self.counters, self.room))
        self.app = app

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://host")

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> httpx.Response:
        return ask_app(self.app, method, path, content=body, headers=headers)

    def post(self, body: bytes, query: str = "from=0&to=10", media: str = LINES, **headers: str) -> httpx.Response:
        return self.ask("POST", f"/v1/import/s?{query}", body, **{"Content-Type": media, **headers})


@pytest.fixture
def imports() -> Imports:
    return Imports()


def lines(*values: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def test_an_unknown_source_stands_at_its_beginning(imports: Imports) -> None:
    assert imports.ask("GET", "/v1/import/s").json() == {
        "source": "s",
        "position": 0,
        "tail": "",
        "fields": [],
        "hosts": "ignored",
        "people": [],
    }


def test_a_piece_moves_the_place_with_its_hits(imports: Imports) -> None:
    body = lines({"key": "a", "ts": TODAY + 61, "count": 2}, {"key": "a", "ts": TODAY, "count": 3, "bot": True})
    answer = imports.post(body, "from=0&to=10&tail=t.1")
    assert answer.json() == {"position": 10, "counted": 5, "duplicate": 0, "late": 0, "refused": 0, "items": []}
    assert imports.intake.batches == [
        Batch({TODAY + 60: {"a": 2}}, {TODAY: {"a": 3}}, [], {}, SourceStep("s", 0, 10, "t.1"))
    ]
    assert imports.ask("GET", "/v1/import/s").json() == {
        "source": "s",
        "position": 10,
        "tail": "t.1",
        "fields": [],
        "hosts": "ignored",
        "people": [],
    }
    again = imports.post(body, "from=0&to=10&tail=t.1")
    assert (again.status_code, again.json()["value"]) == (409, 10)
    assert len(imports.intake.batches) == 1


def test_a_piece_may_be_empty_and_is_a_step_all_the_same(imports: Imports) -> None:
    assert imports.post(b"").json()["position"] == 10
    assert imports.intake.batches[0].source == SourceStep("s", 0, 10, "")


@pytest.mark.parametrize("array", [False, True])
def test_hits_openings_and_history_may_be_mixed_and_each_is_judged_by_itself(imports: Imports, array: bool) -> None:
    values: list[dict[str, Any]] = [
        {"key": "a", "ts": TODAY - DAY_S, "count": 2},
        {"key": "b", "opening": 4},
        {"key": "c", "total": 9, "bots": 1, "opening": 2, "buckets": [[TODAY, TODAY + 60, 7, 1]]},
        {"key": "", "ts": TODAY},
        {"key": "a"},
        {"key": "a", "ts": TODAY, "count": 0},
        {"key": "a", "ts": NOW + 301, "count": 6},
        {"key": "d", "total": 5, "buckets": [[TODAY, TODAY + 120, 5, 0]]},
        {"key": "a", "ts": "2025-10-09T00:00:30Z", "ua": "x"},
    ]
    body = json.dumps(values).encode() if array else lines(*values)
    receipt = imports.post(body, media="application/json" if array else LINES).json()
    batch = imports.intake.batches[0]
    assert batch.people == {TODAY - DAY_S: {"a": 2}, TODAY: {"c": 7, "a": 1}}
    assert (batch.bots, batch.openings) == ({TODAY: {"c": 1}}, {"b": 4, "c": 2})
    assert (receipt["counted"], receipt["late"], receipt["refused"]) == (17, 2, 1 + 1 + 1 + 6 + 5)
    assert [(item["index"], item["field"]) for item in receipt["items"]] == [
        (3, "key"),
        (4, "ts"),
        (5, "count"),
        (6, "ts"),
        (7, "buckets"),
    ]
    counted = {reason: n for reason, n in imports.counters.refused.items() if n}
    assert counted == {"key": 1, "ts": 1, "count": 1, "future": 6, "history": 5}
    assert (imports.counters.counted, imports.counters.late) == (17, 2)


@pytest.mark.parametrize("kind", ["opening", "people", "bots", "group"])
def test_lines_are_refused_that_add_up_to_more_than_the_journal_can_hold(imports: Imports, kind: str) -> None:
    def line(count: int) -> dict[str, Any]:
        bucket = [TODAY, TODAY + 60, count * (kind != "bots"), count * (kind == "bots")]
        of = {"key": "a", "opening": count} if kind == "opening" else {"key": "a", "buckets": [bucket]}
        return of if kind != "group" else {"group": "g", "buckets": [bucket]}

    hits = {"key": "a", "ts": TODAY, "count": COUNT_MAX}
    receipt = imports.post(lines(line(PAST_MAX - 1), line(2), line(1), *[hits] * 100)).json()
    assert [(item["index"], item["field"]) for item in receipt["items"]] == [(1, "history")]
    assert f"at most {PAST_MAX:,} in one request" in receipt["items"][0]["reason"]
    encode_batch(imports.intake.batches[0])
    refused = imports.post(lines(line(PAST_MAX + 1)), "from=10&to=20").json()
    assert [item["field"] for item in refused["items"]] == [
        "opening" if kind == "opening" else kind.replace("group", "people")
    ]


def test_wide_buckets_count_at_their_start_when_asked_for(imports: Imports) -> None:
    body = lines({"key": "d", "total": 5, "buckets": [[TODAY, TODAY + 120, 5, 0]]})
    assert imports.post(body, "from=0&to=10&wide=start").json()["counted"] == 5


def test_buckets_ahead_of_the_clock_count_now_when_asked_for(imports: Imports) -> None:
    body = lines({"key": "d", "total": 5, "buckets": [[TODAY + 9 * DAY_S, TODAY + 9 * DAY_S + 60, 5, 0]]})
    assert imports.post(body, "from=0&to=10").json()["counted"] == 0
    assert imports.post(body, "from=10&to=20&ahead=now").json()["counted"] == 5


def test_the_plain_way_refuses_hits_ahead_of_the_clock_one_by_one(imports: Imports) -> None:
    receipt = imports.post(lines({"key": "a", "ts": NOW + 301, "count": 3}, {"key": "a", "ts": NOW + 300})).json()
    assert (receipt["counted"], receipt["refused"], receipt["items"][0]["index"]) == (1, 3, 0)


@pytest.mark.parametrize("line", [b"{", b"[]", b"7", b"null", b'"x"', b"\xff", b'{"key": 5, "ts": 1}'])
def test_a_line_that_is_no_hit_is_refused_alone(imports: Imports, line: bytes) -> None:
    receipt = imports.post(lines({"key": "a", "ts": TODAY}) + line + b"\n\n" + lines({"key": "b", "ts": TODAY})).json()
    assert (receipt["counted"], receipt["refused"], receipt["items"][0]["index"]) == (2, 1, 1)


def test_bodies_may_be_packed(imports: Imports) -> None:
    body = gzip.compress(lines({"key": "a", "ts": TODAY}))
    assert imports.post(body, **{"Content-Encoding": "gzip"}).json()["counted"] == 1


@pytest.mark.parametrize(
    ("query", "media", "body", "status"),
    [
        ("from=0", LINES, b"", 422),
        ("to=10", LINES, b"", 422),
        ("from=-1&to=10", LINES, b"", 422),
        ("from=5&to=5", LINES, b"", 422),
        ("from=a&to=5", LINES, b"", 422),
        ("from=0&to=5&wide=x", LINES, b"", 422),
        ("from=0&to=5&tail=%0a", LINES, b"", 422),
        (f"from=0&to=5&tail={'t' * 401}", LINES, b"", 422),
        ("from=0&to=5", "text/plain", b"", 415),
        ("from=0&to=5", "application/cloudevents-batch+json", b"", 415),
        ("from=0&to=5", "application/json", b"{}", 400),
        ("from=0&to=5", LINES, b"x" * 100_001, 413),
    ],
)
def test_what_cannot_be_is_a_problem_and_moves_nothing(
    imports: Imports, query: str, media: str, body: bytes, status: int
) -> None:
    answer = imports.post(body, query, media)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert imports.intake.batches == []


@pytest.mark.parametrize(("source", "status"), [("a%20b", 422), ("x" * 201, 422), ("%C3%A9", 422), ("a%2Fb", 404)])
def test_a_source_has_a_plain_name(imports: Imports, source: str, status: int) -> None:
    assert imports.ask("GET", f"/v1/import/{source}").status_code == status


def test_what_certainly_did_not_count_says_when_to_come_again(imports: Imports) -> None:
    for fault, status in ((JournalBehind("x"), 429), (JournalFull("x"), 503), (StoreUnavailable("x"), 503)):
        imports.intake.fault = fault
        answer = imports.post(b"")
        assert (answer.status_code, int(answer.headers["retry-after"]) > 0) == (status, True)
    imports.intake.fault = ImportElsewhere("another worker")
    assert imports.post(b"").status_code == 421


def test_an_unknown_outcome_is_answered_by_nothing(imports: Imports) -> None:
    imports.intake.fault = JournalUnknown("x")
    with pytest.raises(JournalUnknown):
        imports.post(b"")


# --- the client's side of the same talk ---------------------------------------------------------------------------
def with_target(
    imports: Imports, call: Callable[[HttpTarget], Awaitable[object]], placing: Placing = AS_IT_WAS
) -> object:
    async def calling() -> object:
        target = HttpTarget(imports.client, placing)
        try:
            return await call(target)
        finally:
            await target.close()

    return asyncio.run(calling())


def test_the_client_reads_receipts_and_places(imports: Imports) -> None:
    hits = [DatedHit("a", TODAY, 2), DatedHit("b", TODAY), DatedHit("a", NOW // 60 * 60 + 600, 9)]
    chunk = Chunk(SourceStep("s", 0, 10, "t"), [*hits, DatedHit("a", 0, bot=True)])
    taken = with_target(imports, lambda target: target.send(chunk))
    assert isinstance(taken, Taken)
    assert (taken.counted, taken.late, taken.refused, len(taken.reasons)) == (4, 1, 9, 1)
    assert with_target(imports, lambda target: target.offset("s")) == KeptOffset(10, "t")


@pytest.mark.parametrize(
    ("fault", "raised"),
    [
        (JournalBehind("x"), JournalBehind),
        (JournalFull("x"), JournalFull),
        (StoreUnavailable("x"), JournalFull),
        (ImportElsewhere("x"), ImportElsewhere),
    ],
)
def test_the_client_knows_what_each_status_means(imports: Imports, fault: Exception, raised: type[Exception]) -> None:
    for call in (lambda target: target.send(Chunk(SourceStep("s", 0, 1, ""))), lambda target: target.offset("s")):
        imports.intake.fault = fault
        with pytest.raises(raised):
            with_target(imports, call)


def test_the_client_is_told_where_a_source_stands_and_what_is_hopeless(imports: Imports) -> None:
    with pytest.raises(ImportOutOfStep) as caught:
        with_target(imports, lambda target: target.send(Chunk(SourceStep("s", 7, 8, ""))))
    assert caught.value.value == 0
    with pytest.raises(ImportRefused, match="the server says"):
        with_target(imports, lambda target: target.send(Chunk(SourceStep("s", 7, 7, ""))))


@pytest.mark.parametrize(
    ("broken", "raised"),
    [
        (httpx.ConnectError("x"), StoreUnavailable),
        (httpx.ConnectTimeout("x"), StoreUnavailable),
        (httpx.ReadError("x"), JournalUnknown),
        (httpx.RemoteProtocolError("x"), JournalUnknown),
        (httpx.ReadTimeout("x"), JournalUnknown),
        (httpx.Response(502), JournalUnknown),
        (httpx.Response(504, text="<html>"), JournalUnknown),
        (httpx.Response(200, text="<html>"), ImportRefused),
        (httpx.Response(401, json={"title": "x", "detail": "no token"}), ImportRefused),
    ],
)
def test_a_broken_connection_is_unknown_unless_nothing_was_sent(
    broken: Exception | httpx.Response, raised: type[Exception]
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if isinstance(broken, Exception):
            raise broken
        return broken

    async def sending() -> None:
        client = httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://host")
        target = HttpTarget(lambda: client)
        try:
            await target.send(Chunk(SourceStep("s", 0, 1, "")))
        finally:
            await target.close()

    with pytest.raises(raised):
        asyncio.run(sending())


def test_a_log_goes_through_the_routes(imports: Imports, tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(log_lines(500))

    async def importing(target: HttpTarget) -> None:
        sender = Sender(target, no_wait)
        await Importer(sender, AccessLog(lambda agent: False), chunk_bytes=5_000).run(path)

    for _ in range(2):
        with_target(imports, importing)
    counted = [by_key for batch in imports.intake.batches for by_key in batch.people.values()]
    assert {key: sum(by_key.get(key, 0) for by_key in counted) for key in expected(500)} == expected(500)
