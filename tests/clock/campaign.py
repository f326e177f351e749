"""A server whose wall clock jumps at random, under load, with kills: part of `make chaos`.

`python -m tests.clock.campaign --minutes 10` prints a report, and ends with 1 if anything is wrong. Everything that was
acknowledged must count once, every bucket be what it is without a jump, and no caller of the limiter be told to wait
for longer than the period that refuses it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import secrets
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from clickcurve.buckets.ladder import DAY_S
from testing.server import run
from tests.audit.auditor import Auditor, Sent
from tests.audit.hit_source import HitSource
from tests.clock.clocked_server import ClockedServer, send_two_links
from tests.clock.wrong_clock import wrong_clock
from tests.crash.load import Load

MINUTES = 10.0
LIMITS = """
[limits.login]
by = "ip"
rates = "5/m"
"""
PERIOD_S = 60
JUMPS_S = (-1_772_000_000, -400 * DAY_S, -DAY_S, -3_600, -90, 45, 3_600, 3 * DAY_S, 400 * DAY_S, 30 * 365 * DAY_S)
WRONG_S, RIGHT_S = (0.2, 12.0), (0.1, 4.0)
KILL_EVERY_S = (8.0, 40.0)
WIDEST_S = 300  # of hits of yesterday, where midnight came in between
JUDGED_WITHIN_S = 900.0
LATEST_S = 15  # what a stamp may be off: small steps are followed at once


@dataclass
class Report:
    seed: int
    seconds: float = 0.0
    done: Counter[str] = field(default_factory=Counter)
    hits: dict[str, int] = field(default_factory=dict)
    longest_wait_s: float = 0.0
    wrong: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        done = ", ".join(f"{many:,} {what}" for what, many in sorted(self.done.items()))
        hits = ", ".join(f"{many:,} {outcome}" for outcome, many in self.hits.items())
        return [
            f"seed {self.seed}, {self.seconds:,.0f} s: {done}",
            f"hits: {hits}",
            f"longest wait that the limiter named: {self.longest_wait_s:.0f} s of a period of {PERIOD_S} s",
            *(self.wrong or ["nothing is wrong: all counts, buckets and stamps are as without a jump"]),
        ]


class Campaign:
    """One server, one clock, one seed. `play` it once."""

    def __init__(self, server: ClockedServer, seed: int, seconds: float) -> None:
        self._server, self._seconds = server, seconds
        self._chance = random.Random(seed)
        self._auditor: Auditor[Sent] = Auditor()
        self._source = HitSource(f"{seed:x}-", random.Random(seed + 1))
        self._stamped: dict[str, tuple[float, float]] = {}  # key -> when its first hit was sent, its last acknowledged
        self.report = Report(seed)

    async def play(self) -> Report:
        server = self._server
        before = await asyncio.to_thread(send_two_links, server)
        load = Load(server.process.port, self._auditor, self._source, random.Random(self._chance.random()), pace_s=0.1)
        load.up.set()
        begun = time.monotonic()
        ending = asyncio.Event()
        parts = [
            self._jump(ending),
            self._kill(ending, load),
            self._stamp(ending, load),
            self._ask_limiter(ending, load),
        ]
        tasks = [asyncio.create_task(part) for part in parts]
        await load.wait(self._seconds)
        ending.set()
        await asyncio.gather(*tasks)
        server.wall.set(0)
        await load.stop()
        self.report.seconds = time.monotonic() - begun
        await asyncio.to_thread(self._judge, before)
        return self.report

    async def _pass(self, ending: asyncio.Event, between_s: tuple[float, float]) -> bool:
        """Lets a while go by; returns whether the end came meanwhile."""
        try:
            await asyncio.wait_for(ending.wait(), self._chance.uniform(*between_s))
        except TimeoutError:
            return False
        return True

    async def _jump(self, ending: asyncio.Event) -> None:
        while not await self._pass(ending, RIGHT_S):
            for _ in range(self._chance.choice((1, 1, 1, 3))):
                self._server.wall.set(self._chance.choice(JUMPS_S))
                self.report.done["jumps"] += 1
                if await self._pass(ending, WRONG_S):
                    return
            self._server.wall.set(0)

    async def _kill(self, ending: asyncio.Event, load: Load) -> None:
        while not await self._pass(ending, KILL_EVERY_S):
            load.up.clear()
            if self._chance.random() < 0.7:
                await asyncio.to_thread(self._server.process.kill)
                self.report.done["kills"] += 1
            else:
                await asyncio.to_thread(self._server.process.stop)
                self.report.done["stops"] += 1
            await asyncio.to_thread(self._server.start)
            load.up.set()

    async def _stamp(self, ending: asyncio.Event, load: Load) -> None:
        """Hits of now without a time, one key for each minute of the true time."""
        async with httpx.AsyncClient(base_url=self._server.process.url, trust_env=False) as http:
            while not await self._pass(ending, (0.1, 0.4)):
                await load.up.wait()
                at = time.time()
                key = f"at-{int(at) // 60}"
                try:
                    answer = await http.post(f"/v1/hits/{key}")
                except httpx.TransportError:
                    continue
                if answer.status_code == 200:
                    self._stamped[key] = (self._stamped.get(key, (at, 0))[0], time.time())
                    self.report.done["stamped"] += 1

    async def _ask_limiter(self, ending: asyncio.Event, load: Load) -> None:
        async with httpx.AsyncClient(base_url=self._server.process.url, trust_env=False) as http:
            while not await self._pass(ending, (0.2, 0.6)):
                await load.up.wait()
                try:
                    asked = {"ip": f"192.0.2.{self._chance.randrange(3)}"}
                    answer = await http.post("/v1/limit/login", json=asked)
                except httpx.TransportError:
                    continue
                decision = answer.json()
                self.report.done["admitted" if decision["allowed"] else "refused"] += 1
                wait_s = decision["retry_after_s"] or 0
                self.report.longest_wait_s = max(self.report.longest_wait_s, wait_s)
                if wait_s > PERIOD_S:
                    self.report.wrong.append(f"a caller is told to wait {wait_s} s")

    # --- the verdict ------------------------------------------------------------------------------------------------
    def _judge(self, before: tuple[list[int], list[int]]) -> None:
        server, wrong = self._server, self.report.wrong
        server.process.wait_until(lambda: server.ready().get("clock") == "ok")
        server.flush(4)
        after = server.both_widths()
        if after != before:
            wrong.append(f"buckets are {after} s wide, and were {before}")
        stepped = len(server.events("clock stepped"))
        self.report.done["steps logged"] = stepped
        wrong += [f"the log: {each}" for each in server.events("folding held", "worker crashed", "journal quarantined")]
        if (code := server.process.stop()) != 0:
            wrong.append(f"it ended with {code}")
        self._judge_export(run("export", "--data", str(server.data), timeout_s=JUDGED_WITHIN_S).stdout)
        verified = run("verify", "--data", str(server.data), timeout_s=JUDGED_WITHIN_S)
        if verified.returncode != 0:
            wrong.append(verified.stdout + verified.stderr)

    def _judge_export(self, exported: str) -> None:
        wrong, lines = self.report.wrong, [json.loads(line) for line in exported.splitlines()]
        links = {line["key"]: line for line in lines if "key" in line}
        wrong += self._auditor.judge({key: line["total"] + line["bots"] for key, line in links.items()})
        self.report.hits = {outcome.name: many for outcome, many in self._auditor.sums().items()}
        for key, (first, last) in self._stamped.items():
            line = links[key]
            span = (first - LATEST_S) // 60 * 60, (last + LATEST_S) // 60 * 60
            if not span[0] <= line["first_hit"] <= line["last_hit"] <= span[1]:
                wrong.append(f"{key}: hits of {span} are stamped {line['first_hit']} to {line['last_hit']}")
            if coarse := [bucket for bucket in line["buckets"] if bucket[1] - bucket[0] > WIDEST_S]:
                wrong.append(f"{key}: buckets of hits of this run are {coarse}")


def play(folder: Path, seed: int, seconds: float) -> Report:
    """One campaign in that folder; the server is gone when it returns."""
    config = folder / "clickcurve.toml"
    config.write_text(LIMITS)
    with wrong_clock(folder) as wall:
        server = ClockedServer(folder / "data", wall, "--config", str(config), breakdown_dimensions="ref,source")
        server.start()
        try:
            return asyncio.run(Campaign(server, seed, seconds).play())
        finally:
            if server.process.running:
                server.process.kill()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clock.campaign", description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"how long (default {MINUTES:g})")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32), help="a former run's, to play it again")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="clickcurve-clock-") as folder:
        report = play(Path(folder), given.seed, given.minutes * 60)
    print("\n".join(report.lines()), flush=True)
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
