"""`clickcurve join-spellings`: links that were counted under escaped keys join those of the decoded keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial

import click

from clickcurve.buckets.errors import OwnerFenced
from clickcurve.buckets.ladder import fold_day
from clickcurve.keys import decoded_once
from clickcurve.visible import visible
from server import clock, data_folder
from server.attributes import key_form_of
from server.cli.main import FAILED, Failed
from server.cli.options import with_settings
from server.cli.output import Result, number_of, reports
from server.cli.store.inspect import reading
from server.clock import TrustedClock
from server.corrections.joined_rules import JoinedRules
from server.corrections.rules import DisavowBook
from server.process.journals import owning
from server.process.kept_clock import open_clock
from server.settings.table import Settings
from storage.contract import OPEN, Held, OwnerRecord, Store
from storage.from_uri import open_store
from storage.joined_rows import JOINING, RowJoiner, joining_owners
from storage.tools.join_spellings import Joiner, Spelling, spellings


@reports("join-spellings")
@click.argument("keys", nargs=-1)
@click.option("--apply", "applies", is_flag=True, help="Join them; without it they are only listed.")
@with_settings("data", "store", "ladder", "journal_mib", "config")
def join_spellings_command(settings: Settings, keys: tuple[str, ...], applies: bool) -> Result:
    """List the links whose keys have escapes, and with --apply join each with the link of the decoded key.

    Older versions kept keys of logs, middlewares and takeovers as they were sent: `%6Caunch` was another link than
    `launch`. With key_case and trailing_slash, other forms of a key are joined too. KEYS names some of the links.
    Counts, curves, breakdowns, visitors, and the rules by which hits are called bots, move. On SQLite each link is
    joined in one transaction; in a cluster each machine's rows, and a join that was killed is finished by the next
    start of its server or of this command. --apply needs a folder that no server holds; in a cluster run it on each
    machine in turn, with the server stopped. Links that were deleted once are left as they are, and in a cluster those
    of which rules call hits bots.

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
            found = _found(store, form_of, keys, JoinedRules(DisavowBook(store), store.shared))
        return Result(_lines(found, "would be joined with"), [_object(each, False) for each in found])
    numbers = data_folder.journal_numbers(settings.data)
    if not numbers and settings.store.startswith("sqlite:"):
        raise Failed(f"there is no journal in {settings.data}; --data DIR names another folder")
    with data_folder.held(settings.data, settings.store, "clickcurve join-spellings"):
        trusted = open_clock(settings)
        for number in numbers:
            asyncio.run(_flush(settings, number, trusted))
        with closing(open_store(settings.store, settings.ladder)) as store:
            rules = JoinedRules(DisavowBook(store), store.shared)
            found = _found(store, form_of, keys, rules)
            joiner = Joiner(store, RowJoiner(store.ladder(), settings.bounded, fold_day(int(trusted.careful()))))
            rules.note(each for each in found if not each.why_not)
            _join(store, joiner, found)
            left = [each for each in found if not joiner.is_joined(each)]
            rules.drop_taken(store, form_of)
            stays = list(_left(left, joiner, store.owners()))
    lines = [*_lines([each for each in found if joiner.is_joined(each)], "joined with"), *stays]
    return Result(lines, [_object(each, joiner.is_joined(each)) for each in found], FAILED if left else 0)


def _found(store: Store, form_of: Callable[[str], str], keys: Sequence[str], rules: JoinedRules) -> list[Spelling]:
    """Returns the links whose keys have another form, each with why it is left as it is, if it is."""
    found = list(spellings(store, form_of, keys))
    named = {each.key for each in found}
    return [each._replace(why_not=each.why_not or _chained(each, named) or rules.why_not(each)) for each in found]


def _chained(each: Spelling, named: Collection[str]) -> str:
    return f"{visible(each.joined)} is itself one of these links: join that first" if each.joined in named else ""


async def _flush(settings: Settings, number: int, trusted: TrustedClock) -> None:
    async with owning(settings, number, trusted):
        pass


def _join(store: Store, joiner: Joiner, found: list[Spelling]) -> None:
    """Joins the rows of all owners that are closed: those of the journals here, and of workers that there are no more.

    A journal finds its owner again after such a claim.
    """
    named = {owner for each in found for owner in each.owners} | joining_owners(store.notes(JOINING))
    closed = [record.owner for record in store.owners() if record.owner in named and record.state != OPEN]
    if not store.shared:
        joiner.join_together({owner: _taken(store, owner) for owner in closed}, found)
        return
    for owner in closed:
        with suppress(OwnerFenced):  # its server has started: what is done is done, the rest is told as left
            joiner.join_by_owner(partial(_taken, store, owner), owner, found)


def _taken(store: Store, owner: int) -> Held:
    """Claims an owner that is not open, to rewrite its rows; raises OwnerFenced if that is no longer so."""
    record = store.owner(owner)
    if record is not None and record.state != OPEN:
        after = record.rewritten_by(f"join-spellings@{int(clock.now())}")
        if store.claim(record, after, rewrites=True):
            return Held(after.owner, after.epoch, after.holder, rewrites=True)
    raise OwnerFenced(f"owner {owner} was claimed by another process")


def _lines(found: list[Spelling], word: str) -> Iterator[str]:
    for each in found:
        hits = f"{number_of(each.people, 'hit')} of people, {each.bots:,} of bots"
        called = f", {each.called:,} of people are called bots" if each.called > 0 else ""
        outcome = f"is left as it is: {each.why_not}" if each.why_not else f"{word} {visible(each.joined)}"
        yield f"{visible(each.key)} {outcome} ({hits}{called})"
    if not found:
        yield "no key has another form"


def _left(left: list[Spelling], joiner: Joiner, owners: list[OwnerRecord]) -> Iterator[str]:
    places = {record.owner: record.place for record in owners}
    for each in left:
        gone = sorted(set(each.owners) - {owner for key, owner in joiner.joined if key == each.key})
        elsewhere = ", ".join(f"owner {owner} ({places.get(owner, 'unknown')})" for owner in gone)
        why = each.why_not or joiner.left.get(each.key) or f"it has rows of {elsewhere}, not closed; these stay"
        yield f"{visible(each.key)} is left as it is: {why}"


def _object(each: Spelling, is_joined: bool) -> dict[str, object]:
    return {
        "key": each.key,
        "with": each.joined,
        "people": each.people,
        "bots": each.bots,
        "called": each.called,
        "joined": is_joined,
        "why_not": each.why_not,
    }
