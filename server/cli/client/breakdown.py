"""`clickcurve by | visitors`: questions to a running server about who hit a link and from where."""

from __future__ import annotations

from typing import Any

import click

from server.cli.client import draw_breakdown
from server.cli.client.api import NamedServer, segment_of, with_server
from server.cli.client.read import csv_result, question_of, with_parameters
from server.cli.main import USAGE, Failed
from server.cli.output import Result, lacks_unicode, reports, screen


@reports("by")
@click.argument("names", nargs=-1, required=True, metavar="[KEY] DIMENSION")
@with_parameters("last", "from", "to", "tz", "limit", "value", "group")
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
    return Result(draw_breakdown.value_lines(answer, query["tz"], screen().columns, lacks_unicode()), [answer])


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
    return Result(draw_breakdown.visitor_lines(answer, screen().columns, lacks_unicode()), [answer])
