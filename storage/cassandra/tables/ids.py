"""The ids table: which flush an id belongs to.

A row holds all claims of its id, so one conditional update decides: the first claim is an insert, a later one replaces
the list that was read by a longer one. A row expires when neither a repeated hit nor a late journal can need it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

from clickcurve.buckets.errors import ClickcurveError, StoreUnavailable
from clickcurve.buckets.ladder import DAY_S
from clickcurve.times import SECOND_US
from storage.cassandra.cql import Cql, Statement
from storage.cassandra.partitions import partitions
from storage.cassandra.statements import CLAIM_ID, CLAIM_ID_AGAIN, CLAIMED, CLAIMS, IDS_FIRST, IDS_FROM

Claim: TypeAlias = tuple[int, int, int]  # owner, flush, accepted_us

DAY_US = DAY_S * SECOND_US
REPLAY_US = 5 * DAY_US  # a journal that is older is not flushed by itself
MARGIN_US = DAY_US  # for clocks that differ, and for a flush that takes long
ATTEMPTS = 8  # of a claim; one that changed nothing was overtaken by another claim of the same id
ASKED_AT_ONCE = 32


@dataclass(slots=True)
class Decided:
    """What a flush under way knows already: its own ids, and others' ids, each with accept stamp and window.

    begun: an earlier try, perhaps of a process that is dead, may have claimed more. So ids are looked up first: that is
    cheaper than a claim that is refused, and can be asked of a second node when the answer is lost.
    """

    flush: int
    begun: bool
    mine: set[str] = field(default_factory=set)
    taken: set[tuple[str, int, int]] = field(default_factory=set)  # id, accepted_us, window_us


class IdsTable:
    def __init__(self, cql: Cql) -> None:
        self._cql = cql
        self._decided: dict[int, Decided] = {}  # by owner

    def claim(self, owner: int, flush: int, ids: Mapping[str, int], window_us: int) -> set[str]:
        """Claims the ids ({id: accepted_us}) for a flush; returns those that belong to another one.

        Keeps what is decided when the rest fails, so that the next attempt of the flush goes on from there.
        """
        decided = self._decided.get(owner)
        if decided is None or decided.flush != flush:
            decided = self._decided[owner] = Decided(flush, begun=decided is None)
        taken = {id_ for id_ in ids if (id_, ids[id_], window_us) in decided.taken}
        new = sorted(ids.keys() - decided.mine - taken)
        if not new:
            return taken
        begun, decided.begun = decided.begun, True
        others = self._decide(owner, flush, {id_: ids[id_] for id_ in new}, window_us, begun)
        decided.begun = begun
        decided.mine.update(set(new) - others)
        decided.taken.update((id_, ids[id_], window_us) for id_ in others)
        return taken | others

    def _decide(self, owner: int, flush: int, ids: Mapping[str, int], window_us: int, begun: bool) -> set[str]:
        kept_us = window_us + REPLAY_US + MARGIN_US
        taken: set[str] = set()

        def undecided(some: Sequence[str], stored: Iterator[list[Claim]]) -> dict[str, list[Claim]]:
            """Returns the claims of ids that belong to nobody yet. A claim that was read once never disappears."""
            left: dict[str, list[Claim]] = {}
            for id_, claims in zip(some, stored, strict=True):
                if _is_claimed_by(owner, flush, claims):
                    continue
                if any(abs(ids[id_] - accepted_us) <= window_us for _, _, accepted_us in claims):
                    taken.add(id_)
                else:
                    left[id_] = claims
            return left

        claims_of: dict[str, list[Claim]] = {id_: [] for id_ in ids}  # the claims that each is thought to have
        if begun:
            claims_of = undecided(list(ids), self._stored(CLAIMED, ids))
        for attempt in range(ATTEMPTS):
            wanted = {id_: (owner, flush, ids[id_]) for id_ in claims_of}
            left = self._add_claims(claims_of, wanted, kept_us, attempt)
            claims_of = undecided(left, self._stored(CLAIMS, left))
            if not claims_of:
                return taken
        raise StoreUnavailable(f"{len(claims_of)} ids could not be claimed in {ATTEMPTS} attempts")

    def _add_claims(
        self, claims_of: Mapping[str, list[Claim]], wanted: Mapping[str, Claim], kept_us: int, attempt: int
    ) -> list[str]:
        """Adds a claim to each id; returns the ids for which it was refused or its outcome is unknown."""
        ttl_s = kept_us // SECOND_US
        new = [id_ for id_, claims in claims_of.items() if not claims]
        again = [id_ for id_, claims in claims_of.items() if claims]
        inserted = self._cql.apply_each_if(CLAIM_ID, [(id_, [wanted[id_]], ttl_s) for id_ in new], attempt)
        updates = []
        for id_ in again:
            # Claims that no repeat can meet any more are dropped, so that an id which is used for ever keeps few.
            kept = [claim for claim in claims_of[id_] if claim[2] >= wanted[id_][2] - kept_us]
            updates.append((ttl_s, [*kept, wanted[id_]], id_, claims_of[id_]))
        updated = self._cql.apply_each_if(CLAIM_ID_AGAIN, updates, attempt)
        outcomes = zip([*new, *again], [*inserted, *updated], strict=True)
        return [id_ for id_, applied in outcomes if not applied]

    def _stored(self, statement: Statement, ids: Iterable[str]) -> Iterator[list[Claim]]:
        for rows in self._cql.run_each(statement, [(id_,) for id_ in ids]):
            yield _claims(rows[0][0]) if rows else []

    async def claimed(self, ids: Sequence[str], since_us: int) -> set[str]:
        """Returns those with a claim accepted at or after since_us; reads ASKED_AT_ONCE at once."""
        claimed: set[str] = set()
        failed: list[ClickcurveError] = []
        waiting = iter(ids)

        async def ask() -> None:
            for id_ in waiting:
                if failed:
                    return
                try:
                    rows = await self._cql.ask(CLAIMED, (id_,))
                except ClickcurveError as error:
                    failed.append(error)
                    return
                if rows and any(accepted_us >= since_us for _, _, accepted_us in _claims(rows[0][0])):
                    claimed.add(id_)

        await asyncio.gather(*(ask() for _ in range(min(len(ids), ASKED_AT_ONCE))))
        if failed:
            raise failed[0]
        return claimed

    def page(self, after: str | None, limit: int) -> list[tuple[str, int]]:
        """Returns up to `limit` ids after `after`, each with the newest accept stamp of its claims."""
        page = partitions(self._cql, IDS_FIRST, IDS_FROM, after, limit + 1)
        return [(id_, max(at for _, _, at in _claims(rows[0][0]))) for id_, rows in islice(page, limit)]


def _is_claimed_by(owner: int, flush: int, claims: Sequence[Claim]) -> bool:
    return any(claim[:2] == (owner, flush) for claim in claims)


def _claims(stored: Sequence[Claim] | None) -> list[Claim]:
    return [(owner, flush, accepted_us) for owner, flush, accepted_us in stored or ()]
