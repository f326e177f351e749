"""`clickcurve disavow KEY`, `clickcurve disavow list|undo`: rules of a running server that call counted hits bots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from clickcurve.buckets.breakdowns.check import OF_BOTS
from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.visible import visible
from ingest.attributes.dimensions import DIMENSIONS, TAG
from server.cli.client.api import NamedServer, group_path, link_path, segment_of, with_server
from server.cli.client.draw import range_text
from server.cli.client.read import with_parameters
from server.cli.main import USAGE, Failed
from server.cli.options import Command
from server.cli.output import Result, ShorthandGroup

_ADD = "add"
_RANGE = ("from", "to", "last", "tz")
_NAMED = [name for name in DIMENSIONS if name not in OF_BOTS]


@click.group("disavow", cls=ShorthandGroup, left_out=_ADD)
def disavow_command() -> None:
    """Call hits of people bots after they were counted, by a rule that can be undone.

    `clickcurve disavow KEY --ref spam.example` calls those of one referrer so, and with --all in place of KEY those of
    every link. What was counted stays as it is: undo the rule, and each answer is as it was. For a key that is named
    add, list or undo, write `clickcurve disavow add list`. If the server has tokens, the token needs the scope admin.

    \b
    Examples:
      clickcurve disavow launch --ref spam.example --dry-run
      clickcurve disavow launch --ref spam.example
      clickcurve disavow --all --ref spam.example
      clickcurve disavow list
      clickcurve disavow undo 1f2e3d4c5b6a7988
    """


def _with_dimensions(command: Command) -> Command:
    for name in reversed(_NAMED):
        command = click.option(f"--{name.replace('_', '-')}", name, help=f"Hits with this value of {name}.")(command)
    return command


@disavow_command.command(_ADD)
@click.argument("key", required=False)
@_with_dimensions
@click.option("--tag", "tags", multiple=True, metavar="NAME=TEXT", help="Hits with this value of the tag NAME.")
@with_parameters(*_RANGE)
@click.option("--group", "is_group", is_flag=True, help="KEY is the name of a group.")
@click.option("--all", "all_links", is_flag=True, help="Hits of every link; give no KEY.")
@click.option("--prefix", help="Hits of the links whose keys begin so; give no KEY.")
@click.option("--dry-run", is_flag=True, help="Say how many hits these are, and change nothing.")
@with_server
def add_rule(
    server: NamedServer,
    key: str | None,
    tags: tuple[str, ...],
    is_group: bool,
    all_links: bool,
    prefix: str | None,
    dry_run: bool,
    **flags: str | None,
) -> Result:
    """Call hits of one value of one dimension bots, of the link KEY; without a range, those of all time.

    Only what is certain changes: hits of the value in whole kept buckets inside the range. A rule of links changes no
    group. Sent again it is the same rule, which also takes the hits that came since. A rule of many links takes its
    time; `clickcurve disavow list` shows how far it has come.

    \b
    Examples:
      clickcurve disavow launch --ref spam.example --dry-run
      clickcurve disavow add launch --ref spam.example --from 2026-11-01 --to 2026-11-08 --tz Europe/Vienna
      clickcurve disavow spring --group --tag campaign=autumn
      clickcurve disavow --prefix acme/ --ref spam.example --last 30d
    """
    if (key is not None) + all_links + (prefix is not None) != 1 or (is_group and key is None):
        raise Failed("a rule is of one link or group, of all links, or of a prefix: give KEY, --all or --prefix", USAGE)
    path = "/v1/disavow" if key is None else (group_path if is_group else link_path)(key, "disavow")
    query = {name: flags.pop(name) for name in _RANGE}
    more = {"prefix": prefix, "dry_run": "true" if dry_run else None}
    rule = server.call(path, {**query, **more}, _target(flags, tags))
    return Result(_added_lines(rule, query["tz"]), [rule])


def _target(values: dict[str, str | None], tags: tuple[str, ...]) -> dict[str, str]:
    """Returns the one dimension that is named, with its value."""
    given = [(name, value) for name, value in values.items() if value is not None]
    for text in tags:
        name, sign, value = text.partition("=")
        if not sign:
            raise ParameterInvalid("--tag is not NAME=TEXT", field="tag", value=text, rule="NAME=TEXT")
        given.append((TAG + name, value))
    if len(given) != 1:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in _NAMED)
        raise Failed(f"a rule names one value of one dimension: give one of {flags}, --tag", USAGE)
    return dict(given)


def _added_lines(rule: Any, tz: str | None) -> Iterator[str]:
    least, most = rule["at_least"], rule["at_most"]
    if rule["state"] == "dry_run":
        yield f"{_hits(least)} of {_what(rule, tz)} would be called bots"
    else:
        yield f"{_hits(rule['moved'])} of {_what(rule, tz)} are called bots, by the rule {rule['id']}"
    if most > least:
        yield f"up to {most - least:,} more may have this value: they stay hits of people, since nobody can tell which"
    if waiting := _waiting(rule):
        yield f"{waiting}; `clickcurve disavow list` shows when all are called"
    elif rule["state"] == "running":
        yield f"{rule['links']:,} links so far; `clickcurve disavow list` shows when all are called"
    if rule.get("left_out"):
        yield f"{rule['left_out']:,} links are left out; the server's log says why. Send the rule again later"


@disavow_command.command("list")
@with_server
def list_rules(server: NamedServer) -> Result:
    """List the rules, oldest first: id, state, hits that are called bots, and what they were.

    \b
    Examples:
      clickcurve disavow list
    """
    rules = server.ask("/v1/disavow", {})["rules"]
    lines = (
        f"{rule['id']}  {rule['state']:<8}  {rule['moved']:>10,}  {_what(rule, None)}"
        + (f" ({waiting})" if (waiting := _waiting(rule)) else "")
        for rule in rules
    )
    return Result(lines, rules)


@disavow_command.command("undo")
@click.argument("rule_id", metavar="ID")
@with_server
def undo_rule(server: NamedServer, rule_id: str) -> Result:
    """Undo the rule with this id (see `disavow list`), with all ranges of its value.

    Every answer is then as it was before the rule.

    \b
    Examples:
      clickcurve disavow undo 1f2e3d4c5b6a7988
    """
    rule = server.delete(f"/v1/disavow/{segment_of(rule_id)}").json()
    is_undone = rule["state"] == "undone"
    text = f"undone: {_what(rule, None)}" if is_undone else f"another worker undoes it now: {_what(rule, None)}"
    return Result([text], [rule])


def _what(rule: Any, tz: str | None) -> str:
    """Says which hits a rule is about."""
    value = f"{rule['dimension']} {visible(rule['value'])}"
    if rule["kind"] == "all":
        of = "all links"
    elif rule["kind"] == "prefix":
        of = f"links that begin with {visible(rule['key'])}"
    else:
        of = f"the {rule['kind']} {visible(rule['key'])}"
    return f"{value} of {of}, {range_text(rule, tz)}"


def _hits(count: int) -> str:
    return f"{count:,} hit{'' if count == 1 else 's'}"


def _waiting(rule: Any) -> str:
    owners = ", ".join(map(str, rule["waiting"]))
    return f"it waits for the next flush of the owners {owners}" if owners else ""
