"""What accepts hits at each server of a campaign, and which flushes are complete: all of it as their logs tell it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.audit.several_nodes import FLUSHES_UNTIL_STORED, Holder
from tests.chaos import owners
from tests.chaos.owners import Event, Owner


class HoldersOnDisks:
    """Each server goes on with the journal of its own disk, whenever it starts again.

    A journal gives way at a start where the store cannot judge it. From then on two journals flush, and the flushes of
    one say nothing of the hits of the other: the count waits until the former one is empty.
    """

    def __init__(self, servers: Sequence[Owner]) -> None:
        self._servers = servers
        self._held = [[Holder(server.number)] for server in servers]
        self._flushes = [0] * len(servers)
        self._orphaned = [0] * len(servers)  # journals

    def look(self) -> None:
        for node, server in enumerate(self._servers):
            for event in server.news():
                self._note(node, event)

    def _note(self, node: int, event: Event) -> None:
        match event.get("event"):
            case "journal gives way":
                self._orphaned[node] += 1
            case "orphaned journal emptied":
                self._orphaned[node] -= 1
            case "flush":
                self._flushes[node] += not self._orphaned[node]

    def current(self, node: int) -> Holder | None:
        return self._held[node][-1]

    def past(self, node: int) -> Sequence[Holder]:
        return self._held[node]

    def flushes(self, holder: Holder) -> int:
        return self._flushes[holder.owner]


class HoldersInCluster:
    """Each start takes any owner. So flushes are counted by owner, whichever server made them.

    What an owner has accepted in one epoch is in the flushes of that epoch and of all later ones. A process that stood
    still may tell of a flush long after it: that one counts for the epoch that this process has.
    """

    def __init__(self, servers: Sequence[Owner]) -> None:
        self._servers = servers
        self._current: list[Holder | None] = [None] * len(servers)
        self._past: list[list[Holder]] = [[] for _ in servers]
        self._epochs: list[dict[int, int]] = [{} for _ in servers]  # server -> owner that it has taken -> epoch
        self._flushes: Counter[Holder] = Counter()

    def look(self) -> None:
        for node, server in enumerate(self._servers):
            for event in server.news():
                self._note(node, event)

    def _note(self, node: int, event: Event) -> None:
        match event:
            case {"event": "listening", "owner": owner, "epoch": epoch}:
                self._epochs[node][owner] = epoch
                self._current[node] = Holder(owner, epoch)
                self._past[node].append(Holder(owner, epoch))
            case {"event": "owner lost"}:
                self._current[node] = None
            case {"event": owners.ENDED}:
                self._current[node] = None
                self._epochs[node].clear()
            case {"event": "owner adopted", "owner": owner, "epoch": epoch}:
                self._epochs[node][owner] = epoch
            case {"event": "flush", "owner": owner} if owner in self._epochs[node]:
                self._flushes[Holder(owner, self._epochs[node][owner])] += 1
            case {"event": "orphaned journal emptied", "owner": owner} if owner in self._epochs[node]:
                self._flushes[Holder(owner, self._epochs[node][owner])] += FLUSHES_UNTIL_STORED

    def current(self, node: int) -> Holder | None:
        return self._current[node]

    def past(self, node: int) -> Sequence[Holder]:
        return self._past[node]

    def flushes(self, holder: Holder) -> int:
        return sum(
            flushes
            for held, flushes in self._flushes.items()
            if held.owner == holder.owner and held.epoch >= holder.epoch
        )
