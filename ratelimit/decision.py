"""What the limiter answers: a `Standing` of each rule that was asked, and the `Decision` that is made of them.

Named tuples, since several are made for every request and a frozen dataclass takes ten times as long to make.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ratelimit.rule import Rule

# Makes a named tuple in a third of the time of its own constructor: new(Bound, (1, 2)).
new = tuple.__new__


class Bound(NamedTuple):
    """How many admitted hits the window holds: a number from at_least to at_most."""

    at_least: int
    at_most: int


class Piece(NamedTuple):
    """`buckets` adjacent buckets of one width that a window was summed from, the first at `start`, with their hits."""

    width_s: int
    start: int
    buckets: int
    hits: int


class Standing(NamedTuple):
    """How one key stands under one rule, in the words of the rate that matters: of those that refuse the one with the
    longest wait, else the tightest (least remaining, then least limit, then longest window).

    All numbers are of one moment, after the hit if it was counted. retry_after_s: 0.0 where the hit fits, None where it
    never will. reset_at: epoch seconds, rounded up, at which all of the limit is free if nobody calls. at_least and
    at_most bound the hits in the window (now - window, now]; they are equal where a strategy knows exactly.
    """

    fits: bool
    limit: int
    window_s: int
    remaining: int
    retry_after_s: float | None
    reset_at: int
    at_least: int
    at_most: int
    pieces: tuple[Piece, ...] = ()
    callers: tuple[str, ...] = ()
    blind: bool = False


class Decision(NamedTuple):
    """The answer for a hit or a peek.

    rule and standing are those of the refusing rate with the longest wait, else of the tightest rate. shadow: a rule in
    shadow mode would have refused; then `allowed` is true and rule and standing are of that. reservation: the token to
    commit or cancel with.
    """

    allowed: bool
    rule: Rule
    standing: Standing
    shadow: bool = False
    reservation: str | None = None

    @property
    def limit(self) -> int:
        return self.standing.limit

    @property
    def window_s(self) -> int:
        return self.standing.window_s

    @property
    def remaining(self) -> int:
        return self.standing.remaining

    @property
    def retry_after_s(self) -> float | None:
        """Seconds after which the same hit fits if nobody else calls: 0.0 when allowed, None when it never will."""
        return self.standing.retry_after_s

    @property
    def never(self) -> bool:
        """Does it cost more than can ever be free?"""
        return self.standing.retry_after_s is None

    @property
    def reset_at(self) -> int:
        return self.standing.reset_at

    @property
    def bound(self) -> Bound:
        return Bound(self.standing.at_least, self.standing.at_most)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return self.standing.pieces

    @property
    def callers(self) -> tuple[str, ...]:
        return self.standing.callers

    @property
    def blind(self) -> bool:
        """Was it decided without the backend?"""
        return self.standing.blind


def decide(rules: Sequence[Rule], standings: Sequence[Standing], reservation: str | None = None) -> Decision:
    """The one answer that an event's rules give together."""
    if len(standings) == 1:
        (standing,), (rule,) = standings, rules
        if standing.fits:
            return new(Decision, (True, rule, standing, False, reservation))
        return Decision(rule.shadow, rule, standing, rule.shadow, reservation if rule.shadow else None)
    tight = 0
    least = standings[0].remaining
    for n, standing in enumerate(standings):
        remaining = standing.remaining
        if not standing.fits or rules[n].shadow:
            return _decide_shadow(rules, standings, reservation)
        if remaining < least or (remaining == least and _room(standing) < _room(standings[tight])):
            tight, least = n, remaining
    return new(Decision, (True, rules[tight], standings[tight], False, reservation))


def _decide_shadow(rules: Sequence[Rule], standings: Sequence[Standing], reservation: str | None) -> Decision:
    """Where somebody refuses, or is in shadow mode and has no say."""
    refusing = [n for n, standing in enumerate(standings) if not standing.fits]
    enforced = [n for n in refusing if not rules[n].shadow]
    if refusing:
        first = max(enforced or refusing, key=lambda n: _wait(standings[n]))
        return Decision(not enforced, rules[first], standings[first], not enforced, None if enforced else reservation)
    binding = [n for n, rule in enumerate(rules) if not rule.shadow] or range(len(rules))
    first = min(binding, key=lambda n: _room(standings[n]))
    return Decision(True, rules[first], standings[first], False, reservation)


def is_admitted(rules: Sequence[Rule], standings: Sequence[Standing]) -> bool:
    """Does the hit fit under every rule that is not in shadow mode?"""
    return not [standing for n, standing in enumerate(standings) if not (standing.fits or rules[n].shadow)]


def longest(refusals: Sequence[Standing]) -> Standing:
    """The refusal with the longest wait, else of the tightest rate."""
    return refusals[0] if len(refusals) == 1 else max(refusals, key=_wait)


def tightest(standings: Sequence[Standing]) -> Standing:
    return min(standings, key=_room)


def _room(standing: Standing) -> tuple[int, int, int]:
    """Smallest for the tightest."""
    return standing.remaining, standing.limit, -standing.window_s


def _wait(standing: Standing) -> tuple[float, int, int, int]:
    """Largest for the longest wait, and then for the tightest."""
    wait_s = standing.retry_after_s
    return inf if wait_s is None else wait_s, -standing.remaining, -standing.limit, standing.window_s


def pause_s(now_us: int, until_us: int) -> float:
    """Seconds to wait from now_us until a hit at that later moment is at until_us or after: rounded up to milliseconds,
    and one more where adding it to epoch seconds would round to just before."""
    wait_ms = -(-(until_us - now_us) // 1_000)
    now_s = now_us / 1_000_000
    while int((now_s + wait_ms / 1_000) * 1_000_000) < until_us:
        wait_ms += 1
    return wait_ms / 1_000
