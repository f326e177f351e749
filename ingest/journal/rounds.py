"""Which processes are gone: counted in rounds of looking, not by clocks. Without I/O.

In a round a process shows its own beat and reads those of all. Only a round in which both worked counts. So neither an
outage of the cluster nor a pause of the observer makes another process look dead, and clocks that differ play no part.
A wrong verdict costs the other process its owner, never a hit: the fence sees to that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

ROUND_S = 2.0
DEAD_FOR_A_START = 3  # rounds without a beat: a start has nothing to lose, and comes before any adopter
DEAD_FOR_ADOPTERS = 15


def process_of(holder: str) -> str:
    """Returns which process made the token of a claim: a process may hold several owners."""
    return holder.rpartition(".")[0] or holder


class Rounds:
    def __init__(self) -> None:
        self._beats: dict[str, int] = {}
        self._unchanged: dict[str, int] = {}

    def counted(self, beats: Mapping[str, int], processes: Iterable[str]) -> None:
        """Notes a round that worked: the beats that were read, and the processes that hold owners.

        A process without a beat stands still, too. One that holds nothing any more is forgotten.
        """
        unchanged: dict[str, int] = {}
        before, self._beats = self._beats, {}
        for process in processes:
            self._beats[process] = beat = beats.get(process, 0)
            same = process in before and before[process] == beat
            unchanged[process] = self._unchanged[process] + 1 if same else 0
        self._unchanged = unchanged

    def dead(self, rounds: int) -> frozenset[str]:
        """Returns the processes that showed no new beat in so many counted rounds."""
        return frozenset([process for process, unchanged in self._unchanged.items() if unchanged >= rounds])
