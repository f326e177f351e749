"""The hours of the week on the page: the cells of the API, their shades, a table of the same numbers, and its CSV."""

from __future__ import annotations

import csv
import io
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickcurve.answers.counts import HourOfWeek, HoursAnswer
from clickcurve.buckets.ladder import DAY_S, HOUR_S
from dashboard.page.audience.hours import SHADES, hours_of
from dashboard.page.view import view_of
from dashboard.questions import GROUP, LINK
from testing.axe import axe_script, violations
from testing.browser import Browser
from testing.client import http_client
from testing.server import RunningServer
from tests.dashboard.page.test_pages import NOW, broken_down_of, one, pages_of, rendered, run
from tests.power import examples
from tests.query.breakdowns.attribute_nodes import AttributeHit, AttributeNodes

CELLS = [(weekday, hour) for weekday in range(1, 8) for hour in range(24)]


@pytest.fixture
def nodes() -> AttributeNodes:
    """Forty days: each at 9:00 of UTC two hits of people and one of a bot, on Mondays at 14:00 twenty more."""
    nodes = AttributeNodes(NOW, {"ref": 0})
    for ago in range(1, 41):
        midnight = NOW - NOW % DAY_S - ago * DAY_S
        said = (("ref", "news.example"),)
        nodes.accept(AttributeHit("k", midnight + 9 * HOUR_S, 2, said=said, groups=("g",)))
        nodes.accept(AttributeHit("k", midnight + 9 * HOUR_S, 1, bot=True))
        if datetime.fromtimestamp(midnight, UTC).isoweekday() == 1:
            nodes.accept(AttributeHit("k", midnight + 14 * HOUR_S, 20, said=said, groups=("g",)))
    nodes.owners[0].flush(NOW)
    return nodes


def hours_on(nodes: AttributeNodes, query: str, kind: str = "") -> Any:
    pages, view = pages_of(nodes, broken_down_of(nodes, visitors=False)), view_of(query.encode())
    name = {LINK: "k", GROUP: "g"}.get(kind, "")
    values: Any = run(one(pages, kind, name, view, NOW)) if kind else run(pages.overview(view, NOW))
    found = [panel.hours for column in values["columns"] for panel in column if panel.kind == "hours"]
    return found[0] if found else None


@pytest.mark.parametrize("kind", ["", LINK, GROUP])
def test_the_hours_are_those_of_people_monday_first_and_as_dark_as_their_average(
    nodes: AttributeNodes, kind: str
) -> None:
    found = hours_on(nodes, "last=28d", kind)
    assert list(found.rows) == ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    monday, tuesday = found.rows["Mon"], found.rows["Tue"]
    assert (monday[14].count, monday[14].shade) == ("80", SHADES)
    assert monday[14].title == "Mon 14:00 - 15:00: 80 hits in 4 such hours"
    assert (tuesday[9].count, tuesday[9].shade) == ("8", 1) and tuesday[10].shade == 0
    assert found.sentence == "Most hits in an hour: Mon 14:00 - 15:00, 20 on average"
    assert found.by_hour[14][0] is monday[14] and len(found.by_hour) == 24
    assert found.when.endswith(", UTC")


def test_the_zone_the_bots_and_the_range_are_those_of_the_page(nodes: AttributeNodes) -> None:
    vienna = hours_on(nodes, "last=28d&tz=Europe/Vienna")
    assert vienna.rows["Mon"][15].count == "80" and vienna.when.endswith("Europe/Vienna")
    assert hours_on(nodes, "last=28d&bots=only").rows["Tue"][9].count == "4"
    assert hours_on(nodes, "last=28d&bots=include").rows["Tue"][9].count == "12"
    three = hours_on(nodes, "from=2026-02-24&to=2026-02-26")
    assert {cell.shade for cell in three.rows["Mon"]} == {-1}, "Tuesday to Thursday"
    assert three.rows["Mon"][14].title == "Mon 14:00 - 15:00: not in this range"
    filtered = hours_on(nodes, "last=28d&by=ref&value=news.example", LINK)
    assert filtered.rows["Mon"][14].count == "80", "of all hits, as the lists are under a filter"


def test_a_zone_of_half_hours_says_that_hours_are_shared(nodes: AttributeNodes) -> None:
    found = hours_on(nodes, "last=28d&tz=Asia/Kolkata")
    assert "kept by hours that two of this zone share" in found.note and hours_on(nodes, "last=28d").note == ""


def test_where_no_hours_are_kept_it_says_so_and_short_ranges_have_none(nodes: AttributeNodes) -> None:
    old = hours_on(nodes, "from=2026-01-20&to=2026-01-24")
    assert old.rows == {} and "hours are not known" in old.sentence
    assert hours_on(nodes, "last=24h") is None and hours_on(nodes, "last=1d") is None
    assert hours_on(nodes, "from=2025-01-20&to=2025-01-24") is None, "nothing was hit"
    assert hours_on(nodes, "last=28d&list=ref") is None, "a whole list stands alone"


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 5)), min_size=168, max_size=168))
def test_shades_follow_averages_and_the_table_has_every_hit(counts: list[tuple[int, int]]) -> None:
    cells = [
        HourOfWeek(*place, count if hours else 0, hours) for place, (count, hours) in zip(CELLS, counts, strict=True)
    ]
    total = sum(cell.count for cell in cells)
    found = hours_of(HoursAnswer("k", 0, 60 * DAY_S, "UTC", 0, total, 0, True, cells), b"last=28d")
    if found is None or not found.rows:
        assert not total or sum(cell.hours for cell in cells) < 48
        return
    shown = [cell for row in found.rows.values() for cell in row]
    assert sum(int(cell.count.replace(",", "") or 0) for cell in shown) == total
    by_average = sorted(
        (cell.count / cell.hours, each.shade) for cell, each in zip(cells, shown, strict=True) if cell.hours
    )
    assert [shade for _, shade in by_average] == sorted(shade for _, shade in by_average)
    assert by_average[-1][1] == SHADES
    assert all((each.shade == -1) == (not cell.hours) for cell, each in zip(cells, shown, strict=True))
    assert all((each.shade == 0) == (not cell.count) for cell, each in zip(cells, shown, strict=True) if cell.hours)


def test_the_html_has_a_picture_in_words_a_table_and_its_csv(nodes: AttributeNodes) -> None:
    view = view_of(b"last=28d")
    values = run(one(pages_of(nodes, broken_down_of(nodes, visitors=False)), LINK, "k", view, NOW))
    text = rendered(values, view=view)
    assert text.count("<i ") + text.count("<i>") == 168
    assert 'role="img" aria-label="Most hits in an hour: Mon 14:00 - 15:00, 20 on average"' in text
    assert 'aria-label="Table of hours of the week"' in text and "hours?last=28d&amp;format=csv&amp;bom=1" in text


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "none"])
@pytest.mark.parametrize(("width", "dark"), [(360, False), (1280, False), (1280, True)])
def test_the_hours_are_seen_and_read_without_a_script_too(
    browser: Browser, pages: RunningServer, width: int, dark: bool, scripts: bool
) -> None:
    with browser.page(width, 800, scripts=scripts, dark=dark) as page:
        for path in ("/", "/links/launch", "/groups/spring"):
            page.open(f"{pages.url}{path}")
            boxes = page.js(
                "[...document.querySelectorAll('.hours i')].map((each) => each.getBoundingClientRect().toJSON())"
            )
            assert len(boxes) == 168 and min(box["width"] for box in boxes) >= 6
            assert max(box["right"] for box in boxes) <= width
            colours = page.js(
                "[0, 1, 5].map((n) => document.querySelector(n ? '.hours .s' + n : '.hours i:not([class])'))"
                ".map((each) => each && getComputedStyle(each).backgroundColor)"
            )
            assert len({each for each in colours if each}) == sum(map(bool, colours)) >= 2
            page.click(".week summary")
            assert page.js("document.querySelectorAll('.week tbody tr').length") == 24
            assert page.js("document.documentElement.scrollWidth") <= width
            assert not scripts or violations(page, axe_script()) == []
            assert page.faults() == []


def test_the_csv_of_the_page_and_of_a_share_are_the_numbers_that_it_shows(pages: RunningServer) -> None:
    with http_client(pages.url) as http:
        made = http.post("/links/launch/share", data={"do": "share", "days": "5"}, headers={"Origin": pages.url})
        share = re.findall(r"/share/[\w.~-]+", made.text)[-1]
        for path, table in (("/links/launch", "/v1/links/launch/hours"), (share, f"{share}/hours"), ("/", "/v1/hours")):
            text = http.get(f"{path}?last=28d").text
            week = text[text.index('aria-label="Table of hours of the week"') :]
            week = week[: week.index("</table>")]
            shown = sum(int(each.replace(",", "")) for each in re.findall(r"<td>([\d,]+)", week))
            rows = list(csv.DictReader(io.StringIO(http.get(f"{table}?last=28d&format=csv").text)))
            assert len(rows) == 168 and sum(int(row["count"]) for row in rows) == shown > 0
        refused = http.get(f"{share}/hours?last=cats")
        assert refused.status_code == 422 and "last" in refused.text
