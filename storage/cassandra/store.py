"""The store for many machines: one partition per link in Cassandra, and in it one packed row per owner.

Only owners, ids and sources are read and changed in one step: by conditional updates. A row is written whole, with a
stamp (`epoch << 32 | k`) that is lower than the stamp of a later write of the same process and of any write of a later
epoch, so a write that arrives late changes nothing. The module schema describes the tables.

It keeps no candidates: on a cluster they would be rows that every flush of each owner reads and writes once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from heapq import nsmallest
from itertools import count, islice

from clickcurve.buckets.errors import OwnerFenced, SettingInvalid, StoreMismatch, StoreUnavailable
from clickcurve.buckets.ladder import CLICKS, Ladder
from clickcurve.keys import ALL_LINKS, breakdown_of, contains, counts_key
from clickcurve.row_kinds.table import apart, kind_of
from storage.cassandra.cql import Cql, Rows
from storage.cassandra.partitions import (
    both_of_rows,
    breakdown_of_rows,
    link_of_rows,
    partition_key,
    partition_of,
    partitions,
    stored_key_of,
)
from storage.cassandra.statements import (
    CHANGE_NOTE,
    DROP_NOTE,
    KEYS,
    LINK,
    LINK_BY,
    META,
    NOTE,
    NOTE_FOR,
    NOTED,
    WALK_BY_FIRST,
    WALK_BY_FROM,
    WALK_BY_ONE,
    WALK_FIRST,
    WALK_FROM,
)
from storage.cassandra.tables.day_index import DayIndex
from storage.cassandra.tables.erasures import Erasures
from storage.cassandra.tables.ids import REPLAY_US, IdsTable
from storage.cassandra.tables.journals import CassandraJournals
from storage.cassandra.tables.own_rows import OwnRows
from storage.cassandra.tables.owners import OwnersTable
from storage.cassandra.tables.sources import SourcesTable
from storage.contract import FoundLinks, Held, OwnerRecord, OwnRow, Save, SavedRow, Source, Store, StoredLink
from storage.owners import check_fence
from storage.view import View

CACHE_BYTES = 64 * 1024 * 1024
# Answers that are lost are waited for together: by 64 at once, with one answer in twenty lost, 94 ids took 9 s.
IDS_PER_CLAIM = 1_000
ROWS_PER_FENCE = 2_000  # rows and ids that a flush writes between two looks at its owner's record
KEYS_PER_PAGE = 5_000
NOTE_ATTEMPTS = 3
VERSION_OF_JOURNALS = 2  # of the schema
_NOTE = "note:"  # before the name of each note in meta

_writes = count(1)  # of the process, over all stores that it opens: an epoch belongs to a process


def pinned_stamp(epoch: int) -> int:
    """Returns the stamp of the next write of an epoch: 2^32 last 30 years at four writes a second."""
    k = next(_writes)
    if k >> 32:
        raise StoreUnavailable("this process has used up its write timestamps: restart it")
    return epoch << 32 | k


class CassandraStore(Store):
    shared = True
    replay_us: int | None = REPLAY_US
    links_per_load = 500  # many requests at once

    def __init__(
        self,
        cql: Cql,
        cache_bytes: int = CACHE_BYTES,
        ladder: Callable[[], Ladder] = lambda: CLICKS,
        forgetful: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Works on `cql`, a connection to a keyspace of this schema; `close` closes it. `ladder`: the keyspace's.

        forgetful: asks the nodes, and returns why no journal may lie there.
        """
        self._cql = cql
        self._ladder, self._forgetful = ladder, forgetful
        self._journals: CassandraJournals | None = None
        self._owners = OwnersTable(cql)
        self._ids = IdsTable(cql)
        self._sources = SourcesTable(cql)
        self._days = DayIndex(cql, pinned_stamp)
        self._erasures = Erasures(cql)
        self._own_rows = OwnRows(cql, self._days, self._erasures, cache_bytes)
        self._may_write: dict[int, tuple[Held, int, int]] = {}  # by owner: a flush, and rows until the next look

    def uuid(self) -> str:
        """Returns the identity of the keyspace, which was noted when its tables were made."""
        return self._meta()["uuid"]

    def _meta(self) -> dict[str, str]:
        return dict(self._cql.run(META))

    def ladder(self) -> Ladder:
        return self._ladder()

    # --- owners ---------------------------------------------------------------------------------------------------
    def owners(self) -> list[OwnerRecord]:
        return self._owners.all()

    def owner(self, owner: int) -> OwnerRecord | None:
        return self._owners.get(owner)

    def create_owner(self, record: OwnerRecord) -> bool:
        self._forget(record.owner)
        return self._owners.create(record)

    def claim(self, before: OwnerRecord, after: OwnerRecord, *, rewrites: bool = False) -> bool:
        self._forget(after.owner)
        return self._owners.claim(before, after, rewrites)

    def begin(self, held: Held, previous: int, flush: int, at: int) -> bool:
        return self._begin(held, flush, lambda: self._owners.begin(held, previous, flush, at))

    def _begin(self, held: Held, flush: int, begin: Callable[[], bool]) -> bool:
        self._own_rows.flush_begins(held.owner)
        begun = begin()
        if begun:
            self._may_write[held.owner] = held, flush, ROWS_PER_FENCE
        return begun

    def journals(self) -> CassandraJournals:
        if self._journals is not None:
            return self._journals
        noted = self._meta()
        if int(noted.get("version", VERSION_OF_JOURNALS)) < VERSION_OF_JOURNALS:
            raise StoreMismatch(
                f"the keyspace has schema {noted['version']}, and journals in it need {VERSION_OF_JOURNALS}:"
                " run `clickcurve schema apply`; journals on disks work with both"
            )
        if sentence := self._forgetful():
            raise SettingInvalid(
                sentence, field="journal", value="cluster", rule="commitlog_sync must be group or batch"
            )
        self._journals = CassandraJournals(self._cql, self._begin)
        return self._journals

    def close_owner(self, held: Held) -> bool:
        self._forget(held.owner)
        return self._owners.close(held)

    def _forget(self, owner: int) -> None:
        """Forgets what is known of an owner, whose rows another process may have written until now, or will."""
        self._own_rows.drop_owner(owner)
        self._may_write.pop(owner, None)

    # --- a flush --------------------------------------------------------------------------------------------------
    def claim_ids(self, held: Held, flush: int, ids: Mapping[str, int], window_us: int) -> set[str]:
        taken: set[str] = set()
        rest = iter(sorted(ids))
        while some := list(islice(rest, IDS_PER_CLAIM)):
            self._check_fence(held, flush, len(some))
            taken |= self._ids.claim(held.owner, flush, {id_: ids[id_] for id_ in some}, window_us)
        return taken

    def load_own(self, owner: int, keys: Sequence[str]) -> dict[str, OwnRow]:
        return self._own_rows.load(owner, keys)

    def read_own(self, owner: int, keys: Sequence[str]) -> dict[str, OwnRow]:
        return self._own_rows.read(owner, keys)

    def save_own(self, held: Held, flush: int, rows: Mapping[str, SavedRow], sources: Mapping[str, Source]) -> None:
        self._send_own(held, flush, rows)()
        for name, source in sources.items():
            self._sources.move(name, held, source)

    def save_together(self, saves: Sequence[tuple[Held, int, Mapping[str, SavedRow]]]) -> None:
        """Raises StoreMismatch: a cluster writes its partitions one by one."""
        raise StoreMismatch("a cluster cannot change rows of several owners in one step")

    @contextmanager
    def saving(self, held: Held, flush: int) -> Iterator[Save]:
        """Keeps one piece under way: the next one is sent when all of it is acknowledged."""
        under_way: list[Callable[[], None]] = []

        def wait() -> None:
            while under_way:
                under_way.pop()()

        def save(rows: Mapping[str, SavedRow]) -> None:
            wait()
            under_way.append(self._send_own(held, flush, rows))

        try:
            yield save
        except BaseException:
            with suppress(StoreUnavailable):  # that it failed is known
                wait()
            raise
        wait()

    def _send_own(self, held: Held, flush: int, rows: Mapping[str, SavedRow]) -> Callable[[], None]:
        """Sends own rows; returns what waits until they are durable, or raises."""
        self._check_fence(held, flush, len(rows))
        return self._own_rows.send(held, pinned_stamp(held.epoch), rows)

    def _check_fence(self, held: Held, flush: int, rows: int) -> None:
        """Raises OwnerFenced unless `held` may write these rows of this flush.

        Asks the cluster unless `begin`, or the look before, has done so less than ROWS_PER_FENCE rows ago. What is
        written after a takeover loses by its stamp; the look is there to end such a flush.
        """
        fence = self._may_write.pop(held.owner, None)
        left = fence[2] if fence is not None and fence[:2] == (held, flush) else 0
        if left <= 0:
            try:
                check_fence(held, flush, self._owners.get(held.owner))
            except OwnerFenced:
                self._own_rows.drop_owner(held.owner)
                raise
            left = ROWS_PER_FENCE
        self._may_write[held.owner] = held, flush, left - rows

    # --- erasing, ids, sources ------------------------------------------------------------------------------------
    def erase(self, keys: Sequence[str], at_us: int, last: Sequence[str] = ()) -> None:
        try:
            self._erasures.erase([*map(partition_of, keys)], at_us, [*map(partition_of, last)])
        finally:
            for key in (*keys, *last):
                self._own_rows.drop(counts_key(key))

    def note(self, name: str, value: str, kept_s: int | None = None) -> str:
        for attempt in range(NOTE_ATTEMPTS):
            if kept_s is None:
                self._cql.apply_if(NOTE, (_NOTE + name, value), attempt)
            else:
                self._cql.apply_if(NOTE_FOR, (_NOTE + name, value, kept_s), attempt)
            if (noted := self.noted(name)) is not None:
                return noted
        raise StoreUnavailable(f"could not confirm that {name} was written; try again")

    def change_note(self, name: str, before: str, after: str) -> str | None:
        for attempt in range(NOTE_ATTEMPTS):
            if self._cql.apply_if(CHANGE_NOTE, (after, _NOTE + name, before), attempt):
                return after
            found = self.noted(name)  # a serial read: it ends an update whose outcome is unknown
            if found != before:
                return found
        raise StoreUnavailable(f"could not confirm that {name} was changed; try again")

    def drop_notes(self, names: Sequence[str]) -> None:
        self._cql.apply_each_if(DROP_NOTE, [(_NOTE + name,) for name in names])

    def notes(self, prefix: str = "") -> dict[str, str]:
        noted = self._meta().items()
        return {name.removeprefix(_NOTE): value for name, value in noted if name.startswith(_NOTE + prefix)}

    def noted(self, name: str) -> str | None:
        return next((str(value) for (value,) in self._cql.run(NOTED, (_NOTE + name,))), None)

    def source(self, source: str) -> Source | None:
        return self._sources.get(source)

    def claim_source(self, source: str, held: Held, before: Source | None) -> bool:
        return self._sources.claim(source, held, before)

    # --- reading --------------------------------------------------------------------------------------------------
    async def rows(self, key: str) -> StoredLink:
        if kind_of(key).beside_counts:
            return breakdown_of_rows(await self._cql.ask(LINK_BY, (partition_of(key),)))
        return link_of_rows(await self._cql.ask(LINK, (partition_key(key),)))

    async def claimed(self, ids: Sequence[str], since_us: int) -> set[str]:
        return await self._ids.claimed(ids, since_us)

    def due(self, owner: int, fold_day: int, after: str | None, limit: int) -> list[str]:
        return self._days.due(owner, fold_day, after, limit)

    def visited(self, held: Held, fold_day: int) -> None:
        self._days.visited(held, fold_day)

    def walk(self, after: str | None, limit: int, since_day: int | None = None) -> list[tuple[str, StoredLink]]:
        days = None if since_day is None else self._days.touched_days(since_day)
        if days is None:
            last = None if after is None else partition_key(after)
            stored = partitions(self._cql, WALK_FIRST, WALK_FROM, last, limit + 1)
            links = ((stored_key_of(key), link_of_rows(rows)) for key, rows in stored)
            return list(islice((each for each in links if each[1].rows), limit))
        page: list[tuple[str, StoredLink]] = []
        while len(page) < limit and (keys := self._days.touched(days, after, limit - len(page))):
            page += self._with_rows(keys)
            after = keys[-1]
        return page

    def _with_rows(self, keys: Sequence[str]) -> list[tuple[str, StoredLink]]:
        """Reads the counts of these stored keys; leaves out those that have no rows."""
        links = map(link_of_rows, self._cql.run_each(LINK, [(partition_key(key),) for key in keys]))
        return [(key, link) for key, link in zip(keys, links, strict=True) if link.rows]

    def in_order(self, start: str, limit: int) -> list[tuple[str, StoredLink]]:
        page: list[tuple[str, StoredLink]] = []
        while len(page) < limit and (keys := self._smallest_keys(start, limit - len(page))):
            page += self._with_rows(keys)
            start = f"{keys[-1]}\0"  # the next one that there can be
        return page

    def containing(self, text: str, start: str, limit: int, most: int, prefix: str) -> FoundLinks:
        keys = self._smallest_keys(start, limit, text, prefix)
        return FoundLinks(self._with_rows(keys), keys[-1] if len(keys) == limit else None)

    def _smallest_keys(self, start: str, limit: int, text: str = "", prefix: str = "") -> list[str]:
        """Returns the first keys from `start` on that begin with a prefix and contain a text.

        Reads every key of the cluster: they are stored by their hashes.
        """
        pages = self._cql.pages(KEYS, (), KEYS_PER_PAGE)
        stored = (stored_key_of(key) for page in pages for (key,) in page)
        within = (key for key in stored if key >= start and key.startswith(prefix))
        return nsmallest(limit, (key for key in within if not text or contains(key, text)))

    def links(self, keys: Sequence[str]) -> dict[str, StoredLink]:
        return dict(self._with_rows(keys))

    @contextmanager
    def view(self) -> Iterator[CassandraView]:
        rows = self._cql.run(WALK_BY_ONE, (partition_key(ALL_LINKS),))
        yield CassandraView(self, _rows_of_both(ALL_LINKS, rows))

    def measures(self) -> Mapping[str, float]:
        return {**self._own_rows.measures(), **self._cql.measures()}

    def close(self) -> None:
        self._cql.close()


def _rows_of_both(stored: str, rows: Rows) -> list[tuple[str, StoredLink]]:
    """Returns the counts and the breakdown in a partition's rows, by stored key, without those that have none."""
    both = zip((stored, breakdown_of(stored)), both_of_rows(rows), strict=True)
    return [(key, link) for key, link in both if link.rows]


class CassandraView(View):
    """The live store, except the rows of all links, which were read when the view began."""

    def __init__(self, store: CassandraStore, all_links: list[tuple[str, StoredLink]]) -> None:
        self._store = store
        self._all_links = all_links

    def owners(self) -> list[OwnerRecord]:
        return self._store.owners()

    def walk(self, after: str | None, limit: int) -> list[tuple[str, StoredLink]]:
        """Returns a page. Both rows of a link come in one, which may be one longer than `limit` for that."""
        page = list(self._all_links) if after is None else []
        last = None if after is None or counts_key(after) == ALL_LINKS else partition_of(after)
        for partition, rows in partitions(self._store._cql, WALK_BY_FIRST, WALK_BY_FROM, last, limit + 1):
            if len(page) >= limit:
                break
            if (key := stored_key_of(partition)) != ALL_LINKS:
                page += _rows_of_both(key, rows)
        return page

    def count_rows(self, breakdowns: bool) -> None:
        """Returns None: counting reads every partition."""

    def links(self, keys: Sequence[str]) -> dict[str, StoredLink]:
        """Returns what is stored of these keys now, however long ago the view began."""
        links: dict[str, StoredLink] = {}
        counts, breakdowns = apart(keys)
        for statement, link_of, some in (
            (LINK, link_of_rows, counts),
            (LINK_BY, breakdown_of_rows, breakdowns),
        ):
            read = self._store._cql.run_each(statement, [(partition_of(key),) for key in some])
            links |= zip(some, map(link_of, read), strict=True)
        return {key: link for key, link in links.items() if link.rows or link.erased_at}

    def notes(self) -> dict[str, str]:
        return self._store.notes()

    def ids(self, after: str | None, limit: int) -> list[tuple[str, int]]:
        return self._store._ids.page(after, limit)

    def sources(self) -> dict[str, Source]:
        return self._store._sources.all()
