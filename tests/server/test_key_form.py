"""Keys whose case, or a slash at their end, tells no two links apart: by each door, and in each question."""

from __future__ import annotations

import json

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    assert form.of_row(link_key(key)) == link_key(counts_as)


@given(st.text(min_size=1, max_size=40), st.booleans(), st.booleans())
def test_a_form_is_a_key_and_its_own_form(key: str, lower: bool, without_slash: bool) -> None:
    form = KeyForm(lower, without_slash)
    once = form.of(key)
    assert once and form.of(once) == once
    assert len(once.encode("utf-8", "surrogatepass")) <= max(KEY_BYTES, len(key.encode("utf-8", "surrogatepass")))


def test_rows_of_others_keep_their_keys() -> None:
    for stored in ("", group_key("Spring/"), breakdown_key("Ab")):
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


def test_without_the_settings_each_spelling_is_a_link(serve: Serve) -> None:
    with http_client(serve().url) as http:
        for key in ("a", "A", "a%2F"):
            http.post(f"/v1/hits/{key}").raise_for_status()
        assert counts(http) == {"a": 1, "A": 1, "a/": 1}
