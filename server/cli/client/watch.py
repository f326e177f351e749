"""`clickcurve watch`: the links with the most hits, live."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import click

from server import clock
from server.cli.client import draw
from server.cli.client.api import NamedServer, with_server
from server.cli.client.read import with_parameters
from server.cli.main import Failed
from server.cli.output import Result, lacks_unicode, live_screen, reports, screen, show

EVERY_S = 2


@reports("watch")
@with_parameters("last", "limit", "tz", "bots")
@click.option(
    "--every", type=click.IntRange(1, 3_600), default=EVERY_S, show_default=True, help="Seconds between two looks."
)
@click.option("--times", type=click.IntRange(1), help="End after this many looks. Without it, run until Ctrl-C.")
@with_server
def watch_command(server: NamedServer, every: int, times: int | None, **flags: Any) -> None:
    """Show the links with the most hits of the last hour, again every two seconds, until Ctrl-C.

    On a terminal the list is renewed in place. In a file or a pipe each look is a line with the time and the sum, then
    the list; with --json it is one object.

    \b
    Examples:
      clickcurve watch
      clickcurve watch --last 7d --limit 30 --every 10
    """
    query = {**flags, "last": flags["last"] or "60m"}
    answer, trouble, looks = _look(server, query), "", 0
    with live_screen() as draw_in_place, suppress(KeyboardInterrupt):
        while True:
            lines = _lines_of(answer, trouble)
            if draw_in_place is None:
                show(Result([*lines, ""], [{**answer, "trouble": trouble or None}]))
            else:
                draw_in_place(lines)
            looks += 1
            if looks == times:
                return
            clock.pause(every)
            try:
                answer, trouble = _look(server, query), ""
            except Failed as error:  # said in the first lines, and asked again
                trouble = error.format_message()


def _look(server: NamedServer, query: Mapping[str, Any]) -> dict[str, Any]:
    """Asks for the list and for the sum of all links in the same range."""
    ranking = server.ask("/v1/links", {"sort": "hits", **query})
    ranged = {name: query[name] for name in ("last", "tz", "bots")}
    total = server.ask("/v1/total", ranged)
    return {"at": int(clock.now()), "url": server.url, **query, "total": total["at_most"], "links": ranking["links"]}


def _lines_of(answer: Mapping[str, Any], trouble: str) -> list[str]:
    title = f"{answer['total']:,} hits in the last {answer['last']} at {answer['url']}"
    state = f"{draw.clock_time(answer['at'], answer['tz'] or 'UTC')} {answer['tz'] or 'UTC'}"
    lines = draw.top_lines(answer["links"], screen().columns, lacks_unicode())
    return [title, f"{state}: {trouble}" if trouble else state, "", *(lines or ["no hits in this range"])]
