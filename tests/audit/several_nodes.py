"""The auditor of several nodes: what each read may and must show at the moment when it is made.

- A hit **may** show as soon as it was sent, and never once it is certainly refused at every node that it was sent to.
- A hit without an id **must** show at the node that acknowledged it, at once, and elsewhere when it is in the store.
- One with an id must show when it is in the store. It may have been sent to several nodes, and which one counts it is
  known only when the flushes of all of them have asked for the id.

At once holds as long as the node has the holder that acknowledged the hit: a journal on a disk is there after every
restart, one in the cluster goes on at another node perhaps.

That a hit is in the store is known by the flushes that are reported of its holder: at the end of a try there were n.
The flush after that may have begun before, the one after it takes what was accepted. So n + 2 flushes are enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tests.audit.auditor import Auditor, Misfit, Outcome, Sent, Try

FLUSHES_UNTIL_STORED = 2


@dataclass(frozen=True, slots=True)
class Holder:
    """What accepts hits at a node: an owner, in one of its epochs."""

    owner: int
    epoch: int = 0


class Holders(Protocol):
    def look(self) -> None:
        """Learns what the nodes have told since the last look: the other methods answer by that."""

    def current(self, node: int) -> Holder | None:
        """Returns what accepts hits at the node now; None: nothing does."""

    def past(self, node: int) -> Sequence[Holder]:
        """Returns all that have accepted hits at the node, the current one last."""

    def flushes(self, holder: Holder) -> int:
        """Returns how many flushes are reported that hold what the holder accepted before they began."""


@dataclass(frozen=True, slots=True)
class Certain:
    """What a read of a key must show: what is stored, at any node; the rest, if this is the node's holder still."""

    holder: Holder | None
    stored: Sequence[Sent]
    here: Sequence[Sent]

    def after(self, holder: Holder | None) -> list[Sent]:
        """Returns what an answer must show if the node's holder was this one when it came."""
        return [*self.stored, *(self.here if holder == self.holder else ())]


class NodesAuditor(Auditor[Sent]):
    """Judges reads while requests are under way. `holders`: what accepts where, and how far it has come."""

    def __init__(self, holders: Holders) -> None:
        super().__init__()
        self.keys: list[str] = []  # in the order in which they came up
        self.holders = holders
        self._first_holder: dict[Try, int] = {}  # the place among the node's holders of the first that may have it
        self._held_by: dict[Try, Sequence[Holder]] = {}  # those that may have accepted it
        # What its holders must have reported when what they accepted is in the store for certain; None: nothing tells.
        self._stored_with: dict[Try, dict[Holder, int] | None] = {}
        self._stored_sum = 0
        self._open: set[Sent] = set()  # not known to be stored, and not refused or given up
        self._most_sum = 0

    def enter(self, sent: Sent) -> Sent:
        self.keys += [hit.key for hit in sent.hits if hit.digit == 0]
        self._open.add(sent)
        self._most_sum += sent.weight
        return super().enter(sent)

    def begin(self, sent: Sent, node: int = 0) -> Try:
        self.holders.look()
        begun = super().begin(sent, node)
        current, past = self.holders.current(node), self.holders.past(node)
        self._first_holder[begun] = len(past) - (current is not None)
        return begun

    def end(self, one: Try, outcome: Outcome) -> None:
        self.holders.look()
        super().end(one, outcome)
        held_by = list(self.holders.past(one.node)[self._first_holder[one] :])
        self._held_by[one] = held_by
        self._stored_with[one] = {held: self.holders.flushes(held) + FLUSHES_UNTIL_STORED for held in held_by}

    def give_up(self, one: Try) -> None:
        """The client waits no longer: the node may accept the request at any later time."""
        self.end(one, Outcome.unknown)
        self._stored_with[one] = None

    def settle(self, sent: Sent) -> None:
        """No further try follows."""
        if not sent.acknowledged:
            self._open.discard(sent)
        if sent.refused:
            self._most_sum -= sent.weight

    # --- what a read must and may show ----------------------------------------------------------------------------
    def certain(self, key: str, node: int) -> Certain:
        """Returns the key's requests that a read must show if it is sent to the node now."""
        self.holders.look()
        holder = self.holders.current(node)
        stored, here = [], []
        for sent in self.by_key.get(key, ()):
            if self._is_stored(sent):
                stored.append(sent)
            elif self._is_at(sent, holder):
                here.append(sent)
        return Certain(holder, stored, here)

    def _is_at(self, sent: Sent, holder: Holder | None) -> bool:
        """Whether this holder has acknowledged it, and it alone."""
        return sent.acknowledged and not sent.repeatable and self._held_by[sent.tries[0]] == [holder]

    def _is_stored(self, sent: Sent) -> bool:
        if not sent.stored and sent.acknowledged and not sent.under_way:
            taken = [one for one in sent.tries if one.outcome is not Outcome.refused]
            if all(self._has_flushed(one) for one in taken):
                sent.stored = True
                self._stored_sum += sent.weight
                self._open.discard(sent)
        return sent.stored

    def _has_flushed(self, one: Try) -> bool:
        needed = self._stored_with[one]
        return needed is not None and all(self.holders.flushes(held) >= least for held, least in needed.items())

    def judge_read(self, key: str, total: int, must: Sequence[Sent]) -> list[Misfit]:
        """Returns the hits that a read shows wrongly. `must`: what was certain when it was sent, and still after it."""
        return self.misfits(key, total, must=set(must))

    def all_least(self, node: int) -> tuple[int, int]:
        """Returns the least that a read of all links together may show at the node, if it is sent now.

        The second number holds if the node has the same holder when the answer comes, the first one in any case.
        """
        self.holders.look()
        holder = self.holders.current(node)
        waiting = [sent for sent in list(self._open) if not self._is_stored(sent)]
        here = sum(sent.weight for sent in waiting if self._is_at(sent, holder))
        return self._stored_sum, self._stored_sum + here

    def all_most(self) -> int:
        """Returns the most that a read of all links together may show, if it has been answered now."""
        return self._most_sum

    def only_at(self, holder: Holder) -> list[Sent]:
        """Returns what this holder alone has acknowledged, no other may have, and is not known to be stored."""
        self.holders.look()
        return [sent for sent in list(self._open) if not self._is_stored(sent) and self._is_only_at(sent, holder)]

    def _is_only_at(self, sent: Sent, holder: Holder) -> bool:
        taken = [one for one in sent.tries if one.outcome is not Outcome.refused]
        return sent.acknowledged and all(self._held_by.get(one) == [holder] for one in taken)
