"""Agrees with the store on the dimensions of breakdowns, their starts, and the salts of visitors' hashes.

The store notes from which moment a dimension is recorded, and forgets it when the settings leave the dimension out.
Hits before that moment are unrecorded in it; later hits gave no value. In a store without hits it is recorded from the
beginning. The salt of a day is noted when it is first needed, and deleted after 48 hours. A copy, or a backup that is
restored, lacks it: the visitors of the day may then be counted again, under another one. How many salts a day has had
is noted for that.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from clickcurve.buckets.codec import decode_header
from clickcurve.buckets.errors import ClickcurveError, RowCorrupt, SettingInvalid, StoreUnavailable
from clickcurve.buckets.ladder import DAY_S, HOUR_S, MINUTE_S
from clickcurve.hosts import IN_KEY, Hosts
from clickcurve.keys import ALL_LINKS, KeyForm
from ingest.agents.bots import bot_judge
from ingest.attributes.bot_rules import BotRules, BotRuleSet, read_bot_rules
from ingest.attributes.country import OFF, country_reader
from ingest.attributes.dimensions import CHANNEL
from ingest.attributes.profile import ProfileReader
from ingest.attributes.referrer import ReferrerReader, read_aliases
from ingest.hit import FUTURE_S
from server.job import Job
from server.logs import log
from server.settings.table import KEY_CASES, TRAILING_SLASHES, Settings
from storage.contract import Store, StoredRow
from storage.notes import Notes, NoteSpace, TakenAlong, leave

SINCE = "since:"  # then a dimension: since when hits are divided by it, in epoch seconds
SALT = "salt:"  # then the start of a day: its salt, which no backup and no copy has
SALT_NOTES = NoteSpace("salts", (SALT,), leave, in_backups=False)
SALTED = "salted:"  # then the start of a day: how many salts it has had
SALT_BYTES = 32
SALT_KEPT_S = 48 * HOUR_S  # from the beginning of its day
RENEW_S = 600
AHEAD_S = HOUR_S  # before midnight: hits may come from the next day
# A hit may say that it happened so much later than it came, and other workers may begin so much later than this one.
SINCE_LATER_S = FUTURE_S + 2 * MINUTE_S


def key_form_of(settings: Settings) -> KeyForm:
    """Returns the form in which keys count, by the settings."""
    return KeyForm(settings.key_case == KEY_CASES[1], settings.trailing_slash == TRAILING_SLASHES[1])


def referrers_of(settings: Settings) -> ReferrerReader:
    """Returns the reader of referrers of the settings and their file; raises SettingInvalid."""
    aliases = settings.breakdown_ref_aliases
    more = read_aliases(aliases) if isinstance(aliases, Path) else None
    return ReferrerReader(settings.breakdown_own_hosts, aliases is not False, more)


def dimensions_in(store: Store, settings: Settings) -> tuple[str, ...]:
    """Returns the dimensions to divide hits by. Asks the store; raises StoreUnavailable.

    They are those of the settings. Where these name none, a store that knows others and no channel is an older one,
    and goes on with what it has.
    """
    if settings.origins["breakdown_dimensions"] == "default":
        noted = store.notes(SINCE)
        if noted and SINCE + CHANNEL not in noted:
            return tuple(name for name in settings.breakdown_dimensions if name != CHANNEL)
    return settings.breakdown_dimensions


def bot_rules_of(settings: Settings) -> BotRuleSet:
    """Returns the rules for bots of the settings and their files; raises SettingInvalid."""
    by_agent = settings.bots_agents, settings.bots_files, settings.bots_people
    return read_bot_rules(settings.bots_refs, settings.bots_networks, *by_agent)


class Attributes:
    """What the settings divide hits by.

    reader: reads attributes from hits; referrers: its part for `ref`; bounded: how much of them is kept. hosts: what
    keys say of the hosts of addresses.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        clock: Callable[[], float],
        careful: Callable[[], float] | None = None,
        running: Callable[[], float] | None = None,
        dimensions: tuple[str, ...] | None = None,
    ) -> None:
        """Raises SettingInvalid for group_by_host without hosts in keys, or a file that cannot be read.

        careful: the time that salts are deleted by; None: `clock`. running: seconds that nobody can set; as `clock`.
        dimensions: as `dimensions_in` says; None: those of the settings.
        """
        if settings.group_by_host and settings.hosts != IN_KEY:
            rule = f"hosts = {IN_KEY}"
            raise SettingInvalid(f"group_by_host needs {rule}", field="group_by_host", value="on", rule=rule)
        self._settings = settings
        self.hosts = Hosts(settings.hosts == IN_KEY)
        self.dimensions = settings.breakdown_dimensions if dimensions is None else dimensions
        self.visitors = settings.breakdown_visitors and bool(self.dimensions)
        self.bounded = settings.bounded
        self._countries = settings.breakdown_country_data
        self._store = store
        self._clock, self._careful, self._running = clock, careful or clock, running or clock
        self._since: dict[str, int] = {}
        self._salts: dict[int, bytes] = {}
        self._salted: dict[int, int] = {}  # days that have had several salts, and how many
        self._agreed_at: float | None = None
        self._beginning: asyncio.Task[None] | None = None
        self.referrers = referrers_of(settings)
        self.bot_rules = BotRules(bot_rules_of(settings), self.referrers)
        self.reader = ProfileReader(
            self.dimensions,
            country_reader(self._countries if self.dimensions else OFF),
            self.referrers,
            bot_judge().bot,
            self._salts if self.visitors else None,
            self.bot_rules,
            settings.group_by_host,
            key_form_of(settings),
            settings.events_names,
        )

    def since(self, dimension: str) -> int:
        """Returns the moment since which hits are divided by a dimension; raises StoreUnavailable while unknown."""
        since = self._since.get(dimension)
        if since is None:
            raise StoreUnavailable("the store has not answered yet, so the start of each dimension is unknown")
        return since

    def salts_in(self, start: int, end: int) -> int:
        """Returns how many salts a day of [start, end) has had, at most: so often its visitors may be counted."""
        return max((many for day, many in self._salted.items() if start < day + DAY_S and day < end), default=1)

    def reload(self) -> None:
        """Reads rules for bots and the files of countries and aliases again; what cannot be read stays as it was."""
        self._reload_aliases()
        try:
            rules = bot_rules_of(self._settings.again())
        except ClickcurveError as error:
            log.error(
                "rules for bots not reloaded", extra={"reason": error.detail, "then": "the old rules stay in use"}
            )
        else:
            if rules != self.bot_rules.rules:
                self.bot_rules.use(rules)
                log.info("rules for bots reloaded", extra={"rules": len(rules)})
        if not self.dimensions:
            return
        try:
            self.reader.use_countries(country_reader(self._countries))
        except ClickcurveError as error:
            log.error("countries not reloaded", extra={"reason": error.detail, "then": "the old file is used"})

    def _reload_aliases(self) -> None:
        path = self._settings.breakdown_ref_aliases
        if not isinstance(path, Path):
            return
        try:
            more = read_aliases(path)
        except ClickcurveError as error:
            log.error("aliases not reloaded", extra={"reason": error.detail, "then": "the old ones stay in use"})
            return
        self.referrers.use_aliases(more)
        self.reader.forget_referrers()
        self.bot_rules.use(self.bot_rules.rules)

    async def begin(self, holds_hits: bool, patience_s: float | None = None) -> None:
        """Agrees with the store before the first hit comes, if it answers, and answers in time.

        holds_hits: some wait for the store.
        """
        self._beginning = asyncio.create_task(self._begin(holds_hits))
        await asyncio.wait({self._beginning}, timeout=patience_s)
        if self._beginning.done():
            self._beginning.result()
        else:
            reason = f"no answer in {patience_s} s"
            log.warning("dimensions not agreed on", extra={"reason": reason, "then": "it goes on"})

    async def _begin(self, holds_hits: bool) -> None:
        try:
            await self._renew(holds_hits)
        except ClickcurveError as error:
            log.warning("dimensions not agreed on", extra={"reason": error.detail, "then": "it is tried again"})

    def jobs(self) -> Iterator[Job]:
        yield Job("dimensions", self.renew, self._settings.flush_s, at_start=False)

    async def renew(self) -> None:
        """Agrees with the store again if that was RENEW_S ago, or it did not answer at the start.

        Days pass, and other servers may divide by something else.
        """
        self._forget_old_salts()
        if self._agreed_at is None or self._running() - self._agreed_at >= RENEW_S or not self._has_salts():
            await self._renew(holds_hits=True)

    async def _renew(self, holds_hits: bool) -> None:
        now = int(self._clock())
        is_new = not holds_hits and not any(map(_has_hits, (await self._store.rows(ALL_LINKS)).rows))
        since = 0 if is_new else (now + SINCE_LATER_S) // MINUTE_S * MINUTE_S
        await asyncio.to_thread(self._agree, now, since)

    def _agree(self, now: int, since: int) -> None:
        noted = {**self._store.notes(SINCE), **self._store.notes(SALT), **self._store.notes(SALTED)}
        # Channel first: a worker that begins meanwhile takes a store with the others alone for an older one.
        for name in sorted(self.dimensions, key=lambda name: name != CHANNEL):
            self._since[name] = int(noted.get(SINCE + name) or self._store.note(SINCE + name, str(since)))
        left = [name for name in noted if name.startswith(SINCE) and name.removeprefix(SINCE) not in self.dimensions]
        days = {int(name.removeprefix(SALT)) for name in noted if name.startswith(SALT)}
        old = {day for day in days if day + SALT_KEPT_S <= self._careful()}
        salted = {int(name.removeprefix(SALTED)): int(many) for name, many in noted.items() if name.startswith(SALTED)}
        once = [f"{SALTED}{day}" for day, many in salted.items() if many == 1 and day + SALT_KEPT_S <= self._careful()]
        if left or old or once:
            self._store.drop_notes([*left, *(f"{SALT}{day}" for day in sorted(old)), *once])
        if self.visitors:
            self._renew_salts(now, noted, salted)
        self._salted = {day: many for day, many in salted.items() if many > 1}
        self._agreed_at = self._running()

    def _forget_old_salts(self) -> None:
        """Lets go of salts also while the store does not answer: a visitor of their days is then unknown."""
        for day in list(self._salts):
            if day + SALT_KEPT_S <= self._careful():
                self._salts.pop(day, None)  # the thread that asks the store may be first

    def _has_salts(self) -> bool:
        """Returns whether today's hits have a salt: after a step of the clock it is another day."""
        now = int(self._clock())
        return not self.visitors or now - now % DAY_S in self._salts

    def _renew_salts(self, now: int, noted: Mapping[str, str], salted: dict[int, int]) -> None:
        self._forget_old_salts()
        today = now - now % DAY_S
        for day in {today - DAY_S, today, (now + AHEAD_S) // DAY_S * DAY_S} - self._salts.keys():
            name, kept_s = f"{SALT}{day}", day + SALT_KEPT_S - now
            salt, before = noted.get(name), salted.get(day)
            # Counted before it is made: a kill in between makes the day look less certain than it is.
            if before is None:
                salted[day] = int(self._store.note(f"{SALTED}{day}", "1"))
            elif salt is None:
                salted[day] = before + 1
                self._store.change_note(f"{SALTED}{day}", str(before), str(before + 1))
            salt = salt or self._store.note(name, secrets.token_hex(SALT_BYTES), kept_s)
            self._salts[day] = bytes.fromhex(salt)


def _has_hits(row: StoredRow) -> bool:
    """Returns whether anything is counted in a row: an owner's first flush may write one without a hit."""
    try:
        header = decode_header(row.data)
    except RowCorrupt:
        return True
    return header.lifetime + header.bots > 0


def _take_along(source: Notes, target: Store, now: int) -> TakenAlong:
    """Makes a target break hits down from no earlier moment than a source, since their rows are joined."""
    theirs = target.notes(SINCE)
    for name in sorted({name for name in (*source, *theirs) if name.startswith(SINCE)}):
        latest = str(max(int(source.get(name, now)), int(theirs.get(name, 0))))
        if theirs.get(name, latest) != latest:
            target.drop_notes([name])
        target.note(name, latest)
    return TakenAlong()


SINCE_NOTES = NoteSpace("starts of dimensions", (SINCE,), _take_along)


def _take_salted(source: Notes, target: Store, now: int) -> TakenAlong:
    """Makes a target know which days have visitors under salts of a source, which it does not get."""
    theirs = target.notes(SALTED)
    for name in (name for name in source if name.startswith(SALTED)):
        many = str(max(int(theirs.get(name, 0)), int(source[name]) + (name in theirs)))
        if theirs.get(name, many) != many:
            target.drop_notes([name])
        target.note(name, many)
    return TakenAlong()


SALTED_NOTES = NoteSpace("numbers of salts", (SALTED,), _take_salted)
