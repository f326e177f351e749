"""A stored key's breakdowns: as text with readable times for people, as plain objects for programs."""

from __future__ import annotations

from collections.abc import Iterator

from clickcurve.buckets.breakdowns.answers import VisitorSpan, visitors_between
from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, WIDEST, Breakdown
from clickcurve.buckets.breakdowns.check import check_breakdown
from clickcurve.buckets.breakdowns.parts import decode_parts, separate_parts
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import DAY_S, END_OF_TIME
from storage.contract import StoredRow
from storage.tools.dump import LinkDump, utc

SHOWN_VALUES = 20  # of a bucket, for people


def breakdown_lines(dump: LinkDump) -> Iterator[str]:
    """Writes breakdowns line by line: per owner a head, then dimension by dimension the greatest values of a bucket."""
    for stored in dump.link.rows:
        yield ""
        yield f"breakdown of owner {stored.owner}: {len(stored.data)} bytes"
        try:
            row = decode_parts(separate_parts(stored.data))
        except RowCorrupt as error:
            yield f"  CANNOT BE READ: {error.detail}: {stored.data.hex()}"
            continue
        if row.erased_at < dump.link.erased_at:
            yield "  counts for nothing: it does not know of the erasure"
        yield f"  mark {row.mark}, folded to {utc(row.fold_day * DAY_S)}, caps halved {row.shift} times"
        yield from (f"  BROKEN: {sentence}" for sentence in check_breakdown(row, WIDEST))
        for name, tiers in sorted(row.dimensions.items()):
            for tier, buckets in zip(BREAKDOWN.ladder.tiers, tiers, strict=False):
                for start, counts in sorted(buckets.items()):
                    ranked = sorted(counts.values.items(), key=lambda item: (-item[1], item[0]))
                    shown = ", ".join(f"{value!r} {count}" for value, count in ranked[:SHOWN_VALUES])
                    more = f", {len(ranked) - SHOWN_VALUES} values more" if len(ranked) > SHOWN_VALUES else ""
                    cut = f"; other {counts.other}, slack {counts.slack}" if counts.other else ""
                    yield f"  {name}, {tier.name}: {utc(start)} .. {utc(tier.bucket(start)[1])}  {shown}{more}{cut}"
        for span in _visitors(row):
            days = span.visitors
            about = "" if days.exact else "about "
            when = f"{utc(span.start)} .. {utc(span.end)}"
            yield f"  visitors: {when}  {about}{days.at_most}, of {days.known} hits"


def breakdown_objects(dump: LinkDump) -> list[dict[str, object]]:
    """Returns the same as objects, with all values and times in epoch seconds."""
    return [_breakdown_object(stored) for stored in dump.link.rows]


def _breakdown_object(stored: StoredRow) -> dict[str, object]:
    head = {"owner": stored.owner, "bytes": len(stored.data)}
    try:
        row = decode_parts(separate_parts(stored.data))
    except RowCorrupt as error:
        return {**head, "unreadable": error.detail, "hex": stored.data.hex()}
    return {
        **head,
        "mark": row.mark,
        "folded_to": row.fold_day * DAY_S,
        "first_hit": row.first,
        "erased_at_us": row.erased_at,
        "halved": row.shift,
        "broken": check_breakdown(row, WIDEST),
        "by": {
            name: [
                [tier.name, *tier.bucket(start), dict(counts.values), counts.other, counts.slack]
                for tier, buckets in zip(BREAKDOWN.ladder.tiers, tiers, strict=False)
                for start, counts in sorted(buckets.items())
            ]
            for name, tiers in sorted(row.dimensions.items())
        },
        "visitors": [
            [span.start, span.end, span.visitors.at_least, span.visitors.at_most, span.visitors.known]
            for span in _visitors(row)
        ],
    }


def _visitors(row: Breakdown) -> list[VisitorSpan]:
    return visitors_between(row, 0, END_OF_TIME, BREAKDOWN)
