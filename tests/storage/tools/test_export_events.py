"""Events in an export: an import of it gives the same answers, and what cannot be kept as it is is refused."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from clickcurve.access import Access
from clickcurve.buckets.ladder import CLICKS, DAY_S, fold_day
from clickcurve.buckets.measures import VALUE_MAX, Measure, measures_of
from clickcurve.keys import ALL_LINKS, group_key, link_key
from ingest.attributes.country import OFF, country_reader
from ingest.attributes.profile import ProfileReader
from ingest.attributes.referrer import ReferrerReader
from ingest.buffer import Buffer
from ingest.hit import JsonHit, Moment, RawHits
from ingest.imports.chunk import ChunkReader
from ingest.reading.request_sums import RequestSums
from storage.memory_store import MemoryStore
from storage.tools.export import export
from storage.tools.verify import verify
from testing.owner_process import OwnerProcess, TrackedDisk

NOW = 1_790_000_040
EVENTS = ("lead", "sale")
READER = ProfileReader(("ref",), country_reader(OFF), ReferrerReader(), events=EVENTS)
MOMENT = Moment(NOW, fold_day(NOW) * DAY_S, NOW + 300)
START = NOW - NOW % 3_600


def sums() -> RequestSums:
    return RequestSums(MOMENT, reader=READER)


async def flushed(folder: Path, *requests: RequestSums) -> MemoryStore:
    store = MemoryStore()
    owner = OwnerProcess(folder, store, lambda: float(NOW), alone=False, disk=TrackedDisk()).owner
    for request in requests:
        batch = request.batch()
        assert batch is not None
        await owner.accept(batch)
        await owner.flush()
    await owner.close()
    assert verify(store, CLICKS).broken == []
    return store


def lines_of(store: MemoryStore) -> list[dict[str, Any]]:
    return [*export(store, CLICKS, NOW, pytest.fail, events=EVENTS)]


def imported(*lines: dict[str, Any]) -> RequestSums:
    request = sums()
    for _ in ChunkReader(CLICKS).read_body(b"\n".join(json.dumps(line).encode() for line in lines), request):
        pass
    return request


def random_hit(rnd: random.Random) -> JsonHit:
    event = rnd.choice([None, "sale", "sale", "lead"])
    return JsonHit(
        rnd.choice(["a", "b", "\0odd", "only events"]) if event else rnd.choice(["a", "b", "\0odd", "c"]),
        ts=NOW - rnd.choice([60, 3_600, DAY_S, 40 * DAY_S, 900 * DAY_S]) * rnd.randint(0, 9),
        count=rnd.randint(1, 3),
        bot=rnd.random() < 0.2,
        groups=rnd.sample(["g", "h"], rnd.randint(0, 2)),
        ref=rnd.choice([None, "https://news.example/x", "https://shop.example/"]),
        event=event,
        value=rnd.choice([None, 0, 4990, VALUE_MAX]) if event == "sale" else None,
    )


@pytest.mark.parametrize("seed", range(12))
def test_an_export_of_events_imports_to_the_same_rows(tmp_path: Path, seed: int) -> None:
    rnd, request = random.Random(seed), sums()
    request.add(RawHits(json=[random_hit(rnd) for _ in range(rnd.randint(1, 60))]), lambda agent: False)
    first = lines_of(asyncio.run(flushed(tmp_path / "one", request)))
    again = imported(*first)
    assert again.receipt().refused == 0
    # What is in a group's line, or in all links, is told once.
    assert again.receipt().counted == request.receipt().counted
    assert lines_of(asyncio.run(flushed(tmp_path / "two", again))) == first


def test_a_line_has_what_came_of_the_clicks_beside_them(tmp_path: Path) -> None:
    request = sums()
    hits = [
        JsonHit("a", ts=START),
        JsonHit("a", ts=START, event="sale", value=4990, count=2, ref="https://news.example/x"),
        JsonHit("a", ts=START + 60, event="sale"),
        JsonHit("b", ts=START, event="lead", bot=True),
    ]
    request.add(RawHits(json=hits), lambda agent: False)
    a, b = lines_of(asyncio.run(flushed(tmp_path, request)))
    minute, hour = [START, START + 60], [START, START + 3_600]
    assert a["events"] == {
        "sale": {
            "total": 3,
            "bots": 0,
            "first_hit": START,
            "last_hit": START + 60,
            "buckets": [[*minute, 2, 0], [START + 60, START + 120, 1, 0]],
            "by": {"ref": [[*hour, {"news.example": 2}, 0, 0]]},
            "values": {
                "total": 9980,
                "bots": 0,
                "first_hit": START,
                "last_hit": START,
                "buckets": [[*minute, 9980, 0]],
                "by": {"ref": [[*hour, {"news.example": 9980}, 0, 0]]},
            },
        }
    }
    assert (b["total"], b["buckets"], [*b["events"]]) == (0, [], ["lead"])
    assert (b["events"]["lead"]["bots"], b["events"]["lead"]["buckets"]) == (1, [[*minute, 0, 1]])


def test_a_store_without_events_is_exported_as_before(tmp_path: Path) -> None:
    request = sums()
    request.add(RawHits(json=[JsonHit("a", ts=START, ref="https://news.example/", groups=["g"])]), lambda agent: False)
    store = asyncio.run(flushed(tmp_path, request))
    assert lines_of(store) == [*export(store, CLICKS, NOW, pytest.fail)]
    assert not any("events" in line for line in lines_of(store))


BUCKETS = {"buckets": [[START, START + 60, 3, 0]]}


@pytest.mark.parametrize(
    ("events", "field", "reason"),
    [
        ({"order": BUCKETS}, "events", "the event is not counted here; events: lead, sale"),
        ({"click": BUCKETS}, "events", "lead, sale"),
        ({"sale": {}}, "history", "nothing to count, of the event sale"),
        ({"sale": {"total": 3}}, "opening", "an event has no counts without dates, and this one has 3"),
        ({"sale": BUCKETS | {"opening": 1}}, "opening", "of the event sale"),
        ({"sale": BUCKETS | {"total": 2}}, "total", "total is 2, but there are 3 in buckets, of the event sale"),
        ({"sale": BUCKETS | {"values": {"total": 7}}}, "opening", "of the values of sale"),
        ({"sale": BUCKETS | {"values": {"buckets": [[START + 60, START + 120, 7, 0]]}}}, "values", "without events"),
        ({"sale": BUCKETS | {"values": {"buckets": [[START, START + 60, 0, 7]]}}}, "values", "without events"),
        (
            {"sale": BUCKETS | {"values": {"buckets": [[START, START + 60, 3 * VALUE_MAX + 1, 0]]}}},
            "values",
            "the values of sale are too large",
        ),
        ({"sale": BUCKETS | {"by": {"ref": [[START, START + 3_600, {"x": 4}, 0, 0]]}}}, "by", "ref divides 4 hits"),
        ({"sale": {"buckets": [[START, START + 60, -1, 0]]}}, "people", "people is out of range, of the event sale"),
        ([], "history", "not a line of history"),
    ],
)
def test_events_that_cannot_be_refuse_their_line_alone(events: object, field: str, reason: str) -> None:
    receipt = imported({"key": "good", "total": 1}, {"key": "bad", **BUCKETS, "events": events}).receipt()
    assert (receipt.counted, [item.index for item in receipt.items]) == (1, [1])
    assert receipt.items[0].field == field and reason in receipt.items[0].reason


def test_a_line_may_have_events_alone() -> None:
    request = imported({"key": "a", "events": {"sale": BUCKETS}})
    assert (request.receipt().counted, request.receipt().refused) == (3, 0)
    assert imported({"key": "a", "events": {}}).receipt().refused == 1


def test_a_token_with_a_prefix_brings_events_of_its_links_which_count_in_its_group() -> None:
    request = RequestSums(MOMENT, reader=READER, allowed=Access("shop/", "acme"))
    line = {"total": 1, "events": {"sale": BUCKETS | {"values": {"buckets": [[START, START + 60, 7, 0]]}}}}
    of_group = {"group": "acme", **BUCKETS, "events": {"sale": BUCKETS}}
    lines = [{"key": "shop/a", **line}, {"key": "other", **line}, of_group]
    for _ in ChunkReader(CLICKS).read_body(b"\n".join(json.dumps(each).encode() for each in lines), request):
        pass
    assert [item.index for item in request.receipt().items] == [1, 2]
    batch = request.batch()
    assert batch is not None
    buffer = Buffer(MOMENT.late_before)
    buffer.add_batch(batch, 1, visible=True)
    for row in (link_key("shop/a"), group_key("acme"), ALL_LINKS):
        for measure, count in zip(measures_of("sale"), (3, 7), strict=True):
            assert sum(buffer.delta_of_row(measure.row(row)).people.values()) == count, row
    assert sum(buffer.delta_of_row(Measure("sale").row(link_key("other"))).people.values()) == 0
