"""Events on their way to rows: beside the clicks of their link, groups and all links, and in no number of these."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from clickcurve.buckets.errors import HitRejected
from clickcurve.buckets.measures import AMOUNT_MAX, VALUE_MAX, Measure, clicks_row, measured
from clickcurve.keys import ALL_LINKS, group_key, link_key
from ingest.attributes.country import OFF, country_reader
from ingest.attributes.profile import ProfileReader
from ingest.attributes.referrer import ReferrerReader
from ingest.buffer import Buffer
from ingest.hit import JsonHit, Moment, RawHits
from ingest.reading.request_sums import RequestSums

MINUTE = 1_790_000_040
MOMENT = Moment(MINUTE, MINUTE - MINUTE % 86_400, MINUTE + 300)
READER = ProfileReader(("ref",), country_reader(OFF), ReferrerReader(), events=("lead", "sale"))


def sums_of(hits: Sequence[JsonHit], name: str | None = None) -> RequestSums:
    sums = RequestSums(MOMENT, name, reader=READER)
    sums.add(RawHits(json=list(hits)), lambda agent: False)
    return sums


def buffered(sums: RequestSums) -> Buffer:
    buffer, batch = Buffer(MOMENT.late_before), sums.batch()
    assert batch is not None
    buffer.add_batch(batch, 1, visible=True)
    return buffer


def total(buffer: Buffer, stored: str) -> tuple[int, int]:
    delta = buffer.delta_of_row(stored)
    return sum(delta.people.values()), sum(delta.bots.values())


@pytest.mark.parametrize("name", [None, "one batch"])
@pytest.mark.parametrize("many", [1, 10])  # by columns, and one by one
def test_an_event_counts_beside_its_link_its_groups_and_all_links_and_nowhere_else(name: str | None, many: int) -> None:
    clicks = [JsonHit("k", groups=["g"]), JsonHit("k"), JsonHit("other")] * many
    sales = [JsonHit("k", event="sale", value=250, count=2, groups=["g"], ref="https://news.example/x")] * many
    ids = [JsonHit("k", event="sale", value=7, id=f"order-{n}") for n in range(many)]
    bots = [JsonHit("k", event="lead", bot=True)] * many
    sums = sums_of([*clicks, *sales, *ids, *bots], name)
    buffer = buffered(sums)
    for row, hits in ((link_key("k"), 2), (group_key("g"), 1), (ALL_LINKS, 3)):
        assert total(buffer, row) == (many * hits, 0)
    of_group = {link_key("k"): (3, 507, 1), group_key("g"): (2, 500, 0), ALL_LINKS: (3, 507, 1)}
    for row, (events, amount, bot_leads) in of_group.items():
        assert total(buffer, Measure("sale").row(row)) == (many * events, 0)
        assert total(buffer, Measure("sale", of_values=True).row(row)) == (many * amount, 0)
        assert total(buffer, Measure("lead").row(row)) == (0, many * bot_leads)
        assert total(buffer, Measure("lead", of_values=True).row(row)) == (0, 0)
    named = buffer.delta_of_breakdown(f"\0by:{Measure('sale', of_values=True).row(ALL_LINKS)}")
    assert [*named.values["ref"].values()] == [{"news.example": many * 500}]
    receipt = sums.receipt()
    assert (receipt.counted, receipt.refused) == (7 * many, 0)


@pytest.mark.parametrize(
    ("hit", "field", "rule"),
    [
        (JsonHit("k", event="order"), "event", "lead, sale"),
        (JsonHit("k", event="click"), "event", 'a name of 1 to 32 of a-z, 0-9 and _, not "click"'),
        (JsonHit("k", event="продажа"), "event", 'a name of 1 to 32 of a-z, 0-9 and _, not "click"'),
        (JsonHit("k", value=3), "value", "beside an event"),
        (JsonHit("k", value=0), "value", "beside an event"),
        (JsonHit("k", event="sale", value=VALUE_MAX + 1), "value", f"an integer from 0 to {VALUE_MAX:,}, of the smal"),
        (JsonHit("k", event="sale", value=-1), "value", f"an integer from 0 to {VALUE_MAX:,}, of the smallest unit"),
        (JsonHit("k", event="sale", value=1.5), "value", f"an integer from 0 to {VALUE_MAX:,}, of the smallest unit"),  # type: ignore[arg-type]
        (JsonHit("k", event="sale", value=True), "value", f"an integer from 0 to {VALUE_MAX:,}, of the smallest unit"),
        (JsonHit("k", event="sale", value=VALUE_MAX, count=1001), "value", f"at most {AMOUNT_MAX:,}"),
    ],
)
def test_a_bad_event_or_value_refuses_that_hit_alone(hit: JsonHit, field: str, rule: str) -> None:
    sums = RequestSums(MOMENT, reader=READER)
    sums.add(RawHits(odd=[JsonHit("good", event="lead"), hit, JsonHit("good")]), lambda agent: False)
    receipt = sums.receipt()
    assert (receipt.counted, [item.index for item in receipt.items]) == (2, [1])
    assert receipt.items[0].field == field and rule in receipt.items[0].reason


def test_the_values_of_one_request_have_a_bound_together() -> None:
    sums = sums_of([JsonHit("k", event="sale", value=VALUE_MAX, count=400) for _ in range(3)])
    receipt = sums.receipt()
    assert (receipt.counted, receipt.refused) == (800, 400)
    assert receipt.items[0].field == "value"


def test_a_judge_of_single_hits_refuses_what_a_batch_refuses() -> None:
    judge = sums_of([]).judge
    with pytest.raises(HitRejected, match="not counted here"):
        judge.hit_of(JsonHit("k", event="order"), lambda agent: False)


@pytest.mark.parametrize("clicks", [ALL_LINKS, link_key("a:b"), link_key("\0event:x:y"), group_key("g:h")])
def test_a_stored_key_says_what_it_counts_and_of_which_clicks(clicks: str) -> None:
    for measure in (Measure(), Measure("sale"), Measure("sale", of_values=True)):
        assert measured(measure.row(clicks)) == (measure, clicks)
        assert clicks_row(measure.row(clicks)) == clicks
