"""Answers about breakdowns as bytes: JSON, and CSV of values and curves."""

from __future__ import annotations

from typing import Any

from clickcurve.buckets.breakdowns.visitors import VisitorDays
from query.breakdowns.divide import ValueCurve, ValueList, VisitorAnswer
from query.serialize import compact, csv_field


def values_json(key: str | None, answer: ValueList) -> bytes:
    """Returns the answer to `GET /v1/links/{key}/by/{dimension}`; key None for all links together."""
    return compact(
        {
            "key": key,
            "dimension": answer.dimension,
            "from": answer.start,
            "to": answer.end,
            "total": answer.total,
            "values": [
                {"value": value, "at_least": at_least, "at_most": at_most}
                for value, (at_least, at_most) in answer.values
            ],
            "shown": len(answer.values),
            "not_shown": {"values": answer.hidden, "count": answer.hidden_count},
            "other": answer.other,
            "unrecorded": answer.unrecorded,
            "exact": answer.exact,
        }
    )


def values_csv(answer: ValueList) -> bytes:
    """Returns `value,at_least,at_most`, a line for each value, and at the end two for what is of no value."""
    lines = [f"{csv_field(value)},{at_least},{at_most}\n" for value, (at_least, at_most) in answer.values]
    rest = f"(other),{answer.other},{answer.other}\n(unrecorded),{answer.unrecorded},{answer.unrecorded}\n"
    return "".join(["value,at_least,at_most\n", *lines, rest]).encode()


def value_curve_json(key: str | None, curve: ValueCurve) -> bytes:
    """Returns the answer to `GET /v1/links/{key}/by/{dimension}/curve`: a curve's shape, with bounds for counts."""
    window, edges = curve.grid.window, curve.grid.edges
    points: list[dict[str, Any]] = []
    for start, end, bounds, state, wide in zip(
        edges, edges[1:], curve.bounds, curve.states(), curve.grid.wide, strict=False
    ):
        point = {"start": start, "end": end, "at_least": bounds.at_least, "at_most": bounds.at_most, "state": state}
        points.append({**point, "wide": True} if wide else point)
    return compact(
        {
            "key": key,
            "dimension": curve.dimension,
            "value": curve.value,
            "from": window.start,
            "to": window.end,
            "step": window.step.name,
            "tz": window.zone.name,
            "first_hit": curve.first,
            "at_least": curve.whole.at_least,
            "at_most": curve.whole.at_most,
            "exact": curve.whole.at_least == curve.whole.at_most,
            "points": points,
        }
    )


def value_curve_csv(curve: ValueCurve) -> bytes:
    """Returns `start,end,at_least,at_most,state`, and a line for each point."""
    edges = curve.grid.edges
    lines = [
        f"{start},{end},{bounds.at_least},{bounds.at_most},{state}\n"
        for start, end, bounds, state in zip(edges, edges[1:], curve.bounds, curve.states(), strict=False)
    ]
    return "".join(["start,end,at_least,at_most,state\n", *lines]).encode()


def visitors_json(key: str | None, answer: VisitorAnswer) -> bytes:
    """Returns the answer to `GET /v1/links/{key}/visitors`."""
    days = [{"start": day.start, "end": day.end, **_of_visitors("visitors", day.visitors)} for day in answer.days]
    return compact({"key": key, **_of_visitors("visitor_days", answer.sum), "days": days, "unknown": answer.unknown})


def _of_visitors(name: str, visitors: VisitorDays) -> dict[str, Any]:
    """Returns the number, null unless its bounds meet; the bounds; and whether it was counted, not estimated."""
    at_least, at_most, exact, _ = visitors
    return {name: at_most if at_least == at_most else None, "at_least": at_least, "at_most": at_most, "exact": exact}
