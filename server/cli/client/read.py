"""`clickcurve total | curve | top | groups`: questions to a running server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from server.cli.client import draw
from server.cli.client.api import NamedServer, group_path, link_path
from server.cli.main import USAGE, Failed
from server.cli.options import Command, with_settings
from server.cli.output import Result, lacks_unicode, reports, screen, wants_json
from server.settings.table import Settings


def with_parameters(*names: str) -> Callable[[Command], Command]:
    """Adds flags that are passed on to the server as they are."""
    table = {
        "from": "Start: epoch seconds or ISO 8601 in --tz.",
        "to": "End, not included.",
        "last": "The last N units, the current one included: 60m 24h 7d 8w 12mo 2y.",
        "step": "Width of a point: auto, native, or like 5m 1h 1d 1w 1mo.",
        "tz": "Time zone of days, weeks and months, like Europe/Vienna.",
        "bots": "exclude (default), include or only.",
        "limit": "How many are listed, at most 1000. Default: 20; for `why`: 5.",
        "value": "Only this value; '' stands for hits without a value.",
        "group": "Ask about this group instead of a link.",
    }

    def decorate(command: Command) -> Command:
        for name in reversed(names):
            command = click.option(f"--{name}", f"{name}_", help=table[name])(command)
        return command

    return decorate


def parameters_of(flags: dict[str, Any]) -> dict[str, Any]:
    """Returns flags under the names that the server knows."""
    return {name.rstrip("_"): value for name, value in flags.items()}


def question_of(key: str | None, question: str, flags: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Returns path and parameters of a question about a link, a group of --group, or (neither given) all links."""
    query = parameters_of(flags)
    group = query.pop("group")
    if group is None:
        return link_path(key, question), query
    if key is not None:
        raise Failed("a question is about one KEY or one --group, not both", USAGE)
    return group_path(group, question), query


def answer_of(settings: Settings, path: str, query: dict[str, Any]) -> Any:
    """Returns the server's answer to one question."""
    with NamedServer(settings) as client:
        return client.ask(path, query)


def csv_result(settings: Settings, path: str, query: dict[str, Any], what: str) -> Result:
    """Returns an answer in the server's own CSV; refuses --json beside it."""
    if wants_json():
        raise Failed(f"{what} printed as JSON or as CSV: give one of --json and --csv", USAGE)
    with NamedServer(settings) as client:
        return Result(client.get(path, query, "text/csv").text.splitlines(), ())


@reports("total")
@click.argument("key", required=False)
@with_parameters("from", "to", "last", "tz", "bots", "group")
@with_settings("url", "token", "config")
def total_command(settings: Settings, key: str | None, **flags: Any) -> Result:
    """Print the hits of the link KEY or of a group; without either, of all links together.

    Without a range it prints the link's summary. With a range it prints the total, or two bounds if the range cuts a
    bucket.

    \b
    Examples:
      clickcurve total launch
      clickcurve total --group spring
      clickcurve total launch --last 7d --tz Europe/Vienna
      clickcurve total --from 2026-01-01 --to 2026-02-01
    """
    ranged = any(flags[name] is not None for name in ("from_", "to_", "last_"))
    summary = (key is not None or flags["group_"] is not None) and not ranged
    path, query = question_of(key, "" if summary else "total", flags)
    answer = answer_of(settings, path, query)
    if summary:
        return Result(draw.link_lines(answer, query["tz"] or "UTC", query["bots"]), [answer])
    return Result(draw.total_lines(answer, query["tz"], query["bots"]), [answer])


@reports("curve")
@click.argument("key", required=False)
@with_parameters("last", "from", "to", "step", "tz", "bots", "group")
@click.option("--csv", "as_csv", is_flag=True, help="start,end,count,state")
@with_settings("url", "token", "config")
def curve_command(settings: Settings, key: str | None, as_csv: bool, **flags: Any) -> Result:
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
        return csv_result(settings, path, query, "a curve is")
    with NamedServer(settings) as client:
        answer = client.ask(path, query)
        if wants_json():
            return Result((), [answer])
        if answer["key"] is not None and answer["first_hit"] is None:
            return Result(draw.undated_lines(client.ask(question_of(key, "", flags)[0], {})), ())
        lines = _drawn(answer)
        step = draw.step_that_fits(answer, screen().lines) if query["step"] is None else None
        if step is not None and len(lines) >= screen().lines:
            lines = _drawn(client.ask(path, {**query, "step": step}))
    return Result(lines, ())


def _drawn(answer: Any) -> list[str]:
    return draw.curve_lines(answer, screen().columns, lacks_unicode())


@reports("top")
@with_parameters("last", "from", "to", "limit", "tz", "bots")
@with_settings("url", "token", "config")
def top_command(settings: Settings, **flags: Any) -> Result:
    """List the links with the most hits, of all time or of a range.

    \b
    Examples:
      clickcurve top
      clickcurve top --last 7d --limit 100
      clickcurve top --from 2026-10-01 --to 2026-11-01 --tz Europe/Vienna
    """
    return _ranking(settings, "links", flags)


@reports("groups")
@with_parameters("last", "from", "to", "limit", "tz", "bots")
@with_settings("url", "token", "config")
def groups_command(settings: Settings, **flags: Any) -> Result:
    """List the groups with the most hits, of all time or of a range.

    A group is a name that hits give for links that belong together: see `clickcurve total --group NAME`.

    \b
    Examples:
      clickcurve groups
      clickcurve groups --last 7d
    """
    return _ranking(settings, "groups", flags)


def _ranking(settings: Settings, what: str, flags: dict[str, Any]) -> Result:
    query = parameters_of(flags)
    answer = answer_of(settings, f"/v1/{what}", {"sort": "hits", **query})
    lines = draw.ranking_lines(answer, what, query["tz"], query["bots"], screen().columns, lacks_unicode())
    return Result(lines, [answer])
