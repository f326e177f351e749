"""`clickcurve copy`: everything of one store into another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import asdict

import click

from ingest.owner import ID_WINDOW_S
from server import clock
from server.app.note_spaces import NOTE_SPACES
from server.cli.main import FAILED
from server.cli.options import with_settings
from server.cli.output import ProgressLine, Result, reports
from server.cli.store.inspect import opened
from server.settings.table import Settings
from server.tokens.token_book import TOKEN_NOTES
from storage.tools.compare import Sums
from storage.tools.copy import Copied, CopiedOwner, copy
from storage.tools.copy_owner import refuse_open


@reports("copy")
@click.option("--from", "source", metavar="URI", required=True, help="The store to copy; none of its owners is open.")
@click.option("--to", "target", metavar="URI", required=True, help="The store that gets everything. May be in use.")
@with_settings("ladder", "config")
def copy_command(settings: Settings, source: str, target: str) -> Result:
    """Copy everything of one store into another: rows, owners, ids, the offsets of imports.

    Stop the server first: a store with an open owner is refused. If the copy was interrupted, the same command goes on
    where it stopped. If it is complete, the command says so and changes nothing. At the end every row is read back and
    compared byte for byte; the exit code is 1 if one differs. The source is not changed. An existing target must have
    the ladder of the source; a new SQLite database gets it.

    Then start the server with --store and the new URI, on the same data folder.

    \b
    Examples:
      clickcurve copy --from sqlite:///clickcurve-data/clickcurve.db --to cassandra://h1,h2:9042/clicks
      clickcurve copy --from cassandra://h1:9042/clicks --to sqlite:////var/lib/clickcurve/clickcurve.db
    """
    window_us = ID_WINDOW_S * 1_000_000
    with (
        ProgressLine("copy", "rows written or read back", notes=True) as line,
        opened(source, settings.ladder, read_only=True, may_be_new=True) as here,
    ):
        owners = here.owners()
        refuse_open(owners)  # before a target is made
        # Ids are stamped by the clocks of the servers, and the one of this command may be wrong.
        newest_s = min(clock.now(), max((each.begun_at for each in owners), default=clock.NEVER))
        since_us = int(newest_s * 1e6) - window_us
        ladder = here.ladder()
        with opened(target, ladder, may_be_new=True) as there:
            copied = asyncio.run(copy(here, there, ladder, since_us, window_us, NOTE_SPACES, line.show))
    return Result(_copied_lines(copied), [_copied_object(copied)], FAILED if copied.compared.rows_differing else 0)


def _copied_lines(copied: Copied) -> Iterator[str]:
    yield from (*copied.compared.differing, *copied.compared.erased, *copied.kept)
    yield from map(_owner_line, copied.owners)
    rows = _rows_compared(copied)
    if copied.compared.rows_differing:
        yield f"{copied.compared.rows_differing:,} of {rows:,} rows differ; the same command copies their owners anew"
    elif copied.compared.sums:
        yield (
            f"copied: {rows:,} rows, each read back and the same; {copied.ids:,} ids and the offsets of"
            f" {copied.imports:,} imports"
        )
        if tokens := _tokens(copied):
            yield f"{tokens:,} tokens are valid at both: revoke a token at both"
    else:
        yield "nothing to copy: " + ("all of it was copied before" if copied.owners else "the source is empty")


def _copied_object(copied: Copied) -> dict[str, object]:
    return {
        "owners": [asdict(owner) for owner in copied.owners],
        "rows": _rows_compared(copied),
        "ids": copied.ids,
        "imports": copied.imports,
        "tokens": _tokens(copied),
        "rows_differing": copied.compared.rows_differing,
        "differing": copied.compared.differing,
        "erased": copied.compared.erased,
        "kept": copied.kept,
    }


def _tokens(copied: Copied) -> int:
    return copied.notes.get(TOKEN_NOTES.name, 0)


def _rows_compared(copied: Copied) -> int:
    return sum(here.rows for here, _ in copied.compared.sums.values())


def _owner_line(owner: CopiedOwner) -> str:
    if owner.sums is None:
        return f"owner {owner.owner} was copied before, as owner {owner.number}"
    here, there = owner.sums
    if here == there:
        return f"owner {owner.owner}, there {owner.number}: {_sums_text(here)}, the same in both"
    return f"owner {owner.owner}, there {owner.number}: {_sums_text(here)}; there {_sums_text(there)}"


def _sums_text(sums: Sums) -> str:
    return f"{sums.rows:,} rows, {sums.people:,} hits of people, {sums.bots:,} of bots"
