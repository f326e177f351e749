"""Planted faults of the trusted clock, each against one of its laws; `test_histories.py` wants all caught."""

from __future__ import annotations

from collections.abc import Mapping

from server.clock import HELD_S, NEVER, KnownTime, TrustedClock
from tests.clock.history import Mutation
from tests.clock.machine import Machine


class FollowsAtOnce(Mutation):
    def clock(self, machine: Machine, known: KnownTime | None, settle_s: float) -> TrustedClock:
        return super().clock(machine, known, 0.0)


class FollowsNever(Mutation):
    def clock(self, machine: Machine, known: KnownTime | None, settle_s: float) -> TrustedClock:
        return super().clock(machine, known, NEVER)


class WallAlone(Mutation):
    """As before there was a trusted clock."""

    def clock(self, machine: Machine, known: KnownTime | None, settle_s: float) -> TrustedClock:
        return super().clock(machine, None, 0.0)

    def careful(self, clock: TrustedClock) -> float:
        return clock.now()

    def stamped(self, clock: TrustedClock) -> float:
        return clock.now()


class FoldsByTheTrustedClock(Mutation):
    def careful(self, clock: TrustedClock) -> float:
        return clock.now()


class StampsByTheTrustedClock(Mutation):
    def stamped(self, clock: TrustedClock) -> float:
        return clock.now()


class StampsByTheWallClock(Mutation):
    def stamped(self, clock: TrustedClock) -> float:
        return clock._wall()


class ForgetsAtAStart(Mutation):
    def clock(self, machine: Machine, known: KnownTime | None, settle_s: float) -> TrustedClock:
        return super().clock(machine, None, settle_s)


class Changed(Mutation):
    """What the last process has left is changed."""

    def clock(self, machine: Machine, known: KnownTime | None, settle_s: float) -> TrustedClock:
        if known is not None:
            self.change(known)
        return super().clock(machine, known, settle_s)

    def change(self, known: KnownTime) -> None:
        raise NotImplementedError


class ForgetsTheStep(Changed):
    """Each start begins to wait anew: with kills a step is never followed."""

    def change(self, known: KnownTime) -> None:
        known.step = None


class ForgetsThePast(Changed):
    """A kill lets what cannot be undone go on."""

    def change(self, known: KnownTime) -> None:
        known.past = [(known.offset, known.running)]


class TakesAnyBootForItsOwn(Changed):
    def change(self, known: KnownTime) -> None:
        known.boot = "boot 2"


class NeverBehind(Mutation):
    def clock(self, machine: Machine, known: KnownTime | None, settle_s: float) -> TrustedClock:
        clock = super().clock(machine, known, settle_s)
        clock._is_behind = lambda wall: False  # type: ignore[method-assign]
        return clock


class BehindTheGreatest(Mutation):
    def newest(self, flushes: list[float]) -> float:
        return max(flushes)


class Hasty(Mutation):
    """What cannot be undone follows after ten minutes."""

    def careful(self, clock: TrustedClock) -> float:
        return clock.now() if clock.status().state == "ok" else clock.careful()


class CarefulForEver(Mutation):
    """What cannot be undone never follows."""

    def clock(self, machine: Machine, known: KnownTime | None, settle_s: float) -> TrustedClock:
        clock = super().clock(machine, known, settle_s)
        remember = clock._remember

        def kept(running: float, offset: float) -> None:
            before = list(clock._past)
            remember(running, offset)
            if before and clock._past and clock._past[0][0] > before[0][0]:
                clock._past.appendleft((before[0][0], running + HELD_S))
                clock._least = before[0][0]

        clock._remember = kept  # type: ignore[method-assign]
        return clock


class AcceptsNothing(Mutation):
    def clock(self, machine: Machine, known: KnownTime | None, settle_s: float) -> TrustedClock:
        clock = super().clock(machine, known, settle_s)
        clock.accept = clock.now  # type: ignore[method-assign]
        return clock


MUTANTS: Mapping[str, type[Mutation]] = {
    each.__name__: each
    for each in (
        FollowsAtOnce,
        FollowsNever,
        WallAlone,
        FoldsByTheTrustedClock,
        StampsByTheTrustedClock,
        StampsByTheWallClock,
        ForgetsAtAStart,
        ForgetsTheStep,
        ForgetsThePast,
        TakesAnyBootForItsOwn,
        NeverBehind,
        BehindTheGreatest,
        Hasty,
        CarefulForEver,
        AcceptsNothing,
    )
}
