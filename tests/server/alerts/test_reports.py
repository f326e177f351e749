"""Reports by week and month: of all links, a link, a group, or links by the beginning of their keys."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from clickcurve.buckets.errors import SettingInvalid
from clickcurve.buckets.ladder import DAY_S, HOUR_S
from clickcurve.buckets.measures import measures_of
from clickcurve.keys import ALL_LINKS
from query.breakdowns.why import ChangeQueries
from query.zones import UTC_ZONE, Zone, zone
from server.alerts.ledger import Ledger
from server.alerts.mail import Mail
from server.alerts.report import PeriodicReport, Reports
from server.alerts.webhook import NotDelivered
from server.settings.events import NO_UNIT, Unit
from server.settings.reports import Report, parse_reports, weekly_report
from tests.query.breakdowns.attribute_nodes import AttributeHit, AttributeNodes
from tests.query.queried_nodes import QueriedNodes
from tests.server.alerts.watched import LedgerStore, Receiver

FIRST = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp())  # a Sunday
MAIL = {"mail": ["ann@example.org", "bob@example.org"]}


class Mails:
    """Reports of some nodes, and the mails that they send."""

    def __init__(
        self,
        nodes: Any,
        *tables: dict[str, Any],
        where: Zone = UTC_ZONE,
        why: Any = None,
        units: Mapping[str, Unit] | None = None,
    ) -> None:
        self.nodes, self.receiver, ledger = nodes, Receiver(), Ledger(LedgerStore())
        self.reports = Reports(
            [
                PeriodicReport(
                    each,
                    nodes.queries,
                    why,
                    ledger,
                    self.receiver.send,
                    lambda: float(self.nodes.now),
                    where,
                    units or {},
                )
                for each in parse_reports([MAIL | table for table in tables])
            ]
        )

    def at(self, now: int) -> list[Mail]:
        """The mails that a visit at this time sends."""
        self.nodes.now = now
        before = len(self.receiver.mails)
        asyncio.run(self.reports.visit())
        return self.receiver.mails[before:]


def nodes_of_two_months() -> QueriedNodes:
    nodes = QueriedNodes(now=FIRST - 40 * DAY_S)
    for days, count in ((35, 3), (20, 10), (2, 4)):
        nodes.hit("acme/a", FIRST - days * DAY_S, count, groups=("acme",))
    nodes.hit("acme/b", FIRST - 5 * DAY_S, 2)
    nodes.hit("other", FIRST - 5 * DAY_S, 100)
    return nodes


def test_a_month_is_reported_at_its_end_to_all_addresses_once() -> None:
    mails = Mails(nodes_of_two_months(), {"every": "month"})
    assert mails.at(FIRST - 10 * DAY_S) == [], "the first month is the one in which it begins"
    assert mails.at(FIRST + 5 * HOUR_S) == [], "in the morning"
    (mail,) = mails.at(FIRST + 6 * HOUR_S)
    assert mail.to == ("ann@example.org", "bob@example.org")
    assert mail.subject == "Clickcurve: hits from 01 February 2026 to 28 February 2026"
    assert "(UTC): 116; the month before: 3." in mail.text
    assert "100  other  (the month before: 0)" in mail.text and "14  acme/a  (the month before: 3)" in mail.text
    assert mails.at(FIRST + 7 * HOUR_S) == mails.at(FIRST + 30 * DAY_S) == []
    assert "No link was hit." in mails.at(FIRST + 31 * DAY_S + 6 * HOUR_S)[0].text
    assert mails.receiver.mails[0].id != mails.receiver.mails[1].id


def test_a_prefix_is_the_sum_of_its_links_and_a_group_has_days() -> None:
    mails = Mails(nodes_of_two_months(), {"every": "month", "prefix": "acme/"}, {"every": "month", "group": "acme"})
    mails.at(FIRST - 10 * DAY_S)
    of_prefix, of_group = mails.at(FIRST + 6 * HOUR_S)
    assert (
        of_prefix.subject == "Clickcurve: hits of links that begin with acme/ from 01 February 2026 to 28 February 2026"
    )
    assert "(UTC): 16; the month before: 3." in of_prefix.text and "other" not in of_prefix.text
    assert "14  acme/a" in of_prefix.text and "2  acme/b" in of_prefix.text
    assert "Hits of people of group acme from" in of_group.text and "(UTC): 14; the month before: 3." in of_group.text
    lines = of_group.text.splitlines()
    assert "           4  27 February 2026" in lines and sum("February 2026" in line for line in lines) == 29
    assert of_prefix.id != of_group.id


def test_a_prefix_of_very_many_links_says_of_which_the_sum_is() -> None:
    nodes = QueriedNodes(now=FIRST - 8 * DAY_S)
    for number in range(1_001):
        nodes.hit(f"p/{number:04}", FIRST - 7 * DAY_S + HOUR_S * 30)
    mails = Mails(nodes, {"every": "week", "prefix": "p/"})
    mails.at(FIRST - 3 * DAY_S)
    (mail,) = mails.at(FIRST + DAY_S + 6 * HOUR_S)
    assert "1,000 by the 1,000 links with the most" in mail.text


def test_a_month_begins_in_the_zone() -> None:
    mails = Mails(nodes_of_two_months(), {"every": "month"}, where=zone("Asia/Tokyo"))
    mails.at(FIRST - 10 * DAY_S)
    assert mails.at(FIRST - 4 * HOUR_S) == []
    (mail,) = mails.at(FIRST - 3 * HOUR_S)
    assert "(Asia/Tokyo)" in mail.text and "01 February 2026 to 28 February 2026" in mail.subject


def test_what_changed_is_that_of_the_group() -> None:
    nodes = AttributeNodes(FIRST - 10 * DAY_S, {"ref": 0})
    for days, ref, count in ((40, "news.example", 40), (8, "new.example", 90)):
        said = (("ref", ref),)
        nodes.accept(AttributeHit("k", FIRST - days * DAY_S, count, said=said, groups=("g",)))
        nodes.accept(AttributeHit("k", FIRST - days * DAY_S, 1_000, said=(("ref", "elsewhere.example"),)))
    nodes.owners[0].flush(FIRST)
    mails = Mails(nodes, {"every": "month", "group": "g"}, why=ChangeQueries(nodes.queries, nodes.breakdowns).why)
    mails.at(FIRST - 5 * DAY_S)
    (mail,) = mails.at(FIRST + 6 * HOUR_S)
    assert "What changed" in mail.text and "new.example +90" in mail.text and "elsewhere" not in mail.text


def test_a_report_that_fails_holds_up_no_other() -> None:
    mails = Mails(nodes_of_two_months(), {"every": "month", "link": "acme/a"}, {"every": "month", "group": "acme"})
    mails.at(FIRST - 10 * DAY_S)
    mails.receiver.faults = ["fail"]
    with pytest.raises(NotDelivered):
        mails.at(FIRST + 6 * HOUR_S)
    assert ["of group acme" in mail.subject for mail in mails.receiver.mails] == [True]
    (again,) = mails.at(FIRST + 7 * HOUR_S)
    assert "of link acme/a" in again.subject


def test_the_setting_for_mondays_is_a_report_of_all_links() -> None:
    assert weekly_report(()) == ()
    (report,) = weekly_report(("a@example.org",))
    assert (report.every, report.subject, report.source) == ("week", "all links", "weekly-report")


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({}, "must be tables"),
        ([{"mail": "a@example.org"}], "report 1: every is missing"),
        ([{"every": "day", "mail": "a@example.org"}], "every is 'day'"),
        ([{"every": "week"}], "needs a mail address"),
        ([{"every": "week", "mail": "nobody"}], "must be mail addresses"),
        ([{"every": "week", "mail": "a@example.org", "to": "b"}], "no field to"),
        ([{"every": "week", "mail": "a@example.org", "prefix": ""}], "prefix is empty"),
        ([{"every": "week", "mail": "a@example.org", "prefix": "x" * 257}], "prefix is too long"),
        ([{"every": "week", "mail": "a@example.org", "prefix": "x", "group": "g"}], "a link, a group or a prefix"),
        ([{"every": "week", "mail": "a@example.org", "link": "x", "group": "g"}], "a report takes a link or a group"),
        ([{"every": "week", "mail": "a@example.org"}, {"every": "week", "mail": "b@example.org"}], "report 2: two"),
        ([{"every": "week", "mail": "a@example.org"}] * 101, "101 reports"),
    ],
)
def test_a_wrong_table_is_refused(tables: object, said: str) -> None:
    with pytest.raises(SettingInvalid, match=said):
        parse_reports(tables)


def test_other_addresses_make_no_other_report() -> None:
    def source(**table: object) -> str:
        reports: tuple[Report, ...] = parse_reports([{"every": "week", **table}])
        return reports[0].source

    assert source(mail="a@example.org") == source(mail="b@example.org")
    kinds: tuple[dict[str, object], ...] = ({}, {"link": "x"}, {"group": "x"}, {"prefix": "x"})
    assert len({source(mail="a@example.org", **each) for each in kinds}) == 4


def test_a_report_says_what_came_of_clicks_with_amounts() -> None:
    nodes = nodes_of_two_months()
    for measure, number in zip(measures_of("sale"), (3, 14_970), strict=True):
        nodes.owners[0].other(measure.row(ALL_LINKS), FIRST - 5 * DAY_S, number)
    mails = Mails(nodes, {"every": "month"}, units={"lead": NO_UNIT, "sale": Unit("EUR", 2)})
    mails.at(FIRST - 10 * DAY_S)
    (mail,) = mails.at(FIRST + 6 * HOUR_S)
    assert mail.text.splitlines()[2:4] == [
        "lead: 0; the month before: 0.",
        "sale: 3 (149.70 EUR); the month before: 0.",
    ]
