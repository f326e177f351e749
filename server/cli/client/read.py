"""`clickcurve total | curve | top | groups`: questions to a running server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from server.cli.client import draw
from server.cli.client.api import NamedServer, Query, group_path, link_path, with_server
from server.cli.main import USAGE, Failed
from server.cli.options import Command
from server.cli.output import Result, lacks_unicode, reports, screen, wants_json


def with_parameters(*names: str) -> Callable[[Command], Command]:
    """Adds flags that are passed on to the server as they are."""
    table = {
        "from": "Start: epoch seconds or ISO 8601 in --tz.",
        "to": "End, not included.",
        "last": "The last N units, the current one included: 60m 24h 7d 8w 12mo 2y.",
        "step": "Width of a point: auto, native, or like 5m 1h 1d 1w 1mo.",
        "tz": "Time zone of days, weeks and months, like Europe/Vienna.",
        "bots": "exclude (default), include or only.",
        "event": "Count this event in place of clicks, such as sale.",
        "measure": "With --event: count (default), or value for the sum of its values.",
        "limit": "How many are listed, at most 1000. Default: 20; for `why`: 5.",
        "value": "Only this value; '' stands for hits without a value.",
        "group": "Ask about this group instead of a link.",
    }

    def decorate(command: Command) -> Command:
        for name in reversed(names):
            command = click.option(f"--{name}", name, help=table[name])(command)
        return command

    return decorate


def question_of(key: str | None, question: str, flags: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Returns path and parameters of a question about a link, a group of --group, or (neither given) all links."""
    query = {**flags}
    group = query.pop("group")
    if group is None:
        return link_path(key, question), query
    if key is not None:
        raise Failed("a question is about one KEY or one --group, not both", USAGE)
    return group_path(group, question), query


def csv_result(server: NamedServer, path: str, query: Query, what: str) -> Result:
    """Returns an answer in the server's own CSV; refuses --json beside it."""
    if wants_json():
        raise Failed(f"{what} printed as JSON or as CSV: give one of --json and --csv", USAGE)
    return Result(server.get(path, query, "text/csv").text.splitlines(), ())


@reports("total")
@click.argument("key", required=False)
@with_parameters("from", "to", "last", "tz", "bots", "event", "measure", "group")
@with_server
def total_command(server: NamedServer, key: str | None, **flags: Any) -> Result:
    """Print the hits of the link KEY or of a group; without either, of all links together.

    Without a range it prints the link's summary. With a range it prints the total, or two bounds if the range cuts a
    bucket.

    \b
    Examples:
      clickcurve total launch
      clickcurve total --group spring
      clickcurve total launch --last 7d --tz Europe/Vienna
      clickcurve total launch --event sale --measure value
      clickcurve total --from 2026-01-01 --to 2026-02-01
    """
    ranged = any(flags[name] is not None for name in ("from", "to", "last"))
    summary = (key is not None or flags["group"] is not None) and not ranged
    path, query = question_of(key, "" if summary else "total", flags)
    answer = server.ask(path, query)
    if summary:
        return Result(draw.link_lines(answer, query["tz"] or "UTC", query["bots"], _noun(query)), [answer])
    return Result(draw.total_lines(answer, query["tz"], query["bots"], _noun(query)), [answer])


def _noun(flags: dict[str, Any]) -> draw.Noun:
    return draw.noun_of(flags["event"], flags["measure"])


@reports("curve")
@click.argument("key", required=False)
@with_parameters("last", "from", "to", "step", "tz", "bots", "event", "measure", "group")
@click.option("--csv", "as_csv", is_flag=True, help="start,end,count,state")
@with_server
def curve_command(server: NamedServer, key: str | None, as_csv: bool, **flags: Any) -> Result:
    """Draw the hits of the link KEY, or of a group, over time; without either, of all links together.

    A point that is `open` may still grow. A point that is `partial` is a whole bucket that the range cuts. If only
    wider buckets are kept, a point shows when it ends, and its bar shows its hits per step. Without --step the finest
    step that fits the screen is used; in a file or a pipe, the finest that fits 100 columns and 50 lines.

    \b
    Examples:
      clickcurve curve launch
      clickcurve curve launch --last 30d --tz Asia/Kolkata
      clickcurve curve --from 2026-01-01 --step 1w --csv
    """
    path, query = question_of(key, "curve", flags)
    if as_csv:
        return csv_result(server, path, query, "a curve is")
    answer = server.ask(path, query)
    if wants_json():
        return Result((), [answer])
    if answer["key"] is not None and answer["first_hit"] is None:
        measure = {name: query[name] for name in ("event", "measure")}
        return Result(draw.undated_lines(server.ask(question_of(key, "", flags)[0], measure)), ())
    lines = _drawn(answer)
    step = draw.step_that_fits(answer, screen().lines) if query["step"] is None else None
    if step is not None and len(lines) >= screen().lines:
        lines = _drawn(server.ask(path, {**query, "step": step}))
    return Result(lines, ())


def _drawn(answer: Any) -> list[str]:
    return draw.curve_lines(answer, screen().columns, lacks_unicode())


@reports("top")
@with_parameters("last", "from", "to", "limit", "tz", "bots", "event", "measure")
@with_server
def top_command(server: NamedServer, **flags: Any) -> Result:
    """List the links with the most hits, of all time or of a range.

    \b
    Examples:
      clickcurve top
      clickcurve top --last 7d --limit 100
      clickcurve top --event sale --measure value
      clickcurve top --from 2026-10-01 --to 2026-11-01 --tz Europe/Vienna
    """
    return _ranking(server, "links", flags)


@reports("groups")
@with_parameters("last", "from", "to", "limit", "tz", "bots", "event", "measure")
@with_server
def groups_command(server: NamedServer, **flags: Any) -> Result:
    """List the groups with the most hits, of all time or of a range.

    A group is a name that hits give for links that belong together: see `clickcurve total --group NAME`.

    \b
    Examples:
      clickcurve groups
      clickcurve groups --last 7d
    """
    return _ranking(server, "groups", flags)


def _ranking(server: NamedServer, what: str, flags: dict[str, Any]) -> Result:
    answer = server.ask(f"/v1/{what}", {"sort": "hits", **flags})
    shown = screen().columns, lacks_unicode(), _noun(flags)
    lines = draw.ranking_lines(answer, what, flags["tz"], flags["bots"], *shown)
    return Result(lines, [answer])
