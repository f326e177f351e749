"""`clickcurve owners list|retire`: the writers of a store, and what to do when a machine is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import click

from clickcurve.buckets.codec import decode_header
from clickcurve.keys import ALL_LINKS
from clickcurve.visible import visible
from ingest.claim import FLUSHES_PER_EPOCH
from ingest.claim_table import name_in
from server.cli.main import Failed
from server.cli.options import with_settings
from server.cli.output import ReportingGroup, Result
from server.cli.store.inspect import opened, reading
from server.process.kept_clock import open_clock
from server.settings.table import Settings
from storage.contract import OPEN, RETIRED, OwnerRecord, StoredLink
from storage.journals import EMPTYING, IN_STORE

ALIVE_S = 600  # an owner that flushed since then may be alive
UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
COLUMNS = ("owner", "state", "epoch", "flush", "begun", "lag", "host", "folder", "journal")


@click.group("owners", cls=ReportingGroup)
def owners_command() -> None:
    """List the owners of a store, and retire the owner of a lost machine.

    An owner is a journal and the one process that holds it; it alone writes its rows.

    \b
    Examples:
      clickcurve owners list
      clickcurve owners list --store cassandra://h1,h2:9042/clicks --json
      clickcurve owners retire 3 --store cassandra://h1,h2:9042/clicks
    """


@owners_command.command("list")
@with_settings("data", "store", "ladder", "config")
def list_owners(settings: Settings) -> Result:
    """List owners: state, epoch, last flush, host and folder, journal.

    \b
    flush  the number of the last flush that began, in its epoch (12 of 3: number 12 in epoch 3)
    begun  when that was, or when the owner was claimed (UTC); lag: how long ago, of an open owner
    state  open: a process holds it, or held it when it died
           closed: all it accepted is in the store; a new journal may go on with its rows
           copied: this store is a backup, and the owner's journal stayed with the original
           retired: somebody has reported its machine as lost

    \b
    Examples:
      clickcurve owners list --data ./clickcurve-data
    """
    now = int(open_clock(settings).now())
    with reading(settings) as (store, _):
        records = store.owners()
    owners = [_owner_json(record, now) for record in records]
    return Result(_owner_lines(owners), owners)


def _owner_lines(owners: Iterable[dict[str, Any]]) -> Iterator[str]:
    rows = [COLUMNS, *(tuple(map(visible, _cells(owner))) for owner in owners)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


@owners_command.command("retire")
@click.argument("owner", metavar="N", type=int)
@click.option("--disk-is-lost", is_flag=True, help="Retire it although it flushed in the last ten minutes.")
@with_settings("data", "store", "ladder", "config")
def retire_owner(settings: Settings, owner: int, disk_is_lost: bool) -> Result:
    """Give up owner N, whose machine or disk is lost for good.

    What it has counted stays. What it had accepted and not flushed is lost with its disk. Its imports may go on at
    other owners. If the machine comes back, it cannot go on as this owner.

    \b
    Examples:
      clickcurve owners retire 3
      clickcurve owners retire 3 --disk-is-lost --store cassandra://h1,h2:9042/clicks
    """
    with reading(settings) as (store, _):
        record = store.owner(owner)
        all_links = asyncio.run(store.rows(ALL_LINKS))
    now = int(open_clock(settings).careful())
    _check_retirable(owner, record, now, disk_is_lost)
    assert record is not None
    with opened(settings.store, settings.ladder) as store:
        if not store.claim(record, replace(record, state=RETIRED)):
            raise Failed(f"owner {owner} has flushed just now: it is alive, and was not retired")
    in_mid_flush = _in_mid_flush(record, all_links)
    retired = {"owner": owner, "place": record.place, "counted_until": _iso_utc(record.begun_at)}
    return Result(_consequences(record, in_mid_flush), [{**retired, "in_mid_flush": in_mid_flush}])


def _check_retirable(owner: int, record: OwnerRecord | None, now: int, disk_is_lost: bool) -> None:
    if record is None:
        raise Failed(f"there is no owner {owner}; `clickcurve owners list` shows all owners")
    if record.state == RETIRED:
        raise Failed(f"owner {owner} is retired already")
    if record.state != OPEN:
        raise Failed(f"owner {owner} is {record.state}: it holds nothing that could be lost")
    if record.journal in (IN_STORE, EMPTYING) and not disk_is_lost:
        raise Failed(
            f"the journal of owner {owner} is in the cluster, and another server empties it when this one is gone; to"
            " give up what it holds all the same, say so with --disk-is-lost"
        )
    ago_s = now - record.begun_at
    if ago_s < ALIVE_S and not disk_is_lost:
        raise Failed(
            f"owner {owner} ({record.place}) flushed or started {_lag(ago_s)} ago, so it may be alive; if its disk is"
            " lost for good, say so with --disk-is-lost"
        )


def _in_mid_flush(record: OwnerRecord, all_links: StoredLink) -> bool:
    """Returns whether its last flush began and did not end: the row of all links, written last, lacks it."""
    marks = [decode_header(row.data).mark for row in all_links.rows if row.owner == record.owner]
    return max(marks, default=0) < record.begun


def _consequences(record: OwnerRecord, in_mid_flush: bool) -> Iterator[str]:
    yield f"owner {record.owner} ({record.place}) is retired"
    yield f"  what it counted stays, up to the flush that began {_iso_utc(record.begun_at)}"
    if in_mid_flush:
        yield "  that flush did not end: some links have their part of it, and an import that goes on counts that again"
    yield "  what it accepted after that, and did not flush, is lost with its disk"
    yield "  its imports may go on: give the same files to `clickcurve import` at any other server"
    yield (
        "  should it come back, what its journal holds counts under a new number, or is quarantined and reported where"
        " it may be counted already"
    )


def _cells(owner: dict[str, Any]) -> tuple[str, ...]:
    """Returns the cells of a line about an owner, from what `_owner_json` says of it."""
    flush = str(owner["flush"]) if owner["flush"] or owner["flush_epoch"] else "-"
    if flush != "-" and owner["flush_epoch"] != owner["epoch"]:
        flush = f"{flush} of {owner['flush_epoch']}"
    lag = "-" if owner["lag_s"] is None else _lag(owner["lag_s"])
    ids = str(owner["owner"]), owner["state"], str(owner["epoch"])
    return *ids, flush, owner["begun_at"], lag, *(owner[name] or "-" for name in ("host", "folder", "journal"))


def _owner_json(record: OwnerRecord, now: int) -> dict[str, Any]:
    host, separator, folder = record.place.partition(":")
    return {
        "owner": record.owner,
        "state": record.state,
        "epoch": record.epoch,
        "flush": record.begun % FLUSHES_PER_EPOCH,
        "flush_epoch": record.begun // FLUSHES_PER_EPOCH,
        "begun_at": _iso_utc(record.begun_at),
        "lag_s": max(0, now - record.begun_at) if record.state == OPEN else None,
        "host": host if separator else "",
        "folder": folder if separator else record.place,
        "journal": name_in(record),
    }


def _iso_utc(t: int) -> str:
    return datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _lag(seconds: int) -> str:
    """Writes a duration for people, in the largest unit that fits."""
    size, unit = next(((size, unit) for size, unit in UNITS if seconds >= size), UNITS[-1])
    return f"{max(0, seconds) // size}{unit}"
