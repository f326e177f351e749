"""The auditor of several nodes: what each read may and must show at the moment when it is made.

- A hit **may** show as soon as it was sent, and never once it is certainly refused at every node that it was sent to.
- A hit without an id **must** show at the node that acknowledged it, at once, and elsewhere when it is in the store.
- One with an id must show when it is in the store. It may have been sent to several nodes, and which one counts it is
  known only when the flushes of all of them have asked for the id.

That it is in the store is known by the flushes that each node reports: at the end of a try the node had reported n. The
flush after that may have begun before, the one after it takes what was accepted. So n + 2 flushes are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.audit.auditor import Auditor, Misfit, Outcome, Sent, Try

FLUSHES_UNTIL_STORED = 2


class NodesAuditor(Auditor[Sent]):
    """Judges reads while requests are under way. `flushes`: how many each node has reported since its first start."""

    def __init__(self, flushes: Callable[[], Sequence[int]]) -> None:
        super().__init__()
        self.keys: list[str] = []  # in the order in which they came up
        self._flushes = flushes
        self._stored_with: dict[Try, int] = {}  # flushes of the node, when what it accepted is in the store for certain
        self._stored_sum = 0
        self._open: set[Sent] = set()  # not known to be stored, and not refused or given up
        self._most_sum = 0

    def enter(self, sent: Sent) -> Sent:
        self.keys += [hit.key for hit in sent.hits if hit.digit == 0]
        self._open.add(sent)
        self._most_sum += sent.weight
        return super().enter(sent)

    def end(self, one: Try, outcome: Outcome) -> None:
        super().end(one, outcome)
        self._stored_with[one] = self._flushes()[one.node] + FLUSHES_UNTIL_STORED

    def settle(self, sent: Sent) -> None:
        """No further try follows."""
        if not sent.acknowledged:
            self._open.discard(sent)
        if sent.refused:
            self._most_sum -= sent.weight

    # --- what a read must and may show ----------------------------------------------------------------------------
    def certain(self, key: str, node: int) -> list[Sent]:
        """Returns the key's requests that a read must show if it is sent to the node now."""
        flushes = self._flushes()
        return [sent for sent in self.by_key.get(key, ()) if self._is_certain(sent, node, flushes)]

    def _is_certain(self, sent: Sent, node: int, flushes: Sequence[int]) -> bool:
        if sent.stored:
            return True
        if not sent.acknowledged:
            return False
        if not sent.repeatable and sent.tries[0].node == node:
            return True
        if sent.under_way:
            return False
        taken = [one for one in sent.tries if one.outcome is not Outcome.refused]
        if all(flushes[one.node] >= self._stored_with[one] for one in taken):
            self._is_stored(sent)
            return True
        return False

    def _is_stored(self, sent: Sent) -> None:
        sent.stored = True
        self._stored_sum += sent.weight
        self._open.discard(sent)

    def judge_read(self, key: str, total: int, certain: Sequence[Sent]) -> list[Misfit]:
        """Returns the hits that a read shows wrongly. `certain`: as it was when the read was sent."""
        return self.misfits(key, total, must=set(certain))

    def all_least(self, node: int) -> int:
        """Returns the least that a read of all links together may show at the node, if it is sent now."""
        flushes = self._flushes()
        certain = [sent for sent in list(self._open) if self._is_certain(sent, node, flushes)]
        # Those that are known to be stored now moved into the sum by that.
        return self._stored_sum + sum(sent.weight for sent in certain if not sent.stored)

    def all_most(self) -> int:
        """Returns the most that a read of all links together may show, if it has been answered now."""
        return self._most_sum
