"""`clickcurve fold`: the retention pass by hand."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

import click

from clickcurve.buckets.ladder import fold_day
from retention.run import preview, revisit_breakdowns, run_pass
from server import clock, data_folder
from server.cli.main import FAILED, Failed
from server.cli.options import with_settings
from server.cli.output import Result, reports, show
from server.cli.store.inspect import reading
from server.process.journals import owning
from server.settings.table import Settings


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
    day = fold_day(int(clock.now()))
    if dry_run:
        with reading(settings) as (store, ladder):
            due = preview(store.walk, day, ladder)
        return Result(due.lines(), [asdict(due)], FAILED if due.changed_totals else 0)
    if not data_folder.journal_numbers(settings.data):  # before the folder is held, which makes it
        raise Failed(f"there is no journal in {settings.data}; --data DIR names another folder")
    with data_folder.held(settings.data, settings.store, "clickcurve fold"):
        for number in data_folder.journal_numbers(settings.data):
            asyncio.run(_fold(settings, number, day))
    return None


async def _fold(settings: Settings, number: int, day: int) -> None:
    async with owning(settings, number) as (owner, _):
        passes = [await run_pass(owner, day)]
        if passes[0].stopped is None:
            passes.append(await revisit_breakdowns(owner, day))
    whose = {"journal": number, "owner": owner.status.owner}
    rows, flushes = sum(each.rows for each in passes), sum(each.steps for each in passes)
    text = f"journal {number}, owner {owner.status.owner}: {rows:,} rows visited in {flushes:,} flushes"
    show(Result([text], [{**whose, "rows": rows, "flushes": flushes}]))
    if passes[-1].stopped is not None:
        raise Failed(f"the pass stopped: {passes[-1].stopped}")
