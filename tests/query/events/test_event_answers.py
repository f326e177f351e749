"""What events answer, over HTTP: beside clicks, in their place, by a dimension, in lists; and bad questions."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from fastapi import FastAPI

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, BoundedLadder
from clickcurve.buckets.breakdowns.kept_time import KeptTime
from clickcurve.keys import link_subject
from query.http.query_endpoint import QueryEndpoint
from query.http.questions import Questions
from query.http.routes import routes
from server.http.problems import Problems
from storage.memory_store import MemoryStore
from tests.query.events.event_nodes import NOW, EventHit, EventNodes
from tests.query.queried_nodes import Limits, unmarked, unnoted

DAY = NOW - NOW % 86_400
HOUR = NOW - NOW % 3_600


class Served:
    """A node with events over HTTP, in the loop of the test."""

    def __init__(self, nodes: EventNodes, runner: asyncio.Runner) -> None:
        self.nodes, self._runner, app, problems = nodes, runner, FastAPI(), Problems()
        problems.install(app)
        app.include_router(routes(nodes.asker.queries, self._erase, unnoted, unmarked))
        questions = Questions(nodes.asker.queries, nodes.asker.breakdowns, Limits())
        endpoint = QueryEndpoint(questions, problems.answer, app, lambda: 0.0)
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(endpoint), base_url="http://node")

    async def _erase(self, keys: object) -> None:
        raise AssertionError(f"{keys} is not to be erased")

    def get(self, path: str) -> httpx.Response:
        return self._runner.run(self._client.get(path))

    def json(self, path: str) -> dict[str, Any]:
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def at_once(self, *paths: str) -> list[dict[str, Any]]:
        """The answers to questions beside each other."""

        async def asked() -> list[httpx.Response]:
            return await asyncio.gather(*map(self._client.get, paths))

        return [dict(answer.json()) for answer in self._runner.run(asked())]

    def sum(self, query: str, *keys: str) -> httpx.Response:
        return self._runner.run(self._client.post(f"/v1/sum?{query}", json={"keys": [*keys]}))


async def sold(nodes: EventNodes) -> None:
    """Clicks, leads and sales of three links, of today and yesterday, some of them flushed."""
    await nodes.accept(
        EventHit("k", NOW - 86_400, count=40, ref="news.example", groups=("g",)),
        EventHit("k", NOW - 86_400, "sale", 1_000, 2, ref="news.example", groups=("g",)),
        EventHit("k", NOW, count=10),
        EventHit("k", NOW, count=5, bot=True),
        EventHit("other", NOW, count=50, ref="mail.example"),
    )
    await nodes.flush()
    await nodes.accept(
        EventHit("k", NOW, "sale", 250, ref="mail.example", id="order-1"),
        EventHit("k", NOW, "sale", 7, id="order-2", groups=("g",)),
        EventHit("k", NOW, "sale", 90, bot=True),
        EventHit("k", NOW, "lead", count=5, ref="news.example"),
        EventHit("other", NOW, "sale", 5_000),
        EventHit("only/sold", NOW, "sale", 3, count=9),
    )
    await nodes.accept(EventHit("k", NOW, "sale", 250, ref="mail.example", id="order-1"))  # a webhook, again


@pytest.fixture(params=["pending", "flushed"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    nodes = EventNodes(tmp_path, MemoryStore())
    with asyncio.Runner() as runner:
        runner.run(sold(nodes))
        if request.param == "flushed":
            runner.run(nodes.flush())
        yield Served(nodes, runner)
        runner.run(nodes.close())


def event(name: str, count: int, value: int, rate: float | None) -> dict[str, Any]:
    """An event of an answer that is exact."""
    bounds = None if rate is None else {"at_least": rate, "at_most": rate}
    values = {"at_least": value, "at_most": value}
    return {"event": name, "at_least": count, "at_most": count, "value": values, "rate": bounds}


def clicks(count: int) -> dict[str, int]:
    return {"at_least": count, "at_most": count}


def test_events_stand_beside_clicks_with_their_values_and_rates(served: Served) -> None:
    of_life = {"from": None, "to": None, "exact": True}
    assert served.json("/v1/links/k/events") == {
        **of_life,
        "key": "k",
        "clicks": clicks(50),
        "events": [event("lead", 5, 0, 0.1), event("sale", 4, 2_257, 0.08)],
    }
    assert served.json("/v1/groups/g/events") == {
        **of_life,
        "key": "g",
        "clicks": clicks(40),
        "events": [event("lead", 0, 0, 0.0), event("sale", 3, 2_007, 0.075)],
    }
    assert served.json("/v1/events") == {
        **of_life,
        "key": None,
        "clicks": clicks(100),
        "events": [event("lead", 5, 0, 0.05), event("sale", 14, 7_284, 0.14)],
    }
    today = served.json("/v1/links/k/events?last=1d")
    assert (today["from"], today["clicks"]) == (DAY, clicks(10))
    assert today["events"] == [event("lead", 5, 0, 0.5), event("sale", 2, 257, 0.2)]
    bots = served.json("/v1/links/k/events?bots=only")
    assert (bots["clicks"], bots["events"]) == (clicks(5), [event("lead", 0, 0, 0.0), event("sale", 1, 90, 0.2)])


def test_without_clicks_there_is_no_rate_and_a_link_that_never_was_has_nothing(served: Served) -> None:
    sold = served.json("/v1/links/only%2Fsold/events")
    assert (sold["clicks"], sold["events"]) == (clicks(0), [event("lead", 0, 0, None), event("sale", 9, 27, None)])
    never = served.json("/v1/links/never/events?last=7d")
    assert (never["clicks"], never["events"]) == (clicks(0), [event("lead", 0, 0, None), event("sale", 0, 0, None)])
    assert never["exact"]


def test_a_range_that_cuts_a_bucket_says_between_which_numbers_all_of_it_lies(served: Served) -> None:
    served.nodes.now += 40 * 86_400  # its hits lie in days now
    ranged = f"from={DAY + 60}&to={NOW}"
    of_life, cut = (served.json(f"/v1/links/k/events?{query}") for query in ("", ranged))
    assert of_life["exact"] and not cut["exact"]
    assert cut["clicks"] == {"at_least": 0, "at_most": 10}
    sale = {"event": "sale", "at_least": 0, "at_most": 2, "value": {"at_least": 0, "at_most": 257}, "rate": None}
    assert cut["events"][1] == sale
    by = served.json(f"/v1/links/k/events/by/ref?{ranged}")
    assert by["from"] <= DAY and by["clicks"] == clicks(10) and not by["exact"]
    assert by["events"][1] == event("sale", 2, 257, 0.2)
    check_law(by)


def test_events_by_a_dimension_list_hits_without_a_value_too(served: Served) -> None:
    answer = served.json("/v1/links/k/events/by/ref")
    assert answer == {
        "key": "k",
        "dimension": "ref",
        "from": None,
        "to": None,
        "clicks": clicks(50),
        "events": [event("lead", 5, 0, 0.1), event("sale", 4, 2_257, 0.08)],
        "values": [
            {
                "value": "news.example",
                "clicks": clicks(40),
                "events": [event("lead", 5, 0, 0.125), event("sale", 2, 2_000, 0.05)],
            },
            {"value": "", "clicks": clicks(10), "events": [event("lead", 0, 0, 0.0), event("sale", 1, 7, 0.1)]},
            {
                "value": "mail.example",
                "clicks": clicks(0),
                "events": [event("lead", 0, 0, None), event("sale", 1, 250, None)],
            },
        ],
        "not_shown": {
            "values": 0,
            "clicks": 0,
            "events": [{"event": "lead", "count": 0, "value": 0}, {"event": "sale", "count": 0, "value": 0}],
        },
        "other": {
            "clicks": 0,
            "events": [{"event": "lead", "count": 0, "value": 0}, {"event": "sale", "count": 0, "value": 0}],
        },
        "exact": True,
    }
    few = served.json("/v1/links/k/events/by/ref?limit=1")
    assert [each["value"] for each in few["values"]] == ["news.example", ""]
    assert few["not_shown"]["values"] == 1
    assert few["not_shown"]["events"][1] == {"event": "sale", "count": 1, "value": 250}
    assert few["exact"]
    check_law(few)
    of_all = served.json("/v1/events/by/ref?last=1d")
    assert [(each["value"], each["clicks"]["at_least"]) for each in of_all["values"]] == [
        ("mail.example", 50),
        ("", 10),
        ("news.example", 0),
    ]
    check_law(of_all)
    of_group = served.json("/v1/groups/g/events/by/ref")
    assert [(each["value"], each["events"][1]["at_least"]) for each in of_group["values"]] == [
        ("news.example", 2),
        ("", 1),
    ]
    check_law(of_group)


async def test_values_that_are_kept_for_a_time_are_other_and_the_answer_says_since_when(tmp_path: Path) -> None:
    bounded = BoundedLadder(BREAKDOWN.ladder, BREAKDOWN.caps, (KeptTime("ref", 30),))
    nodes = EventNodes(tmp_path, MemoryStore(), bounded=bounded)
    old = NOW - 60 * 86_400
    await nodes.accept(
        EventHit("k", old, count=4, ref="old.example"),
        EventHit("k", old, "sale", 70, 2, ref="old.example"),
        EventHit("k", NOW, "sale", 5, ref="new.example"),
    )
    by_ref = await nodes.asker.ask("events/by/ref", link_subject("k"))
    counts = await nodes.asker.ask("by/ref", link_subject("k"))
    assert by_ref["kept_since"] == counts["kept_since"] > old
    assert [each["value"] for each in by_ref["values"]] == ["new.example"]
    assert by_ref["other"]["clicks"] == 4
    assert by_ref["other"]["events"][1] == {"event": "sale", "count": 2, "value": 140}
    assert "kept_since" not in await nodes.asker.ask("events/by/source", link_subject("k"))
    check_law(by_ref)
    await nodes.close()


def check_law(answer: dict[str, Any]) -> None:
    """The parts of an answer add up to its first numbers: clicks, each event, and its values."""
    parts = [each["clicks"]["at_least"] for each in answer["values"]]
    assert sum(parts) + answer["not_shown"]["clicks"] + answer["other"]["clicks"] == answer["clicks"]["at_least"]
    for at, whole in enumerate(answer["events"]):
        shown = [each["events"][at] for each in answer["values"]]
        rest = [answer[part]["events"][at] for part in ("not_shown", "other")]
        assert sum(each["at_least"] for each in shown) + sum(each["count"] for each in rest) == whole["at_least"]
        values = sum(each["value"]["at_least"] for each in shown) + sum(each["value"] for each in rest)
        assert values == whole["value"]["at_least"]


def test_events_as_csv(served: Served) -> None:
    answer = served.get("/v1/links/only%2Fsold/events?format=csv")
    assert answer.headers["content-type"].startswith("text/csv")
    columns = "event,at_least,at_most,value_at_least,value_at_most,rate_at_least,rate_at_most"
    assert answer.text.splitlines() == [columns, "lead,0,0,0,0,,", "sale,9,9,27,27,,"]
    by = served.get("/v1/links/k/events/by/ref?format=csv")
    lines = list(csv.reader(io.StringIO(by.text, newline="")))
    assert lines[0] == ["value", "clicks_at_least", "clicks_at_most", *columns.split(",")]
    assert lines[2] == ["news.example", "40", "40", "sale", "2", "2", "2000", "2000", "0.05", "0.05"]
    assert len(lines) == 1 + 3 * 2


def test_an_event_in_place_of_clicks(served: Served) -> None:
    summary = served.json("/v1/links/k?event=sale")
    assert [summary[name] for name in ("lifetime", "today", "yesterday", "bots")] == [4, 2, 2, 1]
    values = served.json("/v1/links/k?event=sale&measure=value")
    assert [values[name] for name in ("lifetime", "today", "yesterday", "bots")] == [2_257, 257, 2_000, 90]
    assert (served.json("/v1/links/k/total"))["total"] == 50
    for path, total in (("/v1/links/k", 4), ("/v1/groups/g", 3), ("/v1", 14)):
        assert (served.json(f"{path}/total?event=sale"))["total"] == total
    assert (served.json("/v1/links/k/total?event=sale&measure=value&last=1d"))["total"] == 257
    assert (served.json("/v1/links/k/total?event=sale&measure=count&bots=include"))["total"] == 5
    curve = served.json("/v1/links/k/curve?event=sale&measure=value&last=2d&step=1d")
    assert [point["count"] for point in curve["points"]] == [2_000, 257]
    by = served.json("/v1/links/k/by/ref?event=sale")
    assert [(each["value"], each["at_least"]) for each in by["values"]] == [
        ("news.example", 2),
        ("", 1),
        ("mail.example", 1),
    ]
    by = served.json("/v1/by/ref?event=sale&measure=value&value=mail.example")
    assert by["values"] == [{"value": "mail.example", "at_least": 250, "at_most": 250}]
    one = served.json("/v1/groups/g/by/ref/curve?event=sale&value=news.example&last=2d&step=1d")
    assert [point["at_least"] for point in one["points"]] == [2, 0]
    summed = served.sum("event=sale&measure=value&last=2d&step=1d", "k", "other", "k")
    assert [point["count"] for point in summed.json()["points"]] == [2_000, 5_257]


def test_why_of_an_event(served: Served) -> None:
    answer = served.json(f"/v1/why?event=sale&from={DAY}&to={DAY + 86_400}")
    assert answer["total"] == {"before": 2, "after": 12, "change": 10}
    refs = {each["dimension"]: each for each in answer["dimensions"]}["ref"]
    assert {cause["value"]: cause["change"] for cause in refs["causes"]} == {
        "": 11,
        "news.example": -2,
        "mail.example": 1,
    }
    assert [(each["key"], each["change"]) for each in answer["by_link"]] == [("only/sold", 9), ("other", 1)]
    of_value = served.json(f"/v1/links/k/why?event=sale&measure=value&from={DAY}&to={DAY + 86_400}")
    assert of_value["total"] == {"before": 2_000, "after": 257, "change": -1_743}


def test_lists_by_an_event_and_by_its_values(served: Served) -> None:
    def listed(query: str, kind: str = "links") -> list[tuple[Any, ...]]:
        return [tuple(each.values()) for each in (served.json(f"/v1/{kind}?{query}"))[kind]]

    assert listed("event=sale") == [("only/sold", 9), ("k", 4), ("other", 1)]
    assert listed("event=sale&measure=value") == [("other", 1, 5_000), ("k", 4, 2_257), ("only/sold", 9, 27)]
    assert listed("event=sale&measure=value&limit=1&last=1d") == [("other", 1, 5_000)]
    assert listed("event=lead") == [("k", 5)]
    assert listed("event=sale&bots=only") == [("k", 1)]
    assert listed("event=sale&prefix=o&measure=value") == [("other", 1, 5_000), ("only/sold", 9, 27)]
    assert listed("event=sale&sort=key") == [("k", 4), ("only/sold", 9), ("other", 1)]
    assert listed("event=sale&sort=key&measure=value&after=k") == [("only/sold", 9, 27), ("other", 1, 5_000)]
    assert listed("event=sale&sort=key&contains=SOLD") == [("only/sold", 9)]
    assert listed("event=sale", "groups") == [("g", 3)]
    assert listed("event=sale&measure=value", "groups") == [("g", 3, 2_007)]
    assert listed("") == [("k", 50), ("other", 50)]  # no event is in a list of clicks
    assert listed("sort=key") == [("k", 50), ("other", 50)]
    text = (served.get("/v1/links?event=sale&measure=value&limit=1&format=csv")).text
    assert text.splitlines() == ["key,count,value", "other,1,5000"]


@pytest.mark.parametrize(
    ("query", "field", "rule"),
    [
        ("event=order", "event", "lead, sale"),
        ("event=click", "event", 'a name of 1 to 32 of a-z, 0-9 and _, not "click"'),
        ("event=Sale", "event", 'a name of 1 to 32 of a-z, 0-9 and _, not "click"'),
        (f"event={quote('продажа')}", "event", 'a name of 1 to 32 of a-z, 0-9 and _, not "click"'),
        ("event=", "event", 'a name of 1 to 32 of a-z, 0-9 and _, not "click"'),
        ("measure=value", "measure", "together with event"),
        ("event=sale&measure=amount", "measure", "count, value"),
        ("event=sale&event=lead", "event", "once"),
    ],
)
def test_a_bad_event_is_refused_wherever_one_may_be_asked_for(
    served: Served, query: str, field: str, rule: str
) -> None:
    paths = ("/v1/links/k", "/v1/links/k/total", "/v1/groups/g/curve", "/v1/by/ref", "/v1/links/k/why", "/v1/links")
    answers = [served.get(f"{path}?{query}") for path in (*paths, "/v1/groups")]
    answers += [served.get(f"/v1/links/k/by/ref/curve?value=x&{query}"), served.sum(query, "k")]
    for answer in answers:
        problem = answer.json()
        assert (answer.status_code, problem["field"]) == (422, field), answer.text
        assert rule in problem["rule"]


def test_an_unknown_dimension_and_what_events_do_not_take_are_refused(served: Served) -> None:
    unknown = served.get("/v1/links/k/events/by/colour")
    assert (unknown.status_code, unknown.json()["field"], unknown.json()["rule"]) == (404, "dimension", "ref, source")
    for path, field in (
        ("events?event=sale", "event"),
        ("events?limit=3", "limit"),
        ("events/by/ref?bots=only", "bots"),
        ("events/by/ref?limit=0", "limit"),
        ("events?from=never", "from"),
    ):
        answer = served.get(f"/v1/links/k/{path}")
        assert (answer.status_code, answer.json()["field"]) == (422, field), path


def test_questions_beside_each_other_answer_as_alone(served: Served) -> None:
    paths = ["/v1/links/k/events", "/v1/events/by/ref", "/v1/links?event=sale", "/v1/links/k/total?event=sale"]
    alone = [served.json(path) for path in paths]
    assert served.at_once(*paths) == alone
