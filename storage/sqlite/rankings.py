"""Rankings in an SQLite file: questions to the candidates, and which rankings have them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress

from clickcurve.buckets.candidates import NOBODY, Cutoffs, CutoffsByPrefix, highest, together
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.prefixes import ALL_KEYS, Prefixes, after_prefix, is_of_links
from clickcurve.buckets.upper_bounds import BOT_WINDOWS, BOTS, PEOPLE, WINDOWS, UpperBounds, edges
from clickcurve.keys import counts_a_link
from storage.contract import StoredLink, first_after
from storage.first_use import FirstUse
from storage.rankings import JOINED, Candidates, Ranking
from storage.sqlite.candidates import (
    KnownRankings,
    corrected_bounds,
    cutoffs_to_pass,
    drop_ranking,
    known_rankings,
    newest_day,
    owner_cutoffs,
    rank_corrected,
    rank_rows,
    ranked_prefixes,
)
from storage.sqlite.connections import Connections
from storage.sqlite.file import BOUND_COLUMNS
from storage.sqlite.tables import END, links_of

ROWS_PER_STEP = 2_000
# A prefix with fewer links has no candidates: they cost a flush more than a walk over them costs a question.
MANY_LINKS = 4_000

_WITHIN = "key >= :start AND key < :beyond"  # each bound once: SQLite uses no other to find rows
_STEP_END = f"SELECT key FROM rows WHERE {_WITHIN} ORDER BY key LIMIT 1 OFFSET {{}}"
_UNRANKED = f"SELECT owner, key, data FROM rows WHERE {_WITHIN}"
_HAS_MANY = f"SELECT 1 FROM rows WHERE {_WITHIN} LIMIT 1 OFFSET {{}}"
_NEXT_UNRANKED = (
    "SELECT id, prefix, unranked_after FROM rankings WHERE unranked_after IS NOT NULL ORDER BY prefix LIMIT 1"
)
_LAST = BOUND_COLUMNS[0]


class SqliteRankings:
    """What a store on an SQLite file says of rankings. known: which rankings the flush of an owner knows."""

    _connections: FirstUse[Connections]
    _known: dict[int, KnownRankings]

    def cutoffs(self, owner: int) -> CutoffsByPrefix:
        with self._connections.open().on_worker() as db:
            known = self._known[owner] = known_rankings(db, self._known.get(owner))

        def read(prefix: str) -> Cutoffs:
            with self._connections.open().on_worker() as db:
                return cutoffs_to_pass(db, known.ids[prefix], owner)

        return CutoffsByPrefix(known.prefixes, read)

    @contextmanager
    def ranked(self, ranking: Ranking) -> Iterator[SqliteRanked | None]:
        connections = self._connections.open()
        with connections.on_scanner() as db:
            db.execute("BEGIN")  # candidates, cutoffs and rows from one view
            try:
                known = dict(ranked_prefixes(db))
                prefixes = [(each, known[each]) for each in Prefixes(known).of(ranking.prefix) if each in known]
                yield SqliteRanked(db, ranking, max(prefixes)[1]) if prefixes else None
            finally:
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")

    def rank_prefixes(self, prefixes: Collection[str]) -> None:
        connections = self._connections.open()
        with connections.on_scanner() as db:
            there = known_rankings(db).ids.keys() - {ALL_KEYS}
        gone, new = there - {*prefixes}, []
        for prefix in {*prefixes} - there - {ALL_KEYS}:
            with connections.on_scanner() as db:  # one after the other, so that walks get their turn
                if db.execute(_HAS_MANY.format(MANY_LINKS - 1), _within(prefix)).fetchone():
                    new.append(prefix)
        if gone or new:
            with connections.transaction() as db:
                ids = known_rankings(db).ids
                for prefix in gone & ids.keys():
                    drop_ranking(db, ids[prefix])
                new_rows = [(prefix,) for prefix in new]
                db.executemany("INSERT OR IGNORE INTO rankings (prefix, unranked_after) VALUES (?, '')", new_rows)

    def rank_anew(self) -> None:
        with self._connections.open().transaction() as db:
            db.execute("UPDATE rankings SET unranked_after = ''")

    def rank_some(self, bounds_of: Callable[[bytes], UpperBounds]) -> bool:
        connections = self._connections.open()
        with connections.on_scanner() as db:
            if db.execute(_NEXT_UNRANKED).fetchone() is None:
                return False
        with connections.transaction() as db:
            ranking, prefix, after = db.execute(_NEXT_UNRANKED).fetchone() or (None, "", "")
            if ranking is None:
                return False  # another process did the rest
            asked = {**_within(prefix), "start": max(prefix, first_after(after))}
            (end,) = db.execute(_STEP_END.format(ROWS_PER_STEP), asked).fetchone() or (None,)
            db.execute("UPDATE rankings SET unranked_after = ? WHERE id = ?", (end, ranking))
            owners: dict[int, dict[str, UpperBounds | None]] = {}
            asked |= {} if end is None else {"beyond": f"{end}\0"}
            rows = [row for row in db.execute(_UNRANKED, asked) if counts_a_link(row[1])]
            rows = rows if prefix else [row for row in rows if is_of_links(row[1])]
            corrected = corrected_bounds(db, [key for _, key, _ in rows], connections.file.ladder)
            for owner, key, data in rows:
                if key not in corrected:
                    owners.setdefault(owner, {})[key] = bounds_of(data)
            for owner, bounds_by_key in owners.items():
                rank_rows(db, ranking, owner, bounds_by_key)
            rank_corrected(db, known_rankings(db), corrected)
            return db.execute(_NEXT_UNRANKED).fetchone() is not None


def _within(prefix: str) -> dict[str, str | bytes]:
    """Returns the values of _WITHIN."""
    return {"start": prefix, "beyond": after_prefix(prefix) or END}


class SqliteRanked:
    """The candidate links, as long as the transaction of `db` lasts."""

    def __init__(self, db: sqlite3.Connection, ranking: Ranking, ranking_id: int) -> None:
        self._db = db
        self._ranking = ranking
        self._id = ranking_id

    def candidates(self) -> Candidates | None:
        """Returns the candidates whose keys begin with the prefix; None if the cutoffs cannot be read."""
        since, people, bots = self._ranking.since, self._ranking.people, self._ranking.bots
        owners = [owner for (owner,) in self._db.execute("SELECT owner FROM bars WHERE ranking = ?", (self._id,))]
        try:
            cutoffs = {owner: owner_cutoffs(self._db, self._id, owner) for owner in owners}
        except RowCorrupt:
            return None
        newest = {owner: newest_day(self._db, self._id, each, owner) for owner, each in cutoffs.items()}
        rests = {owner: each.rest(since, newest[owner], people, bots) for owner, each in cutoffs.items()}
        of_corrected = rests.pop(JOINED, NOBODY)  # these count by themselves; of any other link owners' rows add up
        of_others = together(list(rests.values()))
        rest = highest(of_corrected, of_others)
        asked = ((people, BOUND_COLUMNS[PEOPLE:BOTS], WINDOWS), (bots, BOUND_COLUMNS[BOTS:], BOT_WINDOWS))
        bound = "+".join(_most(counts, since, windows) for wanted, counts, windows in asked if wanted)
        less = " ".join(f"WHEN {owner} THEN {most}" for owner, (most, _) in rests.items())
        query = (
            f"SELECT key, sum({bound} {f'- CASE owner {less} ELSE 0 END' if less else ''})"
            f" + CASE min(owner) WHEN {JOINED} THEN 0 ELSE :others END AS bound"
            f" FROM leaders WHERE ranking = :ranking AND {_WITHIN}"
            " GROUP BY key HAVING bound > :rest OR bound = :rest AND key < :first ORDER BY bound DESC, key"
        )
        asked_for = {"others": of_others[0], "rest": rest[0], "first": rest[1], "ranking": self._id}
        return Candidates(self._db.execute(query, {**asked_for, **_within(self._ranking.prefix)}).fetchall(), rest)

    def links(self, keys: Sequence[str]) -> dict[str, StoredLink]:
        return links_of(self._db, keys)


def _most(counts: Sequence[str], since: int | None, windows: tuple[int, ...]) -> str:
    """Writes the count of the narrowest window that covers the range; the last one is of all their life."""
    if since is None:
        return counts[-1]
    cases = [f"WHEN {_LAST} < {edge} THEN {each}" for edge, each in zip(edges(since, windows), counts, strict=False)]
    return f"CASE WHEN {_LAST} < {since} THEN 0 {' '.join(cases)} ELSE {counts[-1]} END"
