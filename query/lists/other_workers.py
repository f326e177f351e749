"""What other workers of this machine hold of rows that are listed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from clickcurve.buckets.row import Pending

Stamp: TypeAlias = tuple[str, int, int]


class WorkerPending(NamedTuple):
    """What one worker has accepted and not flushed, by stored key; stamp: another one after each of its flushes."""

    stamp: Stamp
    pending: Mapping[str, Sequence[Pending]]


AskOtherWorkers: TypeAlias = Callable[[], Awaitable[Sequence[WorkerPending]]]


async def nobody() -> Sequence[WorkerPending]:
    """Returns what other workers hold where there are none, or where they are not asked."""
    return ()


def by_stored_key(workers: Iterable[WorkerPending]) -> dict[str, list[Pending]]:
    """Returns the pending hits of several workers by stored key."""
    pending_of: dict[str, list[Pending]] = {}
    for worker in workers:
        for stored, pending in worker.pending.items():
            pending_of.setdefault(stored, []).extend(pending)
    return pending_of
