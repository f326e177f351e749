"""Random histories of wrong clocks, with an oracle that knows the true time: real owners over one store.

`python -m tests.clock.history --histories 20000` plays so many. A history has one or two machines with one or two
owners each. Their wall clocks are put wrong and right again, by seconds to decades, while owners run, are killed,
start, or the machine is off. What must hold is said by the true time and by for how long each clock was how wrong; no
line here knows how the clock under test works.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from clickcurve.buckets import codec
from clickcurve.buckets.ladder import DAY_S, HOUR_S, MINUTE_S, fold_day
from clickcurve.keys import link_key
from clickcurve.row_kinds.table import kind_of
from ingest.batch import Batch, Identified
from ingest.stamps import Stamps
from retention.run import run_pass
from server.clock import NEVER, KnownTime, TrustedClock
from server.process.jobs import forget_ids
from storage.memory_store import MemoryStore
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.clock.machine import Machine

SETTLES_S, HELD_S, AHEAD_S = 600.0, float(DAY_S), float(HOUR_S)
SMALL_S = 120.0  # steps below it are followed, after ten minutes, without being one of an hour
SLACK_S = 15.0  # what a clock may be off and be followed at once, and a look
STEPS = (30, 90, 3_700, 5 * HOUR_S, DAY_S, 3 * DAY_S, 40 * DAY_S, 400 * DAY_S, 30 * 365 * DAY_S)
RUNS = (0.5, 5, 30, 120, 290, 590, 700, 2 * HOUR_S, 9 * HOUR_S, 26 * HOUR_S, 50 * HOUR_S)
ACTIONS = {
    "hit": 10,
    "send_id": 5,
    "send_id_again": 6,
    "flush": 8,
    "fold": 3,
    "forget_ids": 2,
    "run_on": 14,
    "put_wrong": 7,
    "put_right": 7,
    "restart": 4,
    "boot": 2,
    "accept": 1,
}


class Broken(AssertionError):
    """A law does not hold; the message says which, and when."""


class SharedStore(MemoryStore):
    """A store of several machines, as a cluster: there claims of ids expire by its own clock, and not here."""

    shared = True

    def forget_ids(self, before_us: int) -> None:
        """Forgets nothing."""


@dataclass
class Wrongness:
    """What the oracle knows of one machine's wall clock. Times are of a clock that runs while the machine does.

    errors: when the wall clock began to be off by how much. is_lost: the trusted clock may be off, since the wall clock
    was wrong for too long, or at a start of the machine. lags_since: the careful clock may lag since then.
    began_behind: the last start was before the newest flush. granted: by how much what cannot be undone may be ahead,
    since the wall clock was by so much for a day; until it has held another time for long enough.
    """

    errors: list[tuple[float, float]] = field(default_factory=lambda: [(-1e9, 0.0)])
    ran: float = 0.0
    wrong_from: float | None = None
    is_lost: bool = False
    lags_since: float = -1e9
    began_behind: bool = False
    accepted_at: float = -1e9
    booted_at: float = -1e9
    granted: float = 0.0

    def put(self, error: float) -> None:
        if error != self.error:  # else it goes on to hold its time
            self.errors.append((self.ran, error))
        if error == 0:
            self.wrong_from = None
        elif self.wrong_from is None:
            self.wrong_from = self.ran
        if error and self.ran - self.booted_at < SETTLES_S + 60:
            self.lose()  # soon after a start of the machine what it was said first is a guess

    def lose(self) -> None:
        self.is_lost, self.lags_since = True, self.ran

    def run(self, seconds: float) -> None:
        self.ran += seconds
        if self.wrong_from is not None and self.ran - self.wrong_from >= SETTLES_S - SLACK_S:
            self.lose()
        held_s = min(self.held_s(), self.ran - self.booted_at)
        if self.error == 0 and held_s > SETTLES_S + 60 and not self.began_behind:
            self.is_lost = False
        self.grant()

    def grant(self) -> None:
        least = max(0.0, self.least_error(HELD_S))
        is_followed = self.held_s() > SETTLES_S + 60 and not self.began_behind
        self.granted = max(least, min(self.granted, self.error) if is_followed else self.granted)

    @property
    def error(self) -> float:
        return self.errors[-1][1]

    @property
    def lags(self) -> bool:
        return self.ran - self.lags_since < HELD_S + 2 * HOUR_S

    def held_s(self) -> float:
        return self.ran - self.errors[-1][0]

    def least_error(self, last_s: float) -> float:
        """The least that the clock was ahead in the last seconds of running, or since an operator accepted it.

        A time that it held for less than ten minutes is followed by nothing, be it the right one.
        """
        since = max(self.ran - last_s, self.accepted_at)
        untils = [*(at for at, _ in self.errors[1:]), NEVER]
        held = (
            (until, error)
            for (at, error), until in zip(self.errors, untils, strict=True)
            if until - at > SETTLES_S + 60
        )
        return min(error for until, error in held if until > since)


class Mutation:
    """A planted fault; this one is none."""

    def clock(self, machine: Machine, known: KnownTime | None, settle_s: float) -> TrustedClock:
        return machine.clock(known, settle_s)

    def careful(self, clock: TrustedClock) -> float:
        return clock.careful()

    def stamped(self, clock: TrustedClock) -> float:
        return clock.careful()

    def newest(self, flushes: list[float]) -> float:
        return flushes[-1]


@dataclass(frozen=True)
class SentId:
    """An id that came while the clock was right: where, and when by the true time and by that machine's running."""

    machine: Computer
    true: float
    ran: float
    accepted_at: float


class World:
    """One history. `mutate` may change each clock and owner that is made: a planted fault."""

    def __init__(self, folder: Path, chance: random.Random, mutate: Mutation | None = None) -> None:
        self.chance, self.mutation = chance, mutate or Mutation()
        machines = chance.choice((1, 1, 2))
        self.store: MemoryStore = SharedStore() if machines > 1 else MemoryStore()
        self.machines = [Computer(self, folder / f"machine-{n}", chance.choice((1, 2))) for n in range(machines)]
        self.expected: Counter[str] = Counter()
        self.ids: dict[str, SentId] = {}
        self.latest_days: Counter[int] = Counter()  # by owner
        self.many = 0
        self.done: Counter[str] = Counter()

    async def play(self, actions: int) -> None:
        for _ in range(actions):
            (action,) = self.chance.choices(list(ACTIONS), list(ACTIONS.values()))
            machine = self.chance.choice(self.machines)
            self.done[action] += 1
            await getattr(machine, action)()
            for each in self.machines:
                each.check_clock(action)
        await self.end()

    def run(self, seconds: float) -> None:
        """Lets time go by on every machine, while its processes look at their clocks."""
        looks = max(1, min(40, int(seconds)))
        for _ in range(looks):
            for machine in self.machines:
                machine.run(seconds / looks)

    async def end(self) -> None:
        for machine in self.machines:
            for owner in machine.owners:
                await owner.owner.flush()
        for machine in self.machines:
            for owner in machine.owners:
                await owner.owner.flush()
        for key, hits in self.expected.items():
            link = await self.store.rows(link_key(key))
            found = sum(codec.decode(row.data).lifetime for row in link.rows)
            if found != hits:
                raise Broken(f"{key}: {found} hits are stored, {hits} were acknowledged")
        for machine in self.machines:
            await machine.close()


class Computer:
    """One machine of a world: its wall clock, what is known of that, and its owners."""

    def __init__(self, world: World, folder: Path, owners: int) -> None:
        self.world, self.wrong = world, Wrongness()
        self.machine = Machine()
        self.known: KnownTime | None = None
        self.flushes: list[float] = []
        self.slots, self.latest_days = [0] * owners, [0] * owners
        self.clock = world.mutation.clock(self.machine, None, SETTLES_S)
        folder.mkdir(parents=True)
        self.owners = [
            OwnerProcess(
                folder / f"journal-{n + 1}",
                world.store,
                lambda: self.clock.now(),
                alone=owners == 1 and not world.store.shared,
                disk=TrackedDisk(),
                stamps=lambda n=n: Stamps(self._stamped, self.slots, n),  # type: ignore[misc]
                careful=lambda: world.mutation.careful(self.clock),
            )
            for n in range(owners)
        ]

    def _stamped(self) -> float:
        return self.world.mutation.stamped(self.clock)

    # --- time -------------------------------------------------------------------------------------------------------
    def run(self, seconds: float) -> None:
        self.machine.run(seconds)
        self.wrong.run(seconds)
        self.clock.look()

    async def _wait(self, seconds: float) -> None:
        self.world.run(seconds)

    async def run_on(self) -> None:
        await self._wait(self.world.chance.choice(RUNS))

    async def put_wrong(self) -> None:
        chance = self.world.chance
        to_1970 = chance.random() < 0.1
        error = 1_000 - self.machine.true if to_1970 else chance.choice((-1, 1)) * float(chance.choice(STEPS))
        self.machine.off_s = error
        self.wrong.put(error)
        await self._wait(1)

    async def put_right(self) -> None:
        self.machine.off_s = 0.0
        self.wrong.put(0.0)
        await self._wait(1)

    # --- processes --------------------------------------------------------------------------------------------------
    def _keep(self) -> None:
        self.known = self.clock.known()

    async def restart(self) -> None:
        """All processes of the machine end, and start a moment later."""
        self._keep()
        now, was_lost, granted = self.clock.now(), self.wrong.is_lost, self.wrong.granted
        await self._end()
        gone_s = self.world.chance.choice((1.0, 30.0, 400.0, 3 * HOUR_S))
        self.machine.run(gone_s)
        self.wrong.run(gone_s)
        for other in self.world.machines:
            if other is not self:
                other.run(gone_s)
        now += gone_s
        if self.wrong.held_s() >= SETTLES_S - SLACK_S and not self.wrong.began_behind:
            now = min(now, self.machine.wall())  # it would have followed by now
        self._start(now)
        if self.wrong.began_behind:  # nothing was followed meanwhile
            self.wrong.is_lost |= was_lost
            self.wrong.granted = max(granted, self.wrong.granted)

    async def boot(self) -> None:
        """The machine is off for a while; its clock may be wrong when it starts."""
        chance = self.world.chance
        self._keep()
        await self._end()
        off_for_s = chance.choice((60.0, 600.0, 5 * HOUR_S, 3 * DAY_S))
        self.machine.boot(off_for_s)
        for other in self.world.machines:
            if other is not self:
                other.run(off_for_s)
        if chance.random() < 0.5:
            error = chance.choice((-1, 1)) * float(chance.choice(STEPS)) if chance.random() < 0.6 else 0.0
            self.machine.off_s = error
            self.wrong.put(error)
        self.wrong.lags_since = self.wrong.booted_at = self.wrong.ran
        if self.wrong.error != 0:
            self.wrong.lose()
        self._start(NEVER)
        if self.wrong.began_behind:
            self.wrong.lose()

    async def _end(self) -> None:
        for owner in self.owners:
            if self.world.chance.random() < 0.6:
                owner.disk.kill()
            else:
                await owner.owner.close()
        self.slots[:] = [0] * len(self.slots)

    def _start(self, now: float) -> None:
        """now: what the trusted clock would say if no process had ended."""
        self.clock = self.world.mutation.clock(self.machine, self.known, SETTLES_S)
        newest = self.world.mutation.newest(self.flushes) if self.flushes else None
        if newest is not None:
            self.clock.learn_flush(int(newest))
        known = self.known.careful if self.known is not None else -NEVER
        last = self.flushes[-1] if self.flushes else known
        self.wrong.began_behind = self.machine.wall() < last
        for owner in self.owners:
            owner.start()
        if self.flushes and self.wrong.held_s() < HELD_S and self.clock.now() < min(now, self.flushes[-1]) - SLACK_S:
            raise Broken(f"law 4: a start stamps hits {self.flushes[-1] - self.clock.now():.0f} s too early")

    async def close(self) -> None:
        for owner in self.owners:
            await owner.owner.close()

    # --- work -------------------------------------------------------------------------------------------------------
    def _owner(self) -> OwnerProcess:
        return self.world.chance.choice(self.owners)

    async def hit(self) -> None:
        world, owner = self.world, self._owner()
        key = f"key-{world.chance.randrange(4)}"
        before = max(self.slots)
        await owner.owner.accept_one(key)
        world.expected[key] += 1
        newest = max(self.slots)
        if newest <= before:
            raise Broken(f"law 5: stamp {newest} does not rise above {before}")
        if newest > max(before + 1_000, self.clock.now() * 1e6 + 1_000):
            raise Broken(f"law 5: a stamp is {newest / 1e6 - self.clock.now():.0f} s ahead of the trusted clock")

    async def send_id(self) -> None:
        world = self.world
        world.many += 1
        name = f"id-{world.many}"
        await self._send(name)
        world.expected[name] = 1
        if not (self.wrong.is_lost or self.wrong.lags):
            world.ids[name] = SentId(self, self.machine.true, self.wrong.ran, self.wrong.accepted_at)

    async def send_id_again(self) -> None:
        """Sends an id once more that must be known still."""
        world = self.world
        names = [name for name, sent in world.ids.items() if sent.machine is self and self._must_know(sent)]
        if names:
            await self._send(world.chance.choice(names))

    def _must_know(self, sent: SentId) -> bool:
        """Whether an id that came when the clock was right is known still: for 48 hours, or what may pass for them."""
        wrong = self.wrong
        if wrong.accepted_at != sent.accepted_at:
            return False  # what an operator accepts is followed at once, also by what forgets ids
        if wrong.is_lost or wrong.lags:
            return wrong.ran - sent.ran < HELD_S - HOUR_S
        return self.machine.true - sent.true < 47 * HOUR_S

    async def _send(self, name: str) -> None:
        minute = int(self.machine.true) // MINUTE_S * MINUTE_S
        identified = Identified(name, {minute: {name: 1}}, {})
        await self._owner().owner.accept(Batch(identified=[identified]))

    async def flush(self) -> None:
        await self._flush(self._owner())

    async def _flush(self, owner: OwnerProcess) -> None:
        before = owner.owner.status.flushes
        await owner.owner.flush()
        if owner.owner.status.flushes > before:
            self.flushes.append(
                next(each.begun_at for each in self.world.store.owners() if each.owner == owner.owner.number)
            )
        self._check_rows(owner)

    async def fold(self) -> None:
        owner = self._owner()
        await self._flush(owner)
        day = fold_day(int(self.world.mutation.careful(self.clock)))
        report = await run_pass(owner.owner, day)
        assert report.stopped is None, report.stopped
        self._check_rows(owner)

    async def forget_ids(self) -> None:
        owners = [owner for machine in self.world.machines for owner in machine.owners]
        oldest = [us for owner in owners if (us := owner.owner.status.oldest_us) is not None]
        careful = partial(self.world.mutation.stamped, self.clock)
        await forget_ids(self.world.store, min(oldest, default=None), careful)

    async def accept(self) -> None:
        """An operator takes the wall clock's time."""
        self.clock.accept()
        self.wrong.accepted_at = self.wrong.ran
        self.wrong.began_behind = False
        if self.wrong.error != 0:
            self.wrong.lose()
        self.wrong.grant()
        await self._wait(1)
        if (
            abs(self.clock.now() - self.machine.wall()) > SLACK_S
            or self.clock.careful() < self.machine.wall() - SLACK_S
        ):
            raise Broken("law 2: what an operator accepts is not followed")

    # --- the laws ---------------------------------------------------------------------------------------------------
    def latest(self) -> float:
        """How late it may be for what cannot be undone: an error that has not held for a day moves it by an hour."""
        return self.machine.true + self.wrong.granted + AHEAD_S + SLACK_S + SMALL_S

    def _check_rows(self, owner: OwnerProcess) -> None:
        self._note_latest()
        number, latest = owner.owner.number, self.world.latest_days
        for key, rows in self.world.store._rows.items():
            if number in rows and not kind_of(key).beside_counts:
                day = codec.decode_header(rows[number].data).fold_day
                if day > latest[number]:
                    raise Broken(f"law 2: {key!r} is folded {day - latest[number]} days too early")

    def _note_latest(self) -> None:
        """Notes to which day the rows of its owners may be folded: a number may go to another machine.

        A journal that gets another number takes along what was accepted under the one before.
        """
        day, latest = fold_day(int(self.latest())), self.world.latest_days
        for n, owner in enumerate(self.owners):
            self.latest_days[n] = max(day, self.latest_days[n])
            latest[owner.owner.number] = max(self.latest_days[n], latest[owner.owner.number])

    def check_clock(self, action: str) -> None:
        now, careful, true, wrong = self.clock.now(), self.clock.careful(), self.machine.true, self.wrong
        off_s = now - self.machine.wall()
        if abs(off_s) <= SLACK_S:
            wrong.began_behind = False
        self._note_latest()
        if careful > now or careful > self.latest():
            raise Broken(f"law 2: after {action} the careful clock is {careful - true:.0f} s ahead")
        if not wrong.is_lost and abs(now - true) > SLACK_S:
            raise Broken(f"law 1: after {action} the trusted clock is off by {now - true:.0f} s")
        if not (wrong.is_lost or wrong.lags) and careful < true - SLACK_S:
            raise Broken(f"law 1: after {action} the careful clock is {true - careful:.0f} s behind")
        held_s = min(wrong.held_s(), wrong.ran - wrong.booted_at)  # after a start of the machine it begins anew
        if held_s > SETTLES_S + 60 and not wrong.began_behind and abs(off_s) > SLACK_S:
            raise Broken(f"law 2: after {action} a step is not followed for {held_s:.0f} s")
        follows = held_s > HELD_S + SETTLES_S + 2 * HOUR_S and not wrong.began_behind
        if follows and careful < self.machine.wall() - SLACK_S - MINUTE_S:
            raise Broken(f"law 2: after {action} what cannot be undone does not follow for {held_s:.0f} s")


def play(seed: int, folder: Path, actions: int = 60, mutation: Mutation | None = None) -> Counter[str]:
    """Plays the history of a seed; returns how often each thing was done. Raises Broken."""
    world = World(folder / str(seed), random.Random(seed), mutation)
    asyncio.run(world.play(actions))
    return world.done


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clock.history", description=__doc__)
    parser.add_argument("--histories", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first one")
    parser.add_argument("--actions", type=int, default=60, help="in each")
    given = parser.parse_args()
    begun, done = time.monotonic(), Counter[str]()
    broken = 0
    for seed in range(given.first, given.first + given.histories):
        with tempfile.TemporaryDirectory(prefix="clock-", dir="/dev/shm") as folder:
            try:
                done += play(seed, Path(folder), given.actions)
            except Broken as error:
                broken += 1
                print(f"seed {seed}: {error}", flush=True)
    seconds = time.monotonic() - begun
    print(f"{given.histories:,} histories in {seconds:,.0f} s, {broken} broken: {dict(done)}", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
