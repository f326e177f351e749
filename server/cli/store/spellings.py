"""`clickcurve join-spellings`: links that were counted under escaped keys join those of the decoded keys."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing

import click

from clickcurve.keys import decoded_once
from clickcurve.visible import visible
from server import clock, data_folder
from server.attributes import key_form_of
from server.cli.main import FAILED, Failed
from server.cli.options import with_settings
from server.cli.output import Result, reports
from server.cli.store.inspect import reading
from server.clock import TrustedClock
from server.process.journals import owning
from server.process.kept_clock import open_clock
from server.settings.table import Settings
from storage.contract import OPEN, Held, Store
from storage.from_uri import open_store
from storage.tools.join_spellings import Joiner, Spelling, spellings

_ONLY_SQLITE = (
    "join-spellings works on SQLite alone: in a cluster each machine writes its own rows, and two of one owner cannot "
    "be changed together. There, count on under the decoded key, and read the old one beside it"
)


@reports("join-spellings")
@click.argument("keys", nargs=-1)
@click.option("--apply", "applies", is_flag=True, help="Join them; without it they are only listed.")
@with_settings("data", "store", "ladder", "journal_mib", "config")
def join_spellings_command(settings: Settings, keys: tuple[str, ...], applies: bool) -> Result:
    """List the links whose keys have escapes, and with --apply join each with the link of the decoded key.

    Older versions kept keys of logs, middlewares and takeovers as they were sent: `%6Caunch` was another link than
    `launch`. With key_case and trailing_slash, other forms of a key are joined too. KEYS names some of the links.
    Counts, curves, breakdowns and visitors move, owner by owner, each link in one transaction: a kill leaves it joined
    or as it was, and the same command goes on. Links that were deleted once, or with hits that are called bots, are
    left as they are. --apply needs a folder that no server holds, and SQLite.

    \b
    Examples:
      clickcurve join-spellings
      clickcurve join-spellings --apply --data /var/lib/clickcurve
      clickcurve join-spellings --apply %6Caunch
    """
    form = key_form_of(settings)

    def form_of(key: str) -> str:
        return form.of(decoded_once(key))

    if not applies:
        with reading(settings) as (store, _):
            found = list(spellings(store, form_of, keys))
        return Result(_lines(found, "would be joined with"), [_object(each, False) for each in found])
    if not settings.store.startswith("sqlite:"):
        raise Failed(_ONLY_SQLITE)
    if not data_folder.journal_numbers(settings.data):
        raise Failed(f"there is no journal in {settings.data}; --data DIR names another folder")
    with data_folder.held(settings.data, settings.store, "clickcurve join-spellings"):
        trusted = open_clock(settings)
        for number in data_folder.journal_numbers(settings.data):
            asyncio.run(_flush(settings, number, trusted))
        with closing(open_store(settings.store, settings.ladder)) as store:
            found = list(spellings(store, form_of, keys))
            joiner = Joiner(store, store.ladder(), settings.bounded)
            _join(store, joiner, found)
    left = [each for each in found if not _is_joined(each, joiner)]
    lines = [*_lines([each for each in found if _is_joined(each, joiner)], "joined with"), *_left(left, joiner)]
    return Result(lines, [_object(each, _is_joined(each, joiner)) for each in found], FAILED if left else 0)


async def _flush(settings: Settings, number: int, trusted: TrustedClock) -> None:
    async with owning(settings, number, trusted):
        pass


def _join(store: Store, joiner: Joiner, found: list[Spelling]) -> None:
    """Joins the rows of all owners that are closed: those of the journals here, and of workers that there are no more.

    A journal finds its owner again after such a claim.
    """
    named = {owner for each in found for owner in each.owners}
    for record in store.owners():
        if record.owner in named and record.state != OPEN:
            after = record.rewritten_by(f"join-spellings@{int(clock.now())}")
            if store.claim(record, after, rewrites=True):
                joiner.join(Held(after.owner, after.epoch, after.holder, rewrites=True), found)


def _is_joined(each: Spelling, joiner: Joiner) -> bool:
    return all((each.key, owner) in joiner.joined for owner in each.owners) and bool(each.owners)


def _lines(found: list[Spelling], word: str) -> Iterator[str]:
    for each in found:
        hits = f"{each.people:,} hits of people, {each.bots:,} of bots"
        outcome = f"is left as it is: {each.why_not}" if each.why_not else f"{word} {visible(each.joined)}"
        yield f"{visible(each.key)} {outcome} ({hits})"
    if not found:
        yield "no key has another form"


def _left(left: list[Spelling], joiner: Joiner) -> Iterator[str]:
    for each in left:
        gone = sorted(set(each.owners) - {owner for key, owner in joiner.joined if key == each.key})
        elsewhere = f"owners {', '.join(map(str, gone))} have no journal here; their rows stay"
        why = each.why_not or ("the sum would be too large" if each.key in joiner.too_large else elsewhere)
        yield f"{visible(each.key)} is left as it is: {why}"


def _object(each: Spelling, is_joined: bool) -> dict[str, object]:
    return {
        "key": each.key,
        "with": each.joined,
        "people": each.people,
        "bots": each.bots,
        "joined": is_joined,
        "why_not": each.why_not,
    }
