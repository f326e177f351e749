"""What the auditor's hits say, and whether breakdowns have just that.

What a hit says follows from which digit of its key's total it is, so a total says what its breakdown must hold: for
each value the digits of the hits that said it, each as often as it was counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from clickcurve.buckets.breakdowns.breakdown import Breakdown
from clickcurve.buckets.measures import measures_of
from clickcurve.keys import group_of
from ingest.attributes.profile import Profile
from ingest.batch import Batch
from ingest.hit import Hit as GroupHit
from ingest.hit_sums import HitSums
from tests.audit.auditor import BASE, Hit, Sent

DIVIDED = ("ref", "source")
SALE, SALE_VALUE = "sale", 2
NOTHING_ERASED: Mapping[str, str] = {}
Values = Mapping[str, Mapping[str, int]]  # dimension -> value -> hits


def said_by(digit: int) -> tuple[str, str] | None:
    """What this hit of any key says in each dimension; every third one says nothing, and so does the first."""
    return None if digit % 3 == 0 else (f"r{digit % 2}.example", "" if digit % 5 == 0 else "qr")


def fields_of(hit: Hit) -> dict[str, str]:
    """The fields by which it says that."""
    said = said_by(hit.digit)
    if said is None:
        return {}
    return {"ref": f"https://www.{said[0]}/page?secret=1"} | ({"source": said[1]} if said[1] else {})


def batch_of(sent: Sent, minute: int, id_: str | None, sells: bool = False) -> Batch:
    """The batch of these hits, under an id if there is one, as the routes make it; those of a group's row are in it.

    sells: each click of a link comes with a sale of SALE_VALUE.
    """
    sums = HitSums()
    people: dict[str, int] = {}
    for hit in sent.hits:
        said = said_by(hit.digit)
        profile = None if said is None else Profile(DIVIDED, said)
        if group_of(hit.key) is not None:
            sums.groups.add(hit.key, GroupHit(hit.key, minute, hit.count, None, False, profile))
            continue
        people[hit.key] = hit.count
        for measure in measures_of(SALE) if sells else ():
            sold = hit.count * (SALE_VALUE if measure.of_values else 1)
            sums.groups.add(measure.row(hit.key), GroupHit(hit.key, minute, sold, None, False, profile))
        if profile is not None:
            sums.links.add_profile(minute - minute % 3_600, hit.key, profile, hit.count)
    sums.links.people[minute] = people
    return sums.batch(id_)


def values_of(row: Breakdown, erased: Mapping[str, str] = NOTHING_ERASED) -> Values:
    """The sums of each value over all buckets. erased: by dimension the value whose hits may be `other`."""
    found: dict[str, Counter[str]] = {}
    for name, tiers in row.dimensions.items():
        for tier in tiers:
            for counts in tier.values():
                assert not counts.other or name in erased, "there are few values, so none is ever cut"
                assert counts.slack == counts.other, "of an erased value all may be of any"
                found.setdefault(name, Counter()).update(counts.values)
                if counts.other:
                    found[name][erased[name]] += counts.other
    return found


def expected_values(total: int) -> Values:
    """What a breakdown must hold beside this total."""
    found: dict[str, Counter[str]] = {name: Counter() for name in DIVIDED}
    digit = 0
    while total:
        total, times = divmod(total, BASE)
        said = said_by(digit)
        if times and said is not None:
            for name, value in zip(DIVIDED, said, strict=True):
                found[name][value] += times * BASE**digit
        digit += 1
    return {name: counts for name, counts in found.items() if counts}


def judge_words(what: str, total: int, found: Values) -> list[str]:
    """Returns a sentence if a breakdown is not that of the total beside it."""
    expected = expected_values(total)
    live = {name: dict(counts) for name, counts in found.items() if counts}
    if live == expected:
        return []
    return [f"{what}: of the total {total} the breakdown has {live}, not {dict(expected)}"]


def judge_given(what: str, total: int, found: Values) -> list[str]:
    """Judges values that were given: an answer adds hits that said nothing to those that gave no value."""
    expected = {
        name: {value: count for value, count in counts.items() if value}
        for name, counts in expected_values(total).items()
    }
    given = {name: dict(counts) for name, counts in found.items() if counts}
    if given == {name: counts for name, counts in expected.items() if counts}:
        return []
    return [f"{what}: of the total {total} the breakdown has {given}, not {expected}"]
