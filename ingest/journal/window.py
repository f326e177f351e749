"""Which frames behind one flush count: the writer's side of the protocol, without I/O.

A frame is under way from `open_frame` until it counts or is given up. It counts when it was acknowledged, and then a
read of the fence that **began after that** showed no epoch above the writer's. No clock stands in for that read: a
process that slept cannot know what happened meanwhile.

Why that is enough: a process that takes the owner waits until its fence is acknowledged by a quorum, and reads frames
after that. A read of the fence that does not show it began earlier, since quorums meet; and the frame was acknowledged
before that. So it is there when the other process reads.
"""

from __future__ import annotations

from storage.journals import FramePlace

PIECE_BYTES = 16 << 20  # a partition of a cluster


class Window:
    """The frames of one epoch behind one flush. `fenced`: another process has taken the owner.

    `gave_up`: a frame was given up, so no later one may lie behind this flush. What it held may come again in that, and
    a process that takes the owner would find both.
    """

    def __init__(self, owner: int, epoch: int, after: int) -> None:
        self.owner, self.epoch, self.after = owner, epoch, after
        self.fenced = self.gave_up = False
        self._next = 0
        self._piece = self._piece_bytes = 0
        self._pieces: dict[int, int] = {}  # of frames under way
        self._piece_counts = False  # a frame of the current piece counts
        self._acknowledged: set[int] = set()  # and not confirmed yet
        self._counting: set[int] = set()

    @property
    def under_way(self) -> int:
        """How many frames are neither counted nor given up."""
        return len(self._pieces)

    def counting(self) -> frozenset[int]:
        """Returns the numbers of the frames that count: those that the next flush names."""
        return frozenset(self._counting)

    def open_frame(self, size: int) -> FramePlace:
        """Returns the place of the next frame. A full piece is left once one of its frames counts, not before."""
        if self._piece_bytes >= PIECE_BYTES and self._piece_counts:
            self._piece, self._piece_bytes, self._piece_counts = self._piece + 1, 0, False
        number, self._next = self._next, self._next + 1
        self._piece_bytes += size
        self._pieces[number] = self._piece
        return FramePlace(self.owner, self.after, self._piece, number)

    def acknowledged(self, number: int) -> None:
        """Notes that a quorum has the frame."""
        if number in self._pieces:
            self._acknowledged.add(number)

    def begin_read(self) -> frozenset[int]:
        """Returns the frames that a read of the fence which begins now can confirm."""
        return frozenset(self._acknowledged)

    def end_read(self, asked: frozenset[int], fence: int) -> frozenset[int]:
        """Returns those of the frames asked about that count now; none, and no later ones, if the fence is above."""
        if fence > self.epoch:
            self.fenced = True
        if self.fenced:
            return frozenset()
        confirmed = asked & self._acknowledged
        for number in confirmed:
            self._piece_counts |= self._pieces.pop(number) == self._piece
        self._acknowledged -= confirmed
        self._counting |= confirmed
        return confirmed

    def give_up(self, number: int) -> None:
        """Notes that nobody will know of the frame: no flush of this process names it."""
        self.gave_up = True
        self._pieces.pop(number, None)
        self._acknowledged.discard(number)
