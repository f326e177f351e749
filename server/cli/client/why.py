"""`clickcurve why`: a question to a running server about what made a total change."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import click

from clickcurve.visible import visible
from server.cli.client.api import NamedServer, with_server
from server.cli.client.draw_breakdown import NOT_GIVEN
from server.cli.client.read import csv_result, question_of, with_parameters
from server.cli.output import Result, reports


@reports("why")
@click.argument("key", required=False)
@with_parameters("last", "from", "to", "tz", "limit", "group")
@click.option("--before-from", help="Start of the range to compare with. Default: the equally long range just before.")
@click.option("--before-to", help="End of that range, not included.")
@click.option("--csv", "as_csv", is_flag=True, help="dimension,value,change,at_least,at_most,before,after")
@with_server
def why_command(server: NamedServer, key: str | None, as_csv: bool, **flags: Any) -> Result:
    """Explain why the hits of the link KEY, or of a group, changed; without either, those of all links.

    Compares a range, 7 days without one, with the range before it. A value is listed if its change is certain, and
    greater than if all values had changed by the same factor.

    \b
    Examples:
      clickcurve why launch
      clickcurve why launch --last 30d --tz Europe/Vienna
      clickcurve why --group spring --from 2026-02-01 --to 2026-03-01
      clickcurve why --csv
    """
    path, query = question_of(key, "why", flags)
    if as_csv:
        return csv_result(server, path, query, "causes are")
    answer = server.ask(path, query)
    return Result(list(_lines(answer, ZoneInfo(query["tz"] or "UTC"))), [answer])


def _lines(answer: Any, zone: ZoneInfo) -> Iterator[str]:
    """Yields both totals, then the causes by dimension, then the links that changed most."""
    total, before = answer["total"], answer["before"]
    yield f"{_span(before, zone)}: {total['before']:,}"
    yield f"{_span(answer, zone)}: {total['after']:,} ({total['change']:+,})"
    if not answer["same_length"]:
        yield "the spans are not equally long"
    for dimension in answer["dimensions"]:
        if dimension["causes"]:
            yield f"{dimension['dimension']} explains {dimension['explains']:.0%}"
            yield from (f"  {_change(cause)}  {visible(cause['value']) or NOT_GIVEN}" for cause in dimension["causes"])
        else:
            yield f"{dimension['dimension']} names nothing that is certain"
    if answer["by_link"]:
        yield "links"
        yield from (f"  {each['change']:+,}  {visible(each['key'])}" for each in answer["by_link"])


def _change(cause: Any) -> str:
    if cause["at_least"] == cause["at_most"]:
        return f"{cause['change']:+,}"
    return f"{cause['at_least']:+,} to {cause['at_most']:+,}"


def _span(span: Any, zone: ZoneInfo) -> str:
    start, end = (datetime.fromtimestamp(span[name], zone) for name in ("from", "to"))
    return f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}"
