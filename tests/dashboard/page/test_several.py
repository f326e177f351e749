"""Several links and groups on one chart: who is on it, which points they share, and what is refused."""

from __future__ import annotations

import csv
import io
import re
import time
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote, urlencode

import httpx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from clickcurve.answers.counts import CurveAnswer, PointAnswer
from clickcurve.buckets.errors import ParameterInvalid
from dashboard.page.several.common_points import with_common_points
from dashboard.page.several.names import MOST_CHARACTERS, several_view, subjects_of
from dashboard.page.view import view_of
from server.tokens.token import Scope
from testing.client import http_client
from testing.server import RunningServer
from testing.tokens import add_token
from tests.conftest import Serve
from tests.dashboard.page.conftest import DAY_S, HOSTILE
from tests.dashboard.page.test_page import Found

NAMES = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=16)  # at most 64 bytes


# --- addresses --------------------------------------------------------------------------------------------------------
@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["key", "group"]), NAMES), min_size=1, max_size=6), st.booleans())
def test_an_address_names_each_link_and_group_once(named: list[tuple[str, str]], twice: bool) -> None:
    query = urlencode([*named, *(named if twice else []), ("last", "7d")])
    view = several_view(query.encode())
    assert view.last == "7d"
    assert [*(("key", key) for key in view.keys), *(("group", name) for name in view.groups)] == sorted(
        dict.fromkeys(named), key=lambda each: each[0], reverse=True
    )
    assert several_view(view.address().removeprefix("?").encode()) == view
    assert view.of_one() == "?last=7d", "what it leads to is of one"


@pytest.mark.parametrize(
    ("query", "field", "value", "rule"),
    [
        ("", "key", "", "1 to 6 links and groups"),
        ("last=7d", "key", "", "1 to 6 links and groups"),
        ("key=", "key", "", "1 to 6 links and groups"),
        ("key=a&key=b&key=c&key=d&group=e&group=f&key=g", "key", "g", "1 to 6 links and groups"),
        ("key=a&key=b&key=c&key=d&key=e&key=f&group=g", "group", "g", "1 to 6 links and groups"),
        ("key=%FF", "key", "%FF", "UTF-8"),
        (f"key={'x' * 1_025}", "key", "x" * 1_025, "1 to 1,024 bytes"),
        (f"group={'x' * 65}", "group", "x" * 65, "1 to 64 bytes"),
        (f"key={'x' * 1_024}&key={'y' * 1_024}&key=z", "key", "z", f"at most {MOST_CHARACTERS:,} characters"),
        ("key=a&nonsense=1", "nonsense", "1", "one of last"),
    ],
)  # fmt: skip
def test_what_is_refused_names_field_value_and_rule(query: str, field: str, value: str, rule: str) -> None:
    with pytest.raises(ParameterInvalid) as refused:
        several_view(query.encode())
    assert refused.value.field == field
    assert str(refused.value.value).startswith(value[:100])
    assert rule in str(refused.value.rule)


def test_other_pages_know_no_keys() -> None:
    with pytest.raises(ParameterInvalid, match="'key' is not known here"):
        view_of(b"key=a")
    assert [each.name for each in subjects_of(several_view(b"group=g&key=a+b"))] == ["a b", "g"]


# --- points -----------------------------------------------------------------------------------------------------------
LAST_HOUR = 24 * 21


@st.composite
def curves(draw: st.DrawFn) -> list[CurveAnswer]:
    """Curves of one range, whose buckets begin at other hours."""
    found = []
    for _ in range(draw(st.integers(1, 6))):
        inner = sorted(draw(st.sets(st.integers(1, LAST_HOUR - 1), max_size=40)))
        edges = [-draw(st.integers(0, 5)), *inner, LAST_HOUR + draw(st.integers(0, 5))]
        points = [
            PointAnswer(
                start * 3_600, end * 3_600, draw(st.integers(0, 99)), draw(st.sampled_from(["complete", "open"]))
            )
            for start, end in pairwise(edges)
        ]
        total = sum(point.count for point in points)
        found.append(CurveAnswer("k", 0, LAST_HOUR * 3_600, "1h", "UTC", 0, total, total, total, True, points))
    return found


@settings(deadline=None)
@given(curves())
def test_points_of_all_curves_begin_and_end_together_and_no_hit_is_lost(some: list[CurveAnswer]) -> None:
    joined = with_common_points(some)
    spans = [[(point.start, point.end) for point in curve.points] for curve in joined]
    assert all(each == spans[0] for each in spans)
    assert all(one[1] == other[0] for one, other in pairwise(spans[0])), "they tile the range"
    for before, after in zip(some, joined, strict=True):
        assert sum(point.count for point in after.points) == before.total
        edges = [point.start for point in before.points]
        for point in after.points[1:]:
            assert point.start in edges, "no bucket is cut"
            counted = sum(each.count for each in before.points if point.start <= each.start < point.end)
            assert counted == point.count


@settings(deadline=None)
@given(curves())
def test_curves_with_the_same_points_keep_them(some: list[CurveAnswer]) -> None:
    assume(len(some[0].points) > 1)
    again = with_common_points([some[0]] * 3)
    assert again == [some[0]] * 3


# --- the page ---------------------------------------------------------------------------------------------------------
def lines_of(page: str) -> list[list[str]]:
    """The cells of each line of the legend."""
    (table,) = re.findall(r'<table class="links drawn">.*?</table>', page, re.S)
    rows = re.findall(r"<tr>(.*?)</tr>", table, re.S)[1:]
    return [
        [" ".join(Found(cell).text.split()) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)]
        for row in rows
    ]


def test_links_and_groups_are_drawn_with_number_and_change_and_a_way_to_each(http: httpx.Client) -> None:
    page = http.get("/compare?key=launch&key=link-00&group=spring&key=never&last=7d&step=1d").text
    lines = lines_of(page)
    assert [line[0].partition(" no hits")[0] for line in lines] == [
        "1 launch",
        "2 link-00",
        "3 never",
        "4 Group spring",
    ]
    assert "none has come yet, or it was deleted" in lines[2][0] and "none has come" not in lines[0][0]
    for line, path in zip(lines, ("links/launch", "links/link-00", "links/never", "groups/spring"), strict=True):
        asked = http.get(f"/v1/{path}/total?last=7d&compare=before").json()
        assert line[1] == f"{asked['total']:,}"
    assert lines[0][3] == "0 %" or "%" in lines[0][3], "what changed of launch"
    assert lines[1][3] == "↑ new"
    assert 'href="links/launch?last=7d&amp;step=1d"' in page and 'href="groups/spring?last=7d&amp;step=1d"' in page
    assert 'href="?last=7d&amp;step=1d&amp;key=launch&amp;key=never&amp;group=spring"' in page, "without link-00"
    assert page.count("<polyline") == 4
    heads = re.findall(r'<th scope="col" title="([^"]*)">', page)
    assert heads == ["launch", "link-00", "never", "group spring"]
    assert len(re.findall(r"<tr><td>", page)) == 7, "a line of the table for each day"


def test_the_numbers_are_those_of_the_curves(http: httpx.Client) -> None:
    answer = http.get("/compare.csv?key=launch&group=spring&last=7d&step=1d")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    asked = http.get("/v1/links/launch/curve?last=7d&step=1d").json()["points"]
    assert [int(row["launch"]) for row in rows] == [point["count"] for point in asked]
    assert [row["state"] for row in rows] == [point["state"] for point in asked]
    of_group = http.get("/v1/groups/spring/curve?last=7d&step=1d").json()["points"]
    assert [int(row["group spring"]) for row in rows] == [point["count"] for point in of_group]
    assert rows[0]["start"].endswith("+00:00")


def test_links_of_which_one_is_kept_by_weeks_have_weeks(http: httpx.Client) -> None:
    """link-00 has minutes of today alone, launch a year: old days of both are the weeks that are kept."""
    rows = list(csv.DictReader(io.StringIO(http.get("/compare.csv?key=launch&key=link-00&last=12mo").text)))
    total = http.get("/v1/links/launch/total?last=12mo").json()
    assert total["at_least"] <= sum(int(row["launch"]) for row in rows) <= total["at_most"]
    assert sum(int(row["link-00"]) for row in rows) == 40
    assert all(one["end"] == other["start"] for one, other in pairwise(rows))


def test_the_range_the_filter_and_the_choice_of_bots_hold_for_all(http: httpx.Client) -> None:
    asked = "/compare?key=launch&group=spring&from=0"
    assert lines_of(http.get(asked).text)[0][1] == "4,000"
    by_ref = http.get(f"{asked}&by=ref&value=news.example").text
    assert "Referrer: <bdi>news.example</bdi>" in by_ref
    assert lines_of(by_ref)[0][1] == lines_of(by_ref)[1][1] == "1,340"
    bots = http.get(f"{asked}&bots=only").text
    assert [line[1] for line in lines_of(bots)] == ["800", "0"] and "Bots:" in bots
    page = http.get(asked).text
    for form in re.findall(r"<form method=\"get\">.*?</form>", page, re.S):
        assert 'name="key" value="launch"' in form and 'name="group" value="spring"' in form
    periods = re.findall(r'<li><a href="([^"]*)" aria-keyshortcuts', page)
    periods += re.findall(r'<li><a href="([^"]*)" aria-current="true" aria-keyshortcuts', page)
    assert len(periods) == 13 and all("key=launch&amp;group=spring" in address for address in periods)


@pytest.mark.parametrize(
    "rest", ["to=2026-06-30", "from=2026-01-01", "last=1d", "last=60m", "step=native", "tz=Asia/Kolkata"]
)
def test_each_kind_of_range_has_one_axis(http: httpx.Client, rest: str) -> None:
    page = http.get(f"/compare?key=launch&key=link-03&key=never&{rest}")
    assert page.status_code == 200
    assert page.text.count("<polyline") == 3


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("key=a&key=b&key=c&key=d&key=e&key=f&key=seventh", 422, ("'seventh' is one too many", "1 to 6 links")),
        ("", 422, ("no link and no group is named", "key=a&amp;key=b")),
        ("key=a&last=wrong", 422, ("last",)),
        ("key=a&by=nothing&value=x", 404, ("nothing",)),
        ("key=a&from=2026-05-02&to=2026-05-01", 422, ("from",)),
    ],
)
def test_what_cannot_be_drawn_is_said_on_a_page(
    http: httpx.Client, query: str, status: int, words: tuple[str, ...]
) -> None:
    for path in ("/compare", "/compare.csv"):
        answer = http.get(f"{path}?{query}", headers={"Accept": "text/html"})
        assert answer.status_code == status
        text = answer.text.replace("&#39;", "'")
        assert all(word in text for word in words)


def test_keys_of_strangers_are_text(http: httpx.Client) -> None:
    query = "&".join(f"key={quote(key, safe='')}" for key in HOSTILE[:6])
    page = http.get(f"/compare?{query}")
    assert page.status_code == 200
    assert "<img" not in page.text and "<script>alert" not in page.text
    assert [line[1] for line in lines_of(page.text)] == ["100"] * 6
    assert "6 lines are as many as one chart has." in page.text
    rows = http.get(f"/compare.csv?key={quote('=1+1')}&last=1d").text
    assert rows.splitlines()[0] == "start,end,'=1+1,state", "no formula for a spreadsheet"


def test_a_deleted_link_says_so(serve: Serve) -> None:
    with http_client(serve().url) as http:
        http.post("/v1/hits", json=[{"key": "gone", "count": 5}, {"key": "here", "count": 3}]).raise_for_status()
        assert [line[1] for line in lines_of(http.get("/compare?key=gone&key=here").text)] == ["5", "3"]
        http.delete("/v1/links/gone").raise_for_status()
        lines = lines_of(http.get("/compare?key=gone&key=here").text)
        assert [line[1] for line in lines] == ["0", "3"] and "it was deleted" in lines[0][0]


def test_a_token_with_a_prefix_draws_its_own_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    token = add_token(data / "tokens.json", "acme", (Scope.write, Scope.read), prefix="acme/")
    with RunningServer(data) as server, http_client(server.url) as http:
        assert http.get("/compare?key=acme/x").status_code in (303, 401), "nobody has signed in"
        sent = {"Authorization": f"Bearer {token}"}
        http.post("/v1/hits", json=[{"key": "acme/x", "count": 7}], headers=sent).raise_for_status()
        allowed = http.get("/compare?key=acme/x&group=acme", headers=sent)
        assert [line[1] for line in lines_of(allowed.text)] == ["7", "7"]
        for other in ("key=beta/x", "key=beta/never", "group=beta"):
            for path in ("/compare", "/compare.csv"):
                refused = http.get(f"{path}?key=acme/x&{other}", headers=sent)
                assert (refused.status_code, "beta/never" in refused.text) == (403, False), other
                assert "7" not in Found(refused.text).text.replace("127", "")


# --- the way there ----------------------------------------------------------------------------------------------------
def ticks(page: str) -> list[tuple[str, str]]:
    found = [attributes for tag, attributes in Found(page).tags if tag == "input" and attributes.get("class") == "tick"]
    assert all(each["form"] == "compare" for each in found)
    return [(str(each["name"]), str(each["value"])) for each in found]


def test_lists_have_ticks_that_a_form_without_a_script_sends(http: httpx.Client) -> None:
    overview = http.get("/?last=7d&tz=Europe/Vienna").text
    assert ("group", "spring") in ticks(overview) and ("key", "launch") in ticks(overview)
    assert overview.count('<form id="compare"') == 1
    (form,) = re.findall(r'<form id="compare" method="get" action="([^"]*)">(.*?)</form>', overview, re.S)
    hidden = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', form[1])
    assert (form[0], hidden) == ("compare", [("last", "7d"), ("tz", "Europe/Vienna")])
    page = http.get(form[0], params=[*hidden, *ticks(overview)[:2]])
    assert page.status_code == 200 and len(lines_of(page.text)) == 2
    table = http.get("/links").text
    assert table.count('<form id="compare"') == 1 and len(ticks(table)) == 30 - 1, "but for a key that no form can send"
    found = table.partition('<div id="list"')[2]
    assert 'form id="compare"' not in found and 'form="compare" class="plain"' in found, "what is found has a button"


def test_a_key_that_browsers_would_send_as_another_has_no_tick(serve: Serve) -> None:
    keys = ["a\nb", "a\rb", "a\0b", "a b ", '"&+%']
    with http_client(serve().url) as http:
        http.post("/v1/hits", json=[{"key": key, "ts": time.time() - DAY_S} for key in keys]).raise_for_status()
        assert {value for _, value in ticks(http.get("/links").text)} == {"a b ", '"&+%'}
