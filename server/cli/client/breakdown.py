"""`clickcurve by | visitors | why`: questions to a running server about who hit a link, and what changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo

import click

from clickcurve.visible import visible
from server.cli.client import draw
from server.cli.client.api import NamedServer, segment_of, with_server
from server.cli.client.read import csv_result, question_of, with_parameters
from server.cli.main import USAGE, Failed
from server.cli.output import Result, lacks_unicode, reports, screen


@reports("by")
@click.argument("names", nargs=-1, required=True, metavar="[KEY] DIMENSION")
@with_parameters("last", "from", "to", "tz", "limit", "value", "event", "measure", "group")
@click.option("--csv", "as_csv", is_flag=True, help="value,at_least,at_most")
@with_server
def by_command(server: NamedServer, names: tuple[str, ...], as_csv: bool, **flags: Any) -> Result:
    """List the hits of the link KEY, of a group or of all links by the values of DIMENSION.

    The server's settings name the dimensions: ref, country, device, source and others. If a full bucket could not keep
    a value all the time, two bounds are printed.

    \b
    Examples:
      clickcurve by launch ref
      clickcurve by launch country --last 30d --limit 100
      clickcurve by launch ref --value news.example
      clickcurve by --group spring device
      clickcurve by ref --csv
    """
    if len(names) > 2:
        raise Failed(f"by takes a KEY and a DIMENSION, and {len(names)} names were given", USAGE)
    *keys, dimension = names
    path, query = question_of(keys[0] if keys else None, f"by/{segment_of(dimension)}", flags)
    if as_csv:
        return csv_result(server, path, query, "values are")
    answer = server.ask(path, query)
    noun = draw.noun_of(query["event"], query["measure"])
    return Result(draw.value_lines(answer, query["tz"], screen().columns, lacks_unicode(), noun), [answer])


@reports("visitors")
@click.argument("key", required=False)
@with_parameters("last", "from", "to", "tz", "group")
@with_server
def visitors_command(server: NamedServer, key: str | None, **flags: Any) -> Result:
    """Print the visitors of the link KEY, or of a group, by UTC days, and their sum.

    A visitor of two days is two visitor-days: nobody is recognised on another day.

    \b
    Examples:
      clickcurve visitors launch --last 30d
      clickcurve visitors --group spring
    """
    if key is None and flags["group"] is None:
        raise Failed("visitors takes a KEY or a --group: those of all links together are not counted", USAGE)
    answer = server.ask(*question_of(key, "visitors", flags))
    return Result(draw.visitor_lines(answer, screen().columns, lacks_unicode()), [answer])


@reports("why")
@click.argument("key", required=False)
@with_parameters("last", "from", "to", "tz", "limit", "event", "measure", "group")
@click.option(
    "--compare",
    help="before: the range on the same weekdays; before_exact: the one just before; year: 364 days before.",
)
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
    return Result(list(_why_lines(answer, ZoneInfo(query["tz"] or "UTC"))), [answer])


def _why_lines(answer: Any, zone: ZoneInfo) -> Iterator[str]:
    """Yields both totals, then the causes by dimension, then the links that changed most."""
    total, before = answer["total"], answer["before"]
    yield f"{draw.span_text(before, zone)}: {total['before']:,}"
    yield f"{draw.span_text(answer, zone)}: {total['after']:,} ({total['change']:+,})"
    if not answer["same_length"]:
        yield "the spans are not equally long"
    for dimension in answer["dimensions"]:
        if dimension["causes"]:
            yield f"{dimension['dimension']} explains {dimension['explains']:.0%}"
            yield from (
                f"  {_change(cause)}  {visible(cause['value']) or draw.NOT_GIVEN}" for cause in dimension["causes"]
            )
        else:
            yield f"{dimension['dimension']} names nothing that is certain"
    if answer["by_link"]:
        yield "links"
        yield from (f"  {each['change']:+,}  {visible(each['key'])}" for each in answer["by_link"])


def _change(cause: Any) -> str:
    if cause["at_least"] == cause["at_most"]:
        return f"{cause['change']:+,}"
    return f"{cause['at_least']:+,} to {cause['at_most']:+,}"
