"""`clickcurve events`: what came of clicks, asked of a running server; `list` and `delete` look into a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import click

from clickcurve.visible import visible
from server.cli.client import draw
from server.cli.client.api import NamedServer, segment_of, with_server
from server.cli.client.read import csv_result, question_of, with_parameters
from server.cli.output import Result, ShorthandGroup
from server.cli.store.events import delete_event, list_events
from server.events.shown import count_text, rate_text
from server.settings.events import Unit

_OF = "of"


@click.group("events", cls=ShorthandGroup, left_out=_OF, even_alone=True)
def events_command() -> None:
    """Print what came of clicks: each event with its count, the sum of its values, and its rate.

    `clickcurve events KEY` is `clickcurve events of KEY`. The others list the events of a store, and delete one that
    is counted no more.

    \b
    Examples:
      clickcurve events launch --last 30d
      clickcurve events --by ref
      clickcurve events list
      clickcurve events delete lead --dry-run
    """


events_command.add_command(list_events)
events_command.add_command(delete_event)


@events_command.command(_OF)
@click.argument("key", required=False)
@with_parameters("last", "from", "to", "tz", "bots", "group")
@click.option("--by", help="Divide by this dimension, such as ref.")
@click.option("--limit", help="With --by: how many values are listed, at most 1000. Default: 20.")
@click.option("--csv", "as_csv", is_flag=True, help="event,at_least,at_most,value_...,rate_...")
@with_server
def events_of(server: NamedServer, key: str | None, by: str | None, as_csv: bool, **flags: Any) -> Result:
    """Print the events of the link KEY, or of a group; without either, of all links together.

    The rate is events by click. Amounts have the unit that the settings here name for the event; where they name none,
    they are whole numbers of the smallest unit. Where a range cuts a bucket, two bounds are printed.

    \b
    Examples:
      clickcurve events launch --last 30d
      clickcurve events launch --by ref
      clickcurve events --group spring --csv
      clickcurve events of list
    """
    path, query = question_of(key, "events" if by is None else f"events/by/{segment_of(by)}", flags)
    if as_csv:
        return csv_result(server, path, query, "events are")
    answer = server.ask(path, query)
    lines = _lines(answer, server.unit) if by is None else _lines_by(answer, server.unit)
    clicks = draw.hits_text(query["bots"], _count(answer["clicks"]))
    divided = "" if by is None else f" by {visible(by)}"
    return Result(
        [f"{draw.name_of(answer)}: {clicks}{divided}, {draw.range_text(answer, query['tz'])}", *lines], [answer]
    )


def _lines(answer: Any, unit: Callable[[str], Unit]) -> Iterator[str]:
    rows = [_cells(event, unit) for event in answer["events"]]
    if not rows:
        yield "no event is counted: name some in the settings, events_names"
    yield from _table([("event", "count", "value", "rate"), *rows] if rows else [])


def _lines_by(answer: Any, unit: Callable[[str], Unit]) -> Iterator[str]:
    """Yields a line for each event of each value, then what is of no value that is listed."""
    rows = [
        (visible(each["value"]) or draw.NOT_GIVEN, _count(each["clicks"]), *_cells(event, unit))
        for each in answer["values"]
        for event in each["events"]
    ]
    hidden, other = answer["not_shown"], answer["other"]
    beside = ((f"({hidden['values']:,} more values)", hidden), ("(other)", other))
    rows += [
        (
            name,
            f"{rest['clicks']:,}",
            event["event"],
            f"{event['count']:,}",
            unit(event["event"]).shown(event["value"]),
            "-",
        )
        for name, rest in beside
        for event in rest["events"]
        if rest["clicks"] or event["count"]
    ]
    yield from _table([("value", "clicks", "event", "count", "amount", "rate"), *rows])


def _cells(event: Any, unit: Callable[[str], Unit]) -> tuple[str, ...]:
    name, value, rate = event["event"], event["value"], event["rate"]
    shown = "-" if rate is None else rate_text(rate["at_least"], rate["at_most"])
    return name, _count(event), unit(name).between(value["at_least"], value["at_most"]), shown


def _count(bounds: Any) -> str:
    return count_text(bounds["at_least"], bounds["at_most"])


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    """Yields rows with columns of one width each: the first to the left, numbers to the right."""
    widths = [max(map(draw.columns_of, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell + padding if at == 0 else padding + cell
            for at, cell in enumerate(row)
            for padding in [" " * (widths[at] - draw.columns_of(cell))]
        ]
        yield "  ".join(cells).rstrip()
