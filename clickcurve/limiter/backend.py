"""What every backend promises. A backend keeps counts; which rules, whose, and what to answer is decided above it.

A decision is **data**: a `Question` names the rules of one event, one key for each, a cost and a moment. The backend
decides all of it at once and answers one `Quota` for each rule, in order:

- **All or nothing.** The hit is admitted when it fits under every rule that is not in shadow mode. Then, if `take` is
  set, every rule that it fits under is charged (a rule in shadow mode that would refuse is not). A hit that is not
  admitted charges none, writes nothing, and leaves no key behind; neither does a question without `take`.
- **One moment, one snapshot.** All quotas are of the same instant and of the same counts: after the charge where
  there was one. Nothing is read a second time to describe a decision.
- **A count whose window begins after now is no count** (`moment`), so a clock that was ahead locks nobody out. Times
  that are out of order by less than a second, as those of threads and of machines are, count together.
- **The numbers are those of `sliding_window`, `fixed_window` and `token_bucket`** in `clickcurve.limiter`, so that
  every backend gives the same answers to the same questions. They are integers below 2^53 throughout.
- **Every count ends.** From `rule.ttl_s` after the last hit a backend may drop the key, and soon after it has.

Two forms, which differ only in the word await:

- `Backend`, for programs of threads: its methods may block.
- `AsyncBackend`, for programs of an event loop: its methods must not.

`Limiter` and `AsyncLimiter` put the same questions; `backends.forms` makes one form of the other.

Errors: `BackendUnavailable` when no answer came, or none in time; no error of a driver leaves a backend. A question
that failed may or may not have been charged; no backend sends it again by itself, since it might count twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from clickcurve.limiter.quota import Quota
from clickcurve.limiter.rule import Rule


class Question(NamedTuple):
    """The question whether a hit may pass.

    keys: one for each rule. at_us: epoch microseconds; None asks a backend that `keeps_time` for its own clock.
    take: charge it if it is admitted. explain: fill `pieces` and `callers`. caller: the name that a `list` remembers.
    reservation: the token under which it can be settled later.
    """

    rules: tuple[Rule, ...]
    keys: tuple[str, ...]
    cost: int = 1
    at_us: int | None = None
    take: bool = True
    explain: bool = False
    caller: str = ""
    reservation: str | None = None


class Settled(Enum):
    """How the end of a reservation went.

    ended: it was committed or cancelled before. unknown: no reservation has this token, or it has lapsed (`lapses_us`);
    a hit whose reservation nobody ended counts until its windows are over.
    """

    done = "done"
    ended = "ended"
    unknown = "unknown"


class Backend(Protocol):
    """A backend for programs of threads; the head of this file has its promises."""

    @property
    def keeps_time(self) -> bool:
        """Whether it has a clock of its own that all callers share."""
        ...

    @property
    def server_of(self) -> Callable[[str], str] | None:
        """Returns the name of the server that decides about a key or a reservation, where there are several.

        None if one decision may concern any keys. Else all rules of an event must have the same `by`, and each key and
        reservation begins with its caller's tag (`key.TAG_CHARS`): those of one tag lie together.
        """
        ...

    def decide(self, question: Question) -> Sequence[Quota]:
        """Returns one quota for each rule of the question, and charges the hit if it is taken."""
        ...

    def settle(self, reservation: str, keep: int | None, at_us: int | None) -> Settled:
        """Ends a reservation: `keep` of its cost stays counted (None: all of it, 0: nothing).

        The rest is taken out of the very buckets that it was put into, as far as they still count. To a token bucket
        only so much is given back as it would hold more without that hit (`token_bucket.give_back`); from a list the
        last places of that caller go.
        """
        ...

    def reset(self, question: Question) -> None:
        """Forgets what is counted under the question's keys. Reservations made before give nothing back."""
        ...

    def measures(self) -> Mapping[str, float]:
        """Returns numbers for the metrics, by name."""
        ...

    def close(self) -> None: ...


class AsyncBackend(Protocol):
    """A backend for programs of an event loop; each method as that of `Backend`."""

    @property
    def keeps_time(self) -> bool: ...

    @property
    def server_of(self) -> Callable[[str], str] | None: ...

    async def decide(self, question: Question) -> Sequence[Quota]: ...

    async def settle(self, reservation: str, keep: int | None, at_us: int | None) -> Settled: ...

    async def reset(self, question: Question) -> None: ...

    def measures(self) -> Mapping[str, float]: ...

    async def close(self) -> None: ...


def lapses_us(rules: Sequence[Rule], at_us: int) -> int:
    """Returns the epoch microsecond from which a reservation made at at_us is unknown: none of it can still count."""
    return at_us + max(rule.keep_s for rule in rules) * 1_000_000
