"""What an owner needs of a journal, whatever keeps it: a disk, or something else that is durable.

A journal keeps the groups of hits that were accepted and are not in the store yet. Its life, in calls:

1. It is opened by what the driver offers for that. One process at a time holds it (else JournalHeld). `state` and
   `frames` then say what was found: an unfinished flush, and the groups that came after it.
2. `commit` keeps a group; only then is the group counted and answered.
3. `claim` makes the process the holder of an owner in the store, before the first flush and again for each new epoch.
4. `record_flush` cuts: all groups so far belong to that flush, all later ones to none. The owner writes the rows, as
   often as it takes, and reads `frames(flush)` again if it must: they are the same each time, also after a restart.
   `complete_flush` and `drop_completed` end it. One flush at a time is unfinished.
5. `give_back` ends a clean stop, when the last flush is complete. `close` comes last in any case.

Which call comes from where:

- `commit` is called on the event loop and must not block for longer than a quick sync. At most `commits_at_once` are
  not settled, and none while one of the calls below runs `between_commits`.
- `state`, `bytes_held`, `check_room` and `check_timely` are asked on the event loop, at any time: they answer from
  memory, or from calls that take microseconds.
- `record_flush`, `complete_flush` and `close` block, in a thread of their own, between two commits. Hits wait then.
- `claim`, `begin`, `drop_completed` and `give_back` block in the thread of flushes, while groups are committed. A step
  that must not meet a commit is handed to `between_commits`, which returns when it was done, and raises what it raised.
- `frames` is called on the loop before anything is accepted, and in the thread of flushes later, while groups are
  committed. Its frames are taken there one after the other.

What errors mean for the hits concerned, raised at once or by the future of a commit:

- JournalFull, JournalBroken, OwnerFenced: certainly not kept, now and after any recovery. Answered 503.
- JournalBehind: certainly not kept either. Answered 429.
- JournalUnknown: kept whole or not at all, and nobody knows. The connection is closed without an answer. A recovery
  decides for good: what it finds counts, and what it does not find never comes back. No recovery finds it beside
  something later, which may be its repeat: an id or a piece of an import would count twice.
- Anything else is a defect. It is answered 500, and the hits may count.

Of the other calls, StoreUnavailable, JournalFull and JournalBroken mean that the call may have happened: the owner
calls again. OwnerFenced and JournalSuperseded mean that this process accepts and writes nothing any more.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from storage.contract import Held, Store

BetweenCommits = Callable[[Callable[[], None]], None]


@dataclass(frozen=True, slots=True)
class Identity:
    """The owner that this journal claimed last. owner 0 = none yet; holder "" = given back at a clean stop.

    attempts: (epoch, token) of claims that may have won.
    """

    owner: int
    epoch: int
    holder: str
    attempts: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class FlushRecord:
    """A flush as recorded before its first attempt. Drivers add which frames it covers.

    previous: the number of the last complete flush, 0 = none.
    """

    number: int
    previous: int
    fold_day: int


@dataclass(frozen=True, slots=True)
class JournalState:
    """All that a journal holds besides hits. flush: begun, not complete; last_flush: complete, 0 = none."""

    identity: Identity
    last_flush: int
    flush: FlushRecord | None

    def check_next(self, number: int) -> None:
        """Raises ValueError unless a flush of this number may be recorded."""
        if self.flush is not None:
            raise ValueError(f"flush {self.flush.number} is not complete")
        if number <= self.last_flush:
            raise ValueError(f"flush {number} does not come after flush {self.last_flush}")

    def has_completed(self, number: int) -> bool:
        """Returns whether this flush is complete; raises ValueError if it was not the last one to be recorded."""
        is_complete = self.flush is None and number == self.last_flush
        if not is_complete and (self.flush is None or self.flush.number != number):
            raise ValueError(f"flush {number} is not the unfinished one")
        return is_complete


class Claimed(NamedTuple):
    """An owner that is held now. was_known: the store has known it as open since the journal got its oldest hit."""

    held: Held
    was_known: bool


class Frame(NamedTuple):
    """One accepted payload and the stamp of its group, epoch microseconds."""

    accepted_us: int
    payload: bytes


class Journal(Protocol):
    """The calls of a journal; the module's text says from where, and what their errors mean."""

    commits_at_once: int

    @property
    def state(self) -> JournalState:
        """The state as it is now: what the last call that succeeded has made of it."""

    @property
    def bytes_held(self) -> int:
        """How many bytes the journal takes, for /metrics."""

    @property
    def others_from(self) -> int:
        """The least number of a flush that only another process makes: it has taken all that is held here."""

    @property
    def must_flush(self) -> bool:
        """Whether a flush must be recorded before anything is accepted, be it one of nothing."""

    def commit(self, payloads: Sequence[bytes], accepted_us: int) -> Future[None] | None:
        """Keeps these payloads as one group, all of them or none. No payloads: does nothing.

        None: they are kept. A future: they are when it is done; it is never cancelled.
        """

    def frames(self, flush: FlushRecord | None = None) -> Iterator[Frame]:
        """Yields the payloads that the unfinished flush covers or (None) that no flush covers yet.

        Which these are is fixed by the call. Groups are whole; those of one flush may come in any order. Raises
        ValueError if `flush` is not the unfinished one; JournalDamaged or JournalBroken while iterating.
        """

    def claim(
        self, store: Store, place: str, token: Callable[[], str], now: int, between_commits: BetweenCommits
    ) -> Claimed:
        """Makes this process the holder of an owner, whose number and epoch `state` has then.

        place: where the journal is, for people. token: makes a name for each attempt. now: epoch seconds. Raises
        JournalSuperseded: what the journal holds may be counted already. StoreUnavailable: call again.
        """

    def give_back(self, store: Store, held: Held, between_commits: BetweenCommits) -> None:
        """Gives the owner's number back for any journal to take. Call it when nothing is held and nothing comes."""

    def record_flush(self, number: int, fold_day: int) -> FlushRecord:
        """Records durably a flush of all groups held.

        After an error this journal has no such flush, but a recovery may find it. Raises ValueError if a flush is
        unfinished, or if the number does not rise.
        """

    def begin(self, store: Store, held: Held, flush: FlushRecord, at: int) -> bool:
        """Begins a recorded flush in the store, as `Store.begin` does, if recording it has not. False: fenced."""

    def complete_flush(self, number: int) -> None:
        """Records durably that the store has the flush. May be repeated after an error."""

    def drop_completed(self) -> None:
        """Drops what the last complete flush covers, if `complete_flush` has not. May be repeated after an error."""

    def check_room(self) -> None:
        """Raises JournalFull if the next group would be refused; OSError if that cannot be told."""

    def check_timely(self) -> None:
        """Raises JournalFull while a write is overdue: no more requests should wait for the next one.

        It is called every LOOK_S (`unanswered`) while a write is under way.
        """

    @property
    def stalled_s(self) -> float:
        """For how long an overdue write is under way, seconds; 0.0 if none is."""

    def close(self) -> None:
        """Lets another process open it. What was accepted stays."""
