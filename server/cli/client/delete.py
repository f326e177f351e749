"""`clickcurve delete`: forgets a link, all links whose keys begin with a prefix, or a group, after a question."""

from __future__ import annotations

import sys
from typing import Any

import click

from clickcurve.visible import visible
from server.cli.client.api import NamedServer, group_path, link_path, with_server
from server.cli.main import USAGE, Failed
from server.cli.output import ProgressLine, Result, on_screen, reports

LISTED = 1_000  # links of one page
DELETED = 1_000  # links of one request: fractions of a second


@reports("delete")
@click.argument("key", required=False)
@click.option("--prefix", help="All links whose keys begin so, instead of a KEY.")
@click.option("--group", help="This group, instead of a KEY or beside a prefix.")
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and delete nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_server
def delete_command(
    server: NamedServer, key: str | None, prefix: str | None, group: str | None, dry_run: bool, yes: bool
) -> Result:
    """Delete the link KEY with its whole history. A hit that comes later counts from zero.

    With --prefix it deletes all links whose keys begin so, and with --group that group too. If it is interrupted, run
    it again: it goes on. The hits stay in the total of all links together, and those of links in their groups. If the
    server has tokens, the token needs the scope admin.

    \b
    Examples:
      clickcurve delete launch
      clickcurve delete launch --yes --url https://clicks.example --token cc_...
      clickcurve delete --prefix acme/ --group acme --dry-run
    """
    if (key is not None) + (prefix is not None or group is not None) != 1:
        raise click.UsageError("delete takes a KEY; or --prefix, --group or both")
    if prefix == "":
        raise click.UsageError("--prefix is empty: it would mean every link")
    if not (yes or dry_run or sys.stdin.isatty()):
        raise Failed("nobody can be asked to confirm: give --yes", USAGE)
    if key is not None:
        return _delete_link(server, key, dry_run, yes)
    return _delete_several(server, prefix, group, dry_run, yes)


def _delete_link(server: NamedServer, key: str, dry_run: bool, yes: bool) -> Result:
    if dry_run or not yes:
        hits = server.ask(link_path(key, "total"), {})["total"]
        if dry_run:
            text = f"{visible(key)} with {hits:,} hits would be deleted"
            return Result([text], [{"key": key, "hits": hits, "deleted": False}])
        if not _is_confirmed(f"{visible(key)} with {hits:,} hits"):
            return Result(["nothing was deleted"], [{"key": key, "deleted": False}])
    server.delete(link_path(key, ""))
    return Result([f"{key} is deleted"], [{"key": key, "deleted": True}])


def _delete_several(server: NamedServer, prefix: str | None, group: str | None, dry_run: bool, yes: bool) -> Result:
    named = {name: value for name, value in (("prefix", prefix), ("group", group)) if value is not None}
    numbers: dict[str, Any] = {}
    if dry_run or not yes or on_screen():
        parts = []
        if prefix is not None:
            links, hits, ends = _under_prefix(server, prefix)
            numbers |= {"links": links, "hits": hits}
            parts.append(f"{_links(links, prefix)}{ends} with {hits:,} hits")
        if group is not None:
            numbers["group_hits"] = in_group = server.ask(group_path(group, "total"), {"bots": "include"})["total"]
            parts.append(f"the group {visible(group)} with {in_group:,} hits")
        what = " and ".join(parts)
        if dry_run:
            return Result([f"{what} would be deleted"], [{**named, **numbers, "deleted": False}])
        if not yes and not _is_confirmed(what):
            return Result(["nothing was deleted"], [{**named, "deleted": False}])
    lines, deleted = [], {}
    if prefix is not None:
        deleted["links"] = many = _delete_links(server, prefix, numbers.get("links"))
        lines.append(f"{_links(many, prefix)} {'is' if many == 1 else 'are'} deleted")
    if group is not None:
        server.delete(group_path(group))
        lines.append(f"the group {visible(group)} is deleted")
    return Result(lines, [{**named, **deleted, "deleted": True}])


def _under_prefix(server: NamedServer, prefix: str) -> tuple[int, int, str]:
    """Counts links and hits under a prefix, page by page. Returns both, and the first and last link as text."""
    links, hits, first, after = 0, 0, "", None
    with ProgressLine("counting", "links") as line:
        while True:
            page = server.ask(
                "/v1/links",
                {"sort": "key", "prefix": prefix, "bots": "include", "limit": LISTED, "after": after},
            )
            links, hits = links + len(page["links"]), hits + sum(each["count"] for each in page["links"])
            first = first or next((each["key"] for each in page["links"]), "")
            last, after = page["links"][-1]["key"] if page["links"] else after or "", page["after"]
            line.show(links, None)
            if after is None:
                return links, hits, f" ({visible(first)} to {visible(last)})" if links else ""


def _delete_links(server: NamedServer, prefix: str, expected: int | None) -> int:
    """Deletes all links of a prefix; returns how many."""
    deleted, more = 0, True
    with ProgressLine("delete", "links") as line:
        while more:
            answer = server.delete("/v1/links", {"prefix": prefix, "limit": DELETED}).json()
            deleted, more = deleted + answer["deleted"], answer["more"]
            line.show(deleted, None if expected is None else max(expected, deleted))
    return deleted


def _links(many: int, prefix: str) -> str:
    return f"{many:,} {'link that begins' if many == 1 else 'links that begin'} with {visible(prefix)}"


def _is_confirmed(what: str) -> bool:
    return click.confirm(f"Delete {what}? It cannot be undone", err=True)
