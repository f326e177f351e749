"""What the limiter answers: the one `Decision` that is made of how a key stands under each rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from clickcurve.limiter.quota import Bound, Piece, Standing, by_room, by_wait, new
from clickcurve.limiter.rule import Rule


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
        if remaining < least or (remaining == least and by_room(standing) < by_room(standings[tight])):
            tight, least = n, remaining
    return new(Decision, (True, rules[tight], standings[tight], False, reservation))


def _decide_shadow(rules: Sequence[Rule], standings: Sequence[Standing], reservation: str | None) -> Decision:
    """Where somebody refuses, or is in shadow mode and has no say."""
    refusing = [n for n, standing in enumerate(standings) if not standing.fits]
    enforced = [n for n in refusing if not rules[n].shadow]
    if refusing:
        first = max(enforced or refusing, key=lambda n: by_wait(standings[n]))
        return Decision(not enforced, rules[first], standings[first], not enforced, None if enforced else reservation)
    binding = [n for n, rule in enumerate(rules) if not rule.shadow] or range(len(rules))
    first = min(binding, key=lambda n: by_room(standings[n]))
    return Decision(True, rules[first], standings[first], False, reservation)


def is_admitted(rules: Sequence[Rule], standings: Sequence[Standing]) -> bool:
    """Does the hit fit under every rule that is not in shadow mode?"""
    return not [standing for n, standing in enumerate(standings) if not (standing.fits or rules[n].shadow)]
