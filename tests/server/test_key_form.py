"""Keys whose case, or a slash at their end, tells no two links apart: by each door, and in each question."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.measures import CLICKS, Measure
from clickcurve.keys import AS_GIVEN, KEY_BYTES, KeyForm, breakdown_key, group_key, link_key
from testing.client import http_client
from tests.conftest import Serve
from tests.server.commands import said

BOTH = KeyForm(lower=True, without_slash=True)


@pytest.mark.parametrize(
    ("form", "key", "counts_as"),
    [
        (AS_GIVEN, "Launch/", "Launch/"),
        (KeyForm(lower=True), "Ab/CD/", "ab/cd/"),
        (KeyForm(without_slash=True), "Ab//", "Ab"),
        (BOTH, "ÄB/", "äb"),
        (BOTH, "/", "/"),
        (BOTH, "//", "//"),
        (BOTH, "İ" * 512, "İ" * 512),  # 1,536 bytes in lower case are no key
    ],
)
def test_a_key_has_one_form(form: KeyForm, key: str, counts_as: str) -> None:
    assert form.of(key) == counts_as
    for measure in (CLICKS, Measure("sale"), Measure("sale", of_values=True)):
        assert form.of_row(measure.row(link_key(key))) == measure.row(link_key(counts_as))


@given(st.text(min_size=1, max_size=40), st.booleans(), st.booleans())
def test_a_form_is_a_key_and_its_own_form(key: str, lower: bool, without_slash: bool) -> None:
    form = KeyForm(lower, without_slash)
    once = form.of(key)
    assert once and form.of(once) == once
    assert len(once.encode("utf-8", "surrogatepass")) <= max(KEY_BYTES, len(key.encode("utf-8", "surrogatepass")))


def test_rows_of_others_keep_their_keys() -> None:
    for clicks in ("", group_key("Spring/"), breakdown_key("Ab")):
        for stored in (clicks, Measure("sale").row(clicks)):
            assert BOTH.of_row(stored) == stored


@pytest.mark.parametrize(
    ("path", "rewritten"),
    [
        (b"/v1/links/Ab%2F/curve", b"/v1/links/ab/curve"),
        (b"/v1/hits/%C3%84b", b"/v1/hits/%C3%A4b"),
        (b"/links/A%2FB%2F", b"/links/a%2Fb"),
        (b"/v4/bitlinks/Bit.ly/AbC/clicks", b"/v4/bitlinks/Bit.ly/abc/clicks"),
        (b"/v1/groups/Spring/curve", b"/v1/groups/Spring/curve"),
        (b"/v1/links", b"/v1/links"),
        (b"/v1/links/%zz", b"/v1/links/%zz"),
        (b"/v1/links//curve", b"/v1/links//curve"),
        (b"*", b"*"),
    ],
)
def test_the_key_in_a_path_is_rewritten_and_nothing_else(path: bytes, rewritten: bytes) -> None:
    assert BOTH.in_path(path) == rewritten


def counts(http: httpx.Client) -> dict[str, int]:
    return {each["key"]: each["count"] for each in http.get("/v1/links?limit=1000").json()["links"]}


def test_each_door_counts_one_link_and_each_question_finds_it(serve: Serve) -> None:
    server = serve("--key-case", "lower", "--trailing-slash", "dropped")
    with http_client(server.url) as http:
        http.post("/v1/hits/Launch").raise_for_status()
        http.post("/v1/hits/launch%2F").raise_for_status()
        http.post("/v1/hits", json={"key": "LAUNCH"}).raise_for_status()
        http.post("/v1/hits", json={"key": "LAUNCH", "id": "1", "source": "qr"}).raise_for_status()
        http.post("/v1/hits", json={"key": "Launch", "ts": 1_700_000_000}).raise_for_status()
        http.post("/v1/hits", json=[{"key": "lauNch/"}] * 9).raise_for_status()
        http.post("/v1/hits", json=[{"key": "lauNch/", "ref": "a.example"}] * 9).raise_for_status()
        http.post(
            "/v1/hits", content='{"key": "LaUnch", "count": 2}\n', headers={"content-type": "application/x-ndjson"}
        )
        event = {"specversion": "1.0", "source": "s", "id": "7", "data": {"key": "LAUNCH"}}
        http.post("/v1/hits", json=[event], headers={"content-type": "application/cloudevents-batch+json"})
        page = {"n": "pageview", "u": "https://s.example/Launch/", "d": "s.example"}
        http.post("/api/event", content=json.dumps(page), headers={"user-agent": "Mozilla/5.0"}).raise_for_status()
        history = {"key": "LAUNCH/", "opening": 100}
        chunk = http.post(
            "/v1/import/x?from=0&to=9", content=json.dumps(history), headers={"content-type": "application/x-ndjson"}
        )
        chunk.raise_for_status()
        total = 1 + 1 + 1 + 1 + 1 + 9 + 9 + 2 + 1 + 1 + 100
        assert counts(http) == {"launch": total}
        for key in ("launch", "LAUNCH", "Launch%2F"):
            assert http.get(f"/v1/links/{key}").json()["lifetime"] == total
            assert http.get(f"/v1/links/{key}/total").json()["total"] == total
            assert http.get(f"/v1/links/{key}/by/ref?value=a.example").json()["values"][0]["at_least"] == 9
        assert http.get("/v1/links?prefix=LAU").json()["links"] == [{"key": "launch", "count": total}]
        assert http.post("/v1/sum?from=0", json={"keys": ["LAUNCH"]}).json()["total"] == total - 100
        asked = http.post("/api/v1/query", data={"query": 'clicks{key="LAUNCH"}'}).json()
        assert asked["data"]["result"][0]["value"][1] == str(total)
        assert http.get("/links/LAUNCH").status_code == 200
        assert said("total", "LaunCH", "--url", server.url, "--json")
        http.delete("/v1/links/LAUNCH").raise_for_status()
        assert http.get("/v1/links/launch").json()["lifetime"] == 0


def test_events_of_a_link_are_found_however_a_tool_writes_its_key(serve: Serve) -> None:
    with http_client(serve("--key-case", "lower", "--trailing-slash", "dropped", "--events-names", "sale").url) as http:
        sale = {"key": "LAUNCH/", "event": "sale", "value": 5, "ref": "a.example"}
        http.post("/v1/hits", json=[sale, sale | {"key": "launch"}]).raise_for_status()

        def assistant(tool: str, **more: str) -> dict[str, Any]:
            arguments = {"key": "LAUNCH/", **more}
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
            said: dict[str, Any] = http.post("/mcp", json=call).json()["result"]["structuredContent"]
            return said

        assert http.post("/v1/sum?from=0&event=sale&measure=value", json={"keys": ["LAUNCH/"]}).json()["total"] == 10
        assert assistant("count", event="sale")["total"] == 2
        assert assistant("events")["events"][0]["value"] == {"at_least": 10, "at_most": 10}
        assert [each["value"] for each in assistant("events", dimension="ref")["values"]] == ["a.example"]
        asked = http.post("/api/v1/query", data={"query": 'events{event="sale",key="LAUNCH/"}'}).json()
        assert [each["value"][1] for each in asked["data"]["result"]] == ["2"]
        (series,) = http.get("/render?format=json&from=-2min&target=events.sale.LAUNCH").json()
        assert sum(count or 0 for count, _ in series["datapoints"]) == 2


def test_what_writes_of_many_links_or_of_a_word_means_the_same_links(serve: Serve) -> None:
    with http_client(serve("--key-case", "lower", "--trailing-slash", "dropped").url) as http:
        http.post("/v1/hits", json=[{"key": "Ab", "ref": "a.example"}, {"key": "Ac"}, {"key": "b"}]).raise_for_status()
        exported = [json.loads(line)["key"] for line in http.get("/v1/export?prefix=A&after=ab").text.splitlines()]
        assert exported == ["ac"]
        asked = http.post("/v1/words/erase", json={"dimension": "ref", "value": "a.example", "key": "AB/"}).json()
        assert asked["key"] == "ab"
        assert http.delete("/v1/links?prefix=A").json() == {"deleted": 2, "more": False}
        assert counts(http) == {"b": 1}


def test_without_the_settings_each_spelling_is_a_link(serve: Serve) -> None:
    with http_client(serve().url) as http:
        for key in ("a", "A", "a%2F"):
            http.post(f"/v1/hits/{key}").raise_for_status()
        assert counts(http) == {"a": 1, "A": 1, "a/": 1}
