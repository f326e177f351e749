"""kill -9 under load: what was acknowledged is counted, to the hit, however often and whenever the server dies.

With its journal on the disk it is killed a few times by `make test`, twenty times by `make test-long`, CRASH_KILLS=50
times by `make chaos`. With its journal in the cluster each start waits 8 s until the one before it is taken for dead,
so it is killed less often. CRASH_SEED=N plays a campaign again.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import secrets
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testing.client import Clickcurve
from testing.server import RunningServer, ServerDied, run
from tests.audit.attributes import DIVIDED, Values, judge_words
from tests.audit.auditor import Auditor, Outcome, Sent
from tests.audit.hit_source import HitSource
from tests.crash.load import EVERY, Load, group_of_key
from tests.power import at

# A short interval, so that many deaths fall into a flush.
SETTINGS = {"CLICKCURVE_FLUSH_S": "1", "CLICKCURVE_BREAKDOWN_DIMENSIONS": "ref,source"}
LIVES_S = (0.05, 1.3)
SAMPLED_KEYS = 30
UNFINISHED = re.compile(r'"event":"first flush (?:unfinished|failed)"')
KILLS = int(os.environ.get("CRASH_KILLS") or at(quick=3, full=20))


class Campaign:
    """Kills one server again and again while clients post to it. Everything random comes from `seed`."""

    def __init__(self, server: RunningServer, seed: int) -> None:
        self.server = server
        self.chance = random.Random(seed)
        self.auditor: Auditor[Sent] = Auditor()
        self.source = HitSource(f"{seed:x}-", random.Random(seed + 1))
        self.kills = 0
        self.repeats = 0
        self.groups: dict[str, int] = {}
        self._unfinished = 0  # first flushes that took longer than a start waits for, or that failed at first

    async def run(self, kills: int, several_workers: bool, adopting: bool = False) -> None:
        """adopting: workers die that the parent cannot replace for a while."""
        load = Load(self.server.port, self.auditor, self.source, random.Random(self.chance.random()))
        while self.kills < kills:
            await self._start(load)
            if not several_workers:
                self._check_sample()  # with several workers another's hits may still be on their way to the store
            load.up.set()
            await load.wait(self.chance.uniform(*LIVES_S))
            if adopting:
                await self._let_siblings_adopt(load)
            if several_workers and self.chance.random() < 0.4:
                await self._kill_one_worker(load)
            if several_workers and self.chance.random() < 0.3:
                self.server.signal(signal.SIGKILL)  # the parent only; what it leaves behind dies a little later
                await load.wait(self.chance.uniform(0.0, 0.5))
            self._kill()
            load.up.clear()
        await self._start(load)
        await load.stop()
        self.repeats = load.repeats

    def stop(self, workers: int) -> None:
        """Wait until every worker has flushed what it found in its journal, then end the server cleanly."""
        with Clickcurve(self.server.url) as client:
            self.server.wait_until(lambda: _waiting(client) == [0.0] * workers)
            self.groups = groups_of(client)
        assert self.server.stop() == 0, self.server.output()[-4000:]

    async def _start(self, load: Load) -> None:
        """Start it; one start in six is itself killed at some moment."""
        self.server.launch()
        while self.chance.random() < 1 / 6:
            await load.wait(self.chance.uniform(0.0, 1.2))
            self._kill()
            self.server.launch()
        await asyncio.to_thread(self.server.wait_ready)

    async def _kill_one_worker(self, load: Load) -> None:
        workers = self.server.workers()
        assert workers, "a server with several workers has children"
        os.kill(self.chance.choice(workers), signal.SIGKILL)
        self.kills += 1
        await load.wait(self.chance.uniform(0.0, 2.0))

    async def _let_siblings_adopt(self, load: Load) -> None:
        """The parent stands still. A worker dies, and perhaps another one while it adopts what the first one held."""
        self.server.signal(signal.SIGSTOP)
        await self._kill_one_worker(load)
        await load.wait(self.chance.uniform(2.0, 7.0))
        if self.chance.random() < 0.6:
            await self._kill_one_worker(load)
            await load.wait(self.chance.uniform(0.0, 7.0))
        self.server.signal(signal.SIGCONT)
        await load.wait(self.chance.uniform(0.0, 3.0))

    def _kill(self) -> None:
        self.server.kill()
        self.kills += 1

    def _check_sample(self) -> None:
        """Some totals over HTTP, right after a restart. The clients stand still meanwhile: this blocks their loop."""
        known = list(self.auditor.by_key)
        recent = known[-200:]
        keys = {*self.chance.sample(known, min(SAMPLED_KEYS, len(known))), *recent[:: len(recent) // SAMPLED_KEYS + 1]}
        unfinished = len(UNFINISHED.findall(self.server.output()))
        with Clickcurve(self.server.url) as client:
            if unfinished > self._unfinished:  # requests are answered all the same, and ids not yet decided
                self.server.wait_until(lambda: _waiting(client) == [0.0])
            wrong = self.auditor.judge(client.lifetimes(keys, bots="include"), keys)
        self._unfinished = unfinished
        assert not wrong, "\n".join([*wrong[:20], self.server.output()[-4000:]])


def _waiting(client: Clickcurve) -> list[float]:
    """How many counts each worker has that are not in the store yet."""
    metrics = client.metrics()
    return [value for name, value in metrics.items() if name.startswith("clickcurve_buffered_entries{")]


def groups_of(client: Clickcurve) -> dict[str, int]:
    """Every group's total, people and bots."""
    found: dict[str, int] = {}
    after: str | None = ""
    while after is not None:
        page = client.groups(sort="key", bots="include", limit=1_000, after=after)
        found |= {group["key"]: group["count"] for group in page["groups"]}
        after = page["after"]
    return found


def exported(data: Path, *flags: str) -> list[dict[str, Any]]:
    """Every link and group as the store of a stopped server has it."""
    output = run("export", "--data", str(data), *flags)
    assert output.returncode == 0, output.stderr
    return [json.loads(line) for line in output.stdout.splitlines()]


def values_of(link: dict[str, Any]) -> Values:
    """The sums of an exported breakdown by dimension and value."""
    found: dict[str, Counter[str]] = {}
    for name in DIVIDED:
        for _, _, values, other, _ in link.get("by", {}).get(name, ()):
            assert not other, "there are few values, so none is ever cut"
            found.setdefault(name, Counter()).update(values)
    return found


def audit(campaign: Campaign, *flags: str) -> None:
    """Holds every answer against the store, and the store against its own laws."""
    stored = audit_stored(campaign.auditor, campaign.kills, campaign.server.data, *flags)
    assert campaign.groups == stored


def audit_stored(auditor: Auditor[Sent], least_words: int, data: Path, *flags: str) -> dict[str, int]:
    """Holds what the store has, now that nobody writes, against every answer and its own laws; gives the groups."""
    found = exported(data, *flags)
    links = [line for line in found if "key" in line]
    totals = {link["key"]: link["total"] + link["bots"] for link in links}
    wrong = auditor.judge(totals) + auditor.judge_whole(totals)
    wrong += [each for link in links for each in judge_words(link["key"], link["total"], values_of(link))]
    assert sum("by" in link for link in links) > least_words, "too few said anything"
    wrong += [f"{key}: was never sent" for key in totals if key not in auditor.by_key]
    assert not wrong, "\n".join([f"{len(wrong)} wrong:", *wrong[:20]])
    grouped = {group: total for key, total in totals.items() if (group := group_of_key(key)) is not None and total}
    assert grouped, "no hit named a group"
    groups = {line["group"]: line["total"] + line["bots"] for line in found if "group" in line}
    assert groups == {**grouped, EVERY: sum(grouped.values())}
    verified = run("verify", "--data", str(data), *flags)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    return groups


@pytest.fixture
def seed(capsys: pytest.CaptureFixture[str]) -> Iterator[int]:
    """Where all chance comes from: CRASH_SEED, or a new one; it is printed in any case."""
    chosen = int(os.environ.get("CRASH_SEED") or secrets.randbelow(2**32))
    with capsys.disabled():
        print(f"\nCRASH_SEED={chosen}")
    yield chosen


def play(
    folder: Path,
    seed: int,
    kills: int,
    capsys: pytest.CaptureFixture[str],
    flags: tuple[str, ...] = (),
    workers: int = 1,
    adopting: bool = False,
    journal: str = "disk",
) -> None:
    settings = SETTINGS | {"CLICKCURVE_JOURNAL": journal}
    server = RunningServer(folder / "data", *flags, "--workers", str(workers), settings=settings)
    campaign = Campaign(server, seed)
    try:
        asyncio.run(campaign.run(kills, several_workers=workers > 1, adopting=adopting))
        campaign.stop(workers)
        audit(campaign, *flags)
    except ServerDied as died:
        pytest.fail(str(died))
    finally:
        server.kill()
    sums = {outcome.name: hits for outcome, hits in campaign.auditor.sums().items()}
    with capsys.disabled():
        print(f"{campaign.kills} kills, {campaign.repeats} repeats, hits: {sums}")
    assert campaign.auditor.sums()[Outcome.acknowledged] > 20 * kills, "too little was posted to show anything"
    assert not adopting or server.output().count('"event":"journal of a dead worker"') >= kills // 8


def test_every_acknowledged_hit_counts_once_through_many_kills(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    play(tmp_path, seed, KILLS, capsys)


@pytest.mark.long
def test_every_acknowledged_hit_counts_once_with_the_database_elsewhere(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    play(tmp_path, seed, 5, capsys, flags=("--store", f"sqlite:///{tmp_path}/elsewhere/counts.db"))


@pytest.mark.long
def test_every_acknowledged_hit_counts_once_with_two_workers(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    play(tmp_path, seed, at(quick=3, full=6), capsys, workers=2)


@pytest.mark.slow
def test_every_acknowledged_hit_counts_once_where_siblings_adopt_what_dead_workers_held(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    play(tmp_path, seed, at(quick=6, full=8), capsys, workers=3, adopting=True)


def test_every_acknowledged_hit_counts_once_with_the_journal_in_the_cluster(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str], cassandra_uri: str
) -> None:
    play(tmp_path, seed, at(quick=3, full=4), capsys, flags=("--store", cassandra_uri), journal="cluster")
    owners = run("owners", "list", "--store", cassandra_uri, "--json").stdout.splitlines()
    assert [json.loads(owner)["state"] for owner in owners] == ["closed"], "one process ran at a time"


def test_a_server_that_answers_before_it_stores_is_caught(tmp_path: Path, seed: int) -> None:
    server = RunningServer(tmp_path / "data", module="tests.crash.forgetful")
    campaign = Campaign(server, seed)
    try:
        with pytest.raises(AssertionError, match="was acknowledged and counted 0 times"):
            asyncio.run(campaign.run(20, several_workers=False))
    finally:
        server.kill()
