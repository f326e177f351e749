"""`clickcurve import --from PRODUCT` into a running server: once, again, and after more came."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clickcurve.hosts import HOSTS_IGNORED
from ingest.imports.products.products import read_product
from ingest.imports.products.takeover import Takeover
from server.clock import now
from testing.client import Clickcurve
from testing.server import RunningServer
from tests.ingest.imports.products import exports
from tests.server.commands import said

DAY = 86_400


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def take_over(server: RunningServer, product: str, *given: str | Path, code: int = 0) -> str:
    return said("import", "--from", product, "--url", server.url, *map(str, given), code=code)


def totals(server: RunningServer, *keys: str) -> list[tuple[int, int]]:
    """People of all time, and of them without dates, of each link."""
    with Clickcurve(server.url) as client:
        return [(found["lifetime"], found["opening"]) for found in map(client.link, keys)]


@pytest.mark.parametrize(
    ("product", "files", "expected"),
    [
        (
            "shlink",
            {"visits_csv": exports.SHLINK_VISITS, "links_csv": exports.SHLINK_LINKS},
            {"abc": (11, 10), "old": (40, 40), "with/slash": (1, 0)},
        ),
        (
            "yourls",
            {"log_csv": exports.YOURLS_LOG.replace("ozh", "yo"), "url_csv": exports.YOURLS_URL.replace("ozh", "yo")},
            {"yo": (99, 98), "none": (5, 5)},
        ),
        (
            "kutt",
            {"visits_csv": exports.KUTT_VISITS_TABLE, "links_csv": exports.KUTT_LINKS_TABLE},
            {"qs": (30, 26), "a,b": (2, 0)},
        ),
        ("bitly", {"clicks_ndjson": exports.BITLY_LINES}, {"3abc": (20, 7), "only-total": (6, 6)}),
        (
            "goatcounter",
            {"export_csv": exports.GOATCOUNTER_CSV.replace("/abc", "/goat")},
            {"goat": (1, 0), "click-banana": (1, 0)},
        ),
    ],
)
def test_an_export_counts_once_however_often_it_is_taken_over(
    shared: RunningServer, folder: Path, product: str, files: dict[str, Any], expected: dict[str, tuple[int, int]]
) -> None:
    paths = exports.written(folder, **files)
    assert "counted" in take_over(shared, product, *paths)
    assert totals(shared, *expected) == list(expected.values())
    again = take_over(shared, product, *paths)
    assert "counted 0, late 0, refused 0" in again
    assert totals(shared, *expected) == list(expected.values())


def test_a_later_export_counts_what_came_since(shared: RunningServer, folder: Path) -> None:
    head, *visits = exports.SHLINK_VISITS.replace("abc", "later").replace("slash", "later").splitlines()[:4]
    more = visits[0].replace("2026-02-03T10", "2026-02-04T10")
    (first,) = exports.written(folder, first_csv="\n".join([head, *visits]) + "\n")
    (second,) = exports.written(folder, second_csv="\n".join([head, more, *visits]) + "\n")
    take_over(shared, "shlink", first)
    assert totals(shared, "later", "with/later") == [(1, 0), (1, 0)]
    assert "counted 1," in take_over(shared, "shlink", second)
    assert totals(shared, "later", "with/later") == [(2, 0), (1, 0)]
    assert "nothing new" in take_over(shared, "shlink", first), "the older export is a part of the newer one"


def test_other_totals_of_a_product_are_refused_and_taken_under_a_label(shared: RunningServer, folder: Path) -> None:
    first, second = exports.written(
        folder, a_json={"address": "t1", "visit_count": 5}, b_json={"address": "t1", "visit_count": 7}
    )
    take_over(shared, "kutt", "--label", "one", first)
    refused = take_over(shared, "kutt", "--label", "one", second, code=1)
    assert "without dates were taken over before" in refused
    assert totals(shared, "t1") == [(5, 5)]
    take_over(shared, "kutt", "--label", "two", second)
    assert totals(shared, "t1") == [(12, 12)]


def test_a_day_of_last_week_has_no_bucket_unless_it_is_asked_for(shared: RunningServer, folder: Path) -> None:
    day = now() // DAY * DAY - 7 * DAY
    answer = {"bitlink": "bit.ly/week", "unit": "day", "units": -1, "link_clicks": [{"clicks": 3, "date": day}]}
    (file,) = exports.written(folder, days_json=answer)
    assert "reaches over an edge" in take_over(shared, "bitly", file, code=1)
    assert totals(shared, "week") == [(0, 0)]
    take_over(shared, "bitly", "--wide", "start", "--label", "start", file)
    assert totals(shared, "week") == [(3, 0)]


def test_into_a_folder_that_no_server_holds(folder: Path) -> None:
    paths = exports.written(folder, v_csv=exports.SHLINK_VISITS, l_csv=exports.SHLINK_LINKS)
    data = folder / "data"
    text = said("import", "--from", "shlink", "--data", str(data), *map(str, paths), "--json")
    dated, undated = (json.loads(line) for line in text.splitlines())
    assert (dated["source"], dated["counted"], dated["bad"]) == ("shlink", 3, 1)
    assert (undated["source"], undated["counted"]) == ("shlink totals", 50)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--from", "shlink", "--follow", "x.csv"), "cannot be combined with --follow"),
        (("--from", "shlink", "-"), "--from takes files and no standard input"),
        (("--from", "nobody", "x.csv"), "nobody"),
        (("--from", "kutt", "none.csv"), "none.csv cannot be read"),
    ],
)
def test_what_does_not_go_together_is_refused(shared: RunningServer, arguments: tuple[str, ...], sentence: str) -> None:
    code = 1 if "kutt" in arguments else 2
    assert sentence in said("import", "--url", shared.url, *arguments, code=code)


def test_what_visits_say_is_divided_as_hits_of_today_are(shared: RunningServer, folder: Path) -> None:
    log = exports.YOURLS_LOG.replace("ozh", "worded").replace("Ozh", "worded")
    hours = exports.KUTT_VISITS_WITH_WORDS
    (yourls,) = exports.written(folder, log_csv=log.replace("direct", "https://news.example/x", 1))
    kutt = exports.written(folder, v_csv=hours, l_csv=exports.KUTT_LINKS_TABLE.replace("qs", "worded-hours"))
    for _ in range(2):
        take_over(shared, "yourls", yourls)
        take_over(shared, "kutt", "--label", "worded", *kutt)

    def by(key: str, dimension: str) -> dict[str, tuple[int, int]]:
        with Clickcurve(shared.url) as client:
            answer = client.http.get(f"/v1/links/{key}/by/{dimension}").raise_for_status().json()
        return {each["value"]: (each["at_least"], each["at_most"]) for each in answer["values"]}

    assert by("worded", "ref") == {"news.example": (1, 1), "": (1, 1)}
    assert by("worded", "country") == {"FR": (2, 2)}
    assert by("worded", "device") == {"desktop": (2, 2)}
    assert by("worded-hours", "country")["DE"] == (3, 4)
    assert by("worded-hours", "ref")["news.example"] == (3, 3)
    with Clickcurve(shared.url) as client:
        assert (
            client.http.get("/v1/links/worded/by/ref/curve?value=news.example&from=0&step=1mo").json()["at_least"] == 1
        )


def test_a_key_is_decoded_and_an_export_of_an_older_version_is_known_again(shared: RunningServer, folder: Path) -> None:
    """Its lines have keys as sent, by which their source is known: what came since counts under the decoded key."""
    visit = '2026-02-0{day}T10:00:05+00:00,,"{agent}",,,,,https://s.test/%F0%9F%9A%80%6e,,valid_short_url'
    head = exports.SHLINK_VISITS.splitlines()[0]
    visits = [visit.format(day=day, agent=exports.BROWSER) for day in (3, 2, 1)]
    links = 'shortCode,visits\n"🚀n",3\n'
    with Takeover(HOSTS_IGNORED, lambda agent: False) as taken:
        read_product("shlink", exports.written(folder, old_csv="\n".join([head, *visits[1:]])), taken)
        lines = b"".join(taken.history())
    assert json.loads(lines.splitlines()[0])["key"] == "%F0%9F%9A%80%6e"
    with Clickcurve(shared.url) as client:
        before = client.link("🚀n")["lifetime"]
        (history,) = exports.written(folder, history_ndjson=lines.decode())
        # What an older version sent: these lines, under the label of the product's export.
        said("import", "--kind", "history", "--label", "shlink:", "--url", shared.url, str(history))
        paths = exports.written(folder, new_csv="\n".join([head, *visits]) + "\n", links_csv=links)
        assert "counted 1," in take_over(shared, "shlink", *paths)
        assert client.link("🚀n")["lifetime"] - before == 1
        assert client.link("%F0%9F%9A%80%6e")["lifetime"] == 2
        take_over(shared, "shlink", *paths)
        assert client.link("🚀n") == {**client.link("🚀n"), "lifetime": before + 1, "opening": 0}
