"""`clickcurve fold | repair`: what is done by hand for rows that are due, or cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import click

from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import fold_day
from clickcurve.buckets.measures import clicks_row, rows_with_events
from clickcurve.buckets.quarantine import decode_quarantined, quarantined_hits
from clickcurve.buckets.upper_bounds import upper_bounds_in
from clickcurve.keys import QUARANTINE, breakdown_of, counts_key
from clickcurve.row_kinds.names import row_name
from clickcurve.row_kinds.table import kind_of
from retention.run import preview, revisit_breakdowns, run_pass
from server import data_folder
from server.cli.main import FAILED, Failed
from server.cli.options import with_settings
from server.cli.output import Result, note, reports, show
from server.cli.store.inspect import opened, reading, stored_keys
from server.clock import TrustedClock
from server.events.known_events import noted_names
from server.process.journals import owning
from server.process.kept_clock import open_clock
from server.settings.table import Settings
from storage.contract import Store
from storage.tools.dump import utc


@reports("fold")
@click.option("--dry-run", is_flag=True, help="Only print what would be folded; a server may run meanwhile.")
@with_settings("data", "store", "ladder", "journal_mib", "config")
def fold_command(settings: Settings, dry_run: bool) -> Result | None:
    """Fold every row that is due: older buckets become coarser ones, totals stay.

    A server does this by itself every day. The command is for data folders without a server, and refuses while a server
    holds the folder. It first flushes what the journals hold.

    \b
    Examples:
      clickcurve fold --dry-run
      clickcurve fold --data /var/lib/clickcurve
    """
    trusted = open_clock(settings)
    if dry_run:
        with reading(settings) as (store, ladder):
            if newest := max((each.begun_at for each in store.owners()), default=0):
                trusted.learn_flush(newest)
            due = preview(store.walk, _day(trusted), ladder)
        return Result(due.lines(), [asdict(due)], FAILED if due.changed_totals else 0)
    if not data_folder.journal_numbers(settings.data):  # before the folder is held, which makes it
        raise Failed(f"there is no journal in {settings.data}; --data DIR names another folder")
    with data_folder.held(settings.data, settings.store, "clickcurve fold"):
        for number in data_folder.journal_numbers(settings.data):
            asyncio.run(_fold(settings, number, trusted))
    return None


def _day(trusted: TrustedClock) -> int:
    """Returns the fold day, and says so if that is not the clock's."""
    status = trusted.status()
    if status.state != "ok":
        note(f"the clock is off by {status.off_s:+,.0f} s, as the last server of this folder knew it: not believed")
    if status.folding_held:
        left = "`clickcurve clock accept --folder` if it is right"
        note(f"the clock is more than an hour ahead of the last flush: folded to {utc(int(trusted.careful()))}; {left}")
    return fold_day(int(trusted.careful()))


async def _fold(settings: Settings, number: int, trusted: TrustedClock) -> None:
    async with owning(settings, number, trusted) as (owner, _):
        day = _day(trusted)
        passes = [await run_pass(owner, day)]
        if passes[0].stopped is None:
            passes.append(await revisit_breakdowns(owner, day))
    whose = {"journal": number, "owner": owner.status.owner}
    rows, flushes = sum(each.rows for each in passes), sum(each.steps for each in passes)
    text = f"journal {number}, owner {owner.status.owner}: {rows:,} rows visited in {flushes:,} flushes"
    show(Result([text], [{**whose, "rows": rows, "flushes": flushes}]))
    if passes[-1].stopped is not None:
        raise Failed(f"the pass stopped: {passes[-1].stopped}")


@dataclass(frozen=True, slots=True)
class DamagedRow:
    """A row for which something is quarantined. fault: why it cannot be read; None: it can, and the next flush adds."""

    key: str
    owner: int
    people: int
    bots: int
    fault: str | None

    def line(self) -> str:
        waiting = f"{self.people:,} hits of people and {self.bots:,} of bots are quarantined"
        state = self.fault or "it can be read again, and the next flush adds them"
        return f"{row_name(self.key, self.owner)}: {waiting}; {state}"


@reports("repair")
@click.argument("key", required=False)
@click.option("--all-links", is_flag=True, help="The row of all links together, instead of a KEY.")
@click.option("--group", help="The row of this group, instead of a KEY.")
@click.option("--drop", is_flag=True, help="Drop the damaged row, with its older hits.")
@click.option("--ranking", is_flag=True, help="Read all rows, and choose the candidates of rankings anew.")
@with_settings("data", "store", "ladder", "journal_mib", "config")
def repair_command(
    settings: Settings, key: str | None, all_links: bool, group: str | None, drop: bool, ranking: bool
) -> Result:
    """List the damaged rows that flushes found, and the hits that are quarantined for each.

    The exit code is 1 if there are any. When such a row can be read again, or its link is deleted, the next flush adds
    the quarantined hits, once. With --drop the row of KEY begins anew with the quarantined hits: its older hits are
    lost, from the curves and totals of that link and its events alone. --drop needs a folder that no server holds.
    `verify` finds damaged rows that no flush has found. --ranking corrects what `verify` reports about rankings; a
    server may run meanwhile.

    \b
    Examples:
      clickcurve repair
      clickcurve repair launch --drop --data /var/lib/clickcurve
    """
    named = stored_keys(key, all_links, group)
    if ranking:
        if named or drop:
            raise click.UsageError("--ranking cannot be combined with other arguments")
        return Result([_rank_anew(settings)], [])
    if len(named) != drop:
        raise click.UsageError("give repair no arguments, or --drop and one of KEY, --all-links and --group")
    stored = named[0] if named else None
    if stored is not None:
        asyncio.run(_drop(settings, stored))
    with reading(settings) as (store, _):
        waiting = [row for row in _damaged(store) if stored in (None, clicks_row(counts_key(row.key)))]
        dropped = () if stored is None else _rows_beside(store, stored)
        left = [row_name(each, owner) for each in dropped for owner in _faults(store, each)]
    if left:
        raise Failed(f"still damaged: {', '.join(left)}; run repair on the machine that has the journal of that owner")
    if not waiting:
        return Result(["no row keeps anything waiting"], [])
    return Result((row.line() for row in waiting), [asdict(row) for row in waiting], FAILED)


def _rank_anew(settings: Settings) -> str:
    with opened(settings.store, settings.ladder) as store:
        store.rank_anew()
        while store.rank_some(lambda data: upper_bounds_in(data, store.ladder())):
            pass
    return "all rows were read for rankings"


def _damaged(store: Store) -> Iterator[DamagedRow]:
    for each in asyncio.run(store.rows(QUARANTINE)).rows:
        for key, row in decode_quarantined(each.data).items():
            yield DamagedRow(key, each.owner, *quarantined_hits(row), _faults(store, key).get(each.owner))


def _faults(store: Store, key: str) -> dict[int, str]:
    """Returns why rows of this key cannot be read, by owner."""
    reasons = {}
    for row in asyncio.run(store.rows(key)).rows:
        try:
            kind_of(key).read(row.data)
        except RowCorrupt as error:
            reasons[row.owner] = error.detail
    return reasons


def _rows_beside(store: Store, key: str) -> list[str]:
    """Returns a row of clicks and those of events beside it, each with its breakdown (stored keys)."""
    return [row for counts in rows_with_events(key, noted_names(store)) for row in (counts, breakdown_of(counts))]


async def _drop(settings: Settings, key: str) -> None:
    with data_folder.held(settings.data, settings.store, "clickcurve repair"):
        trusted = open_clock(settings)
        with reading(settings) as (store, _):
            rows = _rows_beside(store, key)
        for number in data_folder.journal_numbers(settings.data):
            async with owning(settings, number, trusted) as (owner, _):
                owner.give_up(rows)
