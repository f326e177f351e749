"""`clickcurve verify | dump | export`: they read the store itself, whether a server runs or not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

import click

from clickcurve.buckets.errors import SettingInvalid, StoreUnavailable
from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.measures import rows_with_events
from clickcurve.keys import ALL_LINKS, breakdown_of, group_key, link_key
from clickcurve.visible import json_line
from server.cli.main import FAILED, Failed
from server.cli.options import with_settings
from server.cli.output import ProgressLine, Result, note, reports
from server.corrections.exported import exported_rules
from server.events.known_events import noted_names
from server.process.kept_clock import open_clock
from server.settings.table import Settings
from storage.contract import Store
from storage.from_uri import open_store
from storage.tools.breakdown_dump import breakdown_lines, breakdown_objects
from storage.tools.dump import dump_lines, dump_object, read_rows
from storage.tools.export import export
from storage.tools.verify import Report, verify


@contextmanager
def opened(
    uri: str, ladder: Ladder | None = None, *, read_only: bool = False, may_be_new: bool = False, instead: str = ""
) -> Iterator[Store]:
    """Opens a store, which servers may use meanwhile. Raises what `open_store` and `require_database` raise.

    may_be_new: a database that is not there is made. instead: what to do where the store is inside a server.
    """
    if uri.startswith("memory:"):
        reason = f"memory:// is inside the server only: {instead or 'this command cannot reach it'}"
        raise SettingInvalid(reason, field="store")
    if not may_be_new:
        require_database(uri)
    with closing(open_store(uri, ladder, read_only=read_only)) as store:
        yield store


@contextmanager
def reading(settings: Settings) -> Iterator[tuple[Store, Ladder]]:
    """Opens the store of the settings for reading, with its ladder."""
    with opened(settings.store, settings.ladder, read_only=True) as store:
        yield store, store.ladder()


def require_database(store: str) -> None:
    """Raises StoreUnavailable, saying how another folder is named, if there is no SQLite database at this address."""
    scheme, _, path = store.partition(":///")
    if scheme == "sqlite" and not Path(path).exists():
        detail = f"there is no database at {path}; name a server's data folder by --data, or another store by --store"
        raise StoreUnavailable(detail, field="store", value=path)


@reports("verify")
@with_settings("data", "store", "ladder", "config")
def verify_command(settings: Settings) -> Result:
    """Read every row and check that its totals are right.

    The lifetime must be the opening plus the sum of the buckets, and the row of all links the sum of the links. It
    prints what was checked and every row that breaks a law; the exit code is then 1. A server may run meanwhile.

    \b
    Examples:
      clickcurve verify
      clickcurve verify --store sqlite:////backup/clickcurve.db
    """
    with ProgressLine("verify", "rows") as line, reading(settings) as (store, ladder):
        report = verify(store, ladder, line.show)
    return Result(_verified_lines(report), [asdict(report)], FAILED if report.broken_rows else 0)


def _verified_lines(report: Report) -> Iterator[str]:
    yield from report.broken
    groups = f" and {report.groups:,} groups" if report.groups else ""
    yield (
        f"{report.rows:,} rows of {report.links:,} links{groups} checked: {report.people:,} hits of people, "
        f"{report.bots:,} of bots, {report.erased:,} erased; {report.broken_rows:,} rows break a law"
    )
    for owner in report.under_way:
        yield f"owner {owner} is in the middle of a flush; its sums were not compared"


def stored_keys(key: str | None, all_links: bool, group: str | None) -> list[str]:
    """Returns the stored keys of the rows that flags name: none, one, or several to be refused."""
    links = [] if key is None else [link_key(key)]
    groups = [] if group is None else [group_key(group)]
    return [*([ALL_LINKS] if all_links else []), *links, *groups]


@reports("dump")
@click.argument("key", required=False)
@click.option("--all-links", is_flag=True, help="The row of all links together, instead of a KEY.")
@click.option("--group", help="The row of this group, instead of a KEY.")
@with_settings("data", "store", "ladder", "config")
def dump_command(settings: Settings, key: str | None, all_links: bool, group: str | None) -> Result:
    """Show the stored rows and breakdowns of the link KEY: for each owner the head of the row, then its buckets.

    Those of events, and of their values, come after those of clicks.

    Hits that a running server has not flushed yet are missing.

    \b
    Examples:
      clickcurve dump launch
      clickcurve dump --all-links --data /var/lib/clickcurve
    """
    named = stored_keys(key, all_links, group)
    if len(named) != 1:
        raise click.UsageError("dump takes a KEY, --all-links or --group")
    (stored,) = named
    with reading(settings) as (store, ladder):
        keys = rows_with_events(stored, sorted(noted_names(store)))
        dumps = [[asyncio.run(read_rows(store, each)) for each in (key, breakdown_of(key))] for key in keys]
    of_clicks, *of_events = [
        (
            chain(dump_lines(counts, ladder), breakdown_lines(divided)),
            dump_object(counts, ladder) | {"breakdowns": breakdown_objects(divided)},
        )
        for counts, divided in dumps
        if counts.key == stored or counts.link.rows
    ]
    beside = {"events": [shown for _, shown in of_events]} if of_events else {}
    return Result(chain(of_clicks[0], *(chain(("",), lines) for lines, _ in of_events)), [of_clicks[1] | beside])


@reports("export")
@click.option("--out", type=click.File("w", lazy=True, atomic=True), help="A file instead of the terminal.")
@with_settings("data", "store", "ladder", "config")
def export_command(settings: Settings, out: TextIO | None) -> Result:
    """Write the history of every link and group as NDJSON, which `import` takes back.

    \b
    One line a link, and one a group, with "group" in the place of "key":
      {"key", "total", "bots", "first_hit", "last_hit", "opening", "buckets": [[start, end, people, bots], ...]}

    If hits had attributes, "by" has [start, end, {value: count}, other, slack] for each dimension. "events" has the
    same for each event, and its "values". Hits that a running server has not flushed yet are not in it.

    \b
    Examples:
      clickcurve export > history.ndjson
      clickcurve export --store cassandra://host:9042/clicks --out history.ndjson
    """
    if out is None:
        return Result(map(json_line, _exported(settings)), _exported(settings))
    out.write("")  # the file is opened by the first write, and an empty store writes nothing else
    if out.name != "-":
        os.fchmod(out.fileno(), 0o600)  # keys of links may be secrets
    links, groups, left_out = 0, 0, ""
    try:
        with ProgressLine("export", "rows") as progress_line:
            for line in _exported(settings, progress_line.show):
                out.write(json_line(line) + "\n")
                links, groups = links + ("key" in line), groups + ("group" in line)
    except LeftOut as error:
        left_out = error.message
        note(left_out)
    return Result((), [{"file": out.name, "links": links, "groups": groups}], FAILED if left_out else 0)


class LeftOut(Failed):
    """An export that has written all that it could, and names the first link or group that it could not."""


def _exported(
    settings: Settings, on_progress: Callable[[int, int | None], None] = lambda done, total: None
) -> Iterator[dict[str, Any]]:
    """Yields the exported links and groups; raises LeftOut in the end if there were damaged rows."""
    damaged: list[str] = []
    with reading(settings) as (store, ladder):
        now, events = int(open_clock(settings).now()), noted_names(store)
        yield from export(store, ladder, now, damaged.append, on_progress, settings.bounded, events)
        yield from exported_rules(store)
    if damaged:
        raise LeftOut(f"{len(damaged):,} links or groups with damaged rows are left out; the first: {damaged[0]}")
