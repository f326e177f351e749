"""A rule that calls hits bots, seen through every door of a real server: page, share, other tools' shapes, files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from server import clock
from testing.client import http_client
from testing.server import RunningServer
from tests.server.commands import said

DAY_S = 86_400
SPAM, FINE = 41_113, 2_029
BOTH = SPAM + FINE
Answers = dict[str, str]
RANKED = ("/?last=14d", "/links?last=14d")  # pages with a ranking


@pytest.fixture(scope="module")
def spammed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, str]]:
    """A server with one link, hit three and five days ago, and the path of its share."""
    data = tmp_path_factory.mktemp("everywhere") / "data"
    today = int(clock.now()) // DAY_S * DAY_S
    with RunningServer(data, "--flush-s", "3600", "--breakdown-dimensions", "ref,country") as server:
        with http_client(server.url) as http:
            for ref, count, days in (("spam.example", SPAM, 3), ("news.example", FINE, 5)):
                hit = {"key": "a", "ts": today - days * DAY_S + 3_600, "count": count, "ref": ref, "groups": ["g"]}
                http.post("/v1/hits", json={**hit, "country": "DE"}).raise_for_status()
        address = said("share", "a", "--data", str(data), "--url", server.url).strip()
        yield server, address.removeprefix(server.url)


def pages(share: str) -> list[str]:
    return [
        *RANKED,
        "/links/a?last=14d",
        "/links/a",
        f"{share}?last=14d",
        share,
        "/links/a?by=country&value=DE",
    ]


def questions(share: str) -> list[str]:
    """What is asked of the link, each about ten whole days that have ended, or about all time."""
    today = int(clock.now()) // DAY_S * DAY_S
    span = f"from={today - 10 * DAY_S}&to={today}"
    graphite = f"/render?from={today - 10 * DAY_S}&until={today}&format=json&target="
    instant = f"/api/v1/query?time={today}&query="
    along = f"/api/v1/query_range?start={today - 9 * DAY_S}&end={today}&step=86400&query="
    files = [
        *("/links.csv?last=14d", f"/v1/links/a/curve?{span}&step=1d&format=csv", f"/v1/links?{span}&format=csv"),
        *(
            f"/v1/links/a/by/ref?{span}&format=csv",
            f"/v1/links/a/why?{span}&format=csv",
            f"/v1/by/ref?{span}&format=csv",
        ),
        *(
            f"{share}/curve?{span}&step=1d",
            f"{share}/by/ref?{span}",
            f"{share}/by/country?{span}",
            f"{share}/why?{span}",
        ),
        f"{share}/by/ref/curve?{span}&step=1d&value=spam.example",
    ]
    pictures = [f"/v1/links/a/{name}" for name in ("curve.svg?last=14d", "badge.svg", "badge.json")]
    pictures += [f"{share}/curve.svg?last=14d", f"{share}/badge.svg"]
    tools = [
        *(graphite + target for target in ('summarize(clicks.a,"10d")', "clicks.a", "total")),
        *(instant + text for text in ('increase(clicks{key="a"}[10d])', 'increase(clicks{ref="spam.example"}[10d])')),
        instant + 'sum by (ref) (increase(clicks{key="a"}[10d]))',
        instant + 'sum by (country) (increase(clicks{key="a"}[10d]))',
        *(along + text for text in ('increase(clicks{key="a"}[1d])', "sum(increase(clicks[1d]))")),
        *(
            "/metrics/links",
            "/v4/bitlinks/x/a/clicks/summary?unit=day&units=14",
            "/v4/bitlinks/x/a/clicks?unit=day&units=14",
        ),
        "/v4/bitlinks/x/a/referrers?unit=day&units=14",
    ]
    return [*pages(share), *files, *pictures, *tools]


def answers(http: httpx.Client, share: str) -> Answers:
    """Every answer as text, without the times of day: pages say when they were made."""
    found = {}
    for path in questions(share):
        found[path] = text_at(http, path)
    return found


def text_at(http: httpx.Client, path: str) -> str:
    answer = http.get(path)
    assert answer.status_code == 200, (path, answer.text)
    return re.sub(r"\d\d:\d\d(:\d\d)?", "", answer.text)


def wait_for_rankings(server: RunningServer, http: httpx.Client, is_new: Callable[[str, str], bool]) -> None:
    """Waits until pages show new rankings: each serves for twenty times as long as it took, which may be seconds."""
    server.wait_until(lambda: all(is_new(path, text_at(http, path)) for path in RANKED))


def shows(text: str, count: int) -> bool:
    return re.search(rf"(?<!\d)({count}|{count:,})(?!\d)", text) is not None


def test_every_answer_follows_a_rule_and_its_undoing(spammed: tuple[RunningServer, str]) -> None:
    server, share = spammed
    with http_client(server.url) as http:
        before = answers(http, share)
        rule: Any = http.post("/v1/links/a/disavow", json={"ref": "spam.example"}).raise_for_status().json()
        assert (rule["state"], rule["moved"]) == ("settled", SPAM)
        wait_for_rankings(server, http, lambda path, text: text != before[path])
        under = answers(http, share)
        assert [path for path in before if under[path] == before[path]] == []
        for path, text in under.items():
            if path in pages(share):  # these show bots beside people, and the group, which no link's rule reduces
                assert path == "/?last=14d" or not shows(text, BOTH), path
                assert path == "/links?last=14d" or shows(text, FINE), path
            else:
                assert not shows(text, SPAM) and not shows(text, BOTH), path
        for path in ("/links/a?last=14d", share):
            assert f"{SPAM:,} bot hits not counted" in re.sub(r"<[^>]*>", "", under[path])
        http.delete(f"/v1/disavow/{rule['id']}").raise_for_status()
        wait_for_rankings(server, http, lambda path, text: text == before[path])
        after = answers(http, share)
        assert [path for path in before if after[path] != before[path]] == []


def test_tools_that_ask_for_minutes_get_a_corrected_hour_as_one_bucket(
    spammed: tuple[RunningServer, str],
) -> None:
    server, _ = spammed
    hour = (int(clock.now()) // 3_600 - 2) * 3_600
    with http_client(server.url) as http:
        for ref, count, minute in (("spam.example", SPAM, 5), ("news.example", FINE, 50)):
            hit = {"key": "hour", "ts": hour + minute * 60, "count": count, "ref": ref}
            http.post("/v1/hits", json=hit).raise_for_status()

        def rendered(minutes: int) -> list[float]:
            span: dict[str, str | int] = {
                "from": hour,
                "until": hour + minutes * 60,
                "target": "clicks.hour",
                "format": "json",
            }
            (series,) = http.get("/render", params=span).raise_for_status().json()
            return [value for value, _ in series["datapoints"] if value]

        def increased(start: int, end: int) -> int:
            query = f'increase(clicks{{key="hour"}}[{end - start}m])'
            asked = http.get("/api/v1/query", params={"query": query, "time": hour + end * 60})
            found = asked.raise_for_status().json()["data"]["result"]
            return int(found[0]["value"][1]) if found else 0

        def seen() -> list[Any]:
            return [rendered(60), rendered(30), *(increased(*span) for span in ((0, 60), (0, 30), (30, 60), (45, 55)))]

        before = seen()
        assert before == [[SPAM, FINE], [SPAM], BOTH, SPAM, FINE, FINE]
        rule = http.post("/v1/links/hour/disavow", json={"ref": "spam.example"}).raise_for_status().json()
        kept_whole = [FINE]  # the hour is one bucket then: Graphite has it at its start, Prometheus at its end
        assert seen() == [kept_whole, kept_whole, FINE, 0, FINE, 0]
        http.delete(f"/v1/disavow/{rule['id']}").raise_for_status()
        assert seen() == before
