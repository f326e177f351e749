"""How long nothing went through: the longest time between two successes, at one node and at all of them together."""

from __future__ import annotations

from collections.abc import Callable


class Availability:
    """Of one kind of request at `nodes` nodes that are all asked all the time, from now until `end`."""

    def __init__(self, nodes: int, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last_at = [clock()] * nodes
        self._longest_at_one_s = 0.0
        self._longest_at_all_s = 0.0
        self._ended = False

    def succeeded(self, node: int) -> None:
        if self._ended:
            return
        now = self._clock()
        self._longest_at_one_s = max(self._longest_at_one_s, now - self._last_at[node])
        self._longest_at_all_s = max(self._longest_at_all_s, now - max(self._last_at))
        self._last_at[node] = now

    def end(self) -> tuple[float, float]:
        """The longest time without success in seconds: at one node, at all of them. Nothing counts any more."""
        for node in range(len(self._last_at)):
            self.succeeded(node)
        self._ended = True
        return self._longest_at_one_s, self._longest_at_all_s
