"""The bounds of a journal in the cluster: what is too much, or too late, is refused before any of it is sent."""

from __future__ import annotations

import asyncio

import pytest

from clickcurve.buckets.errors import JournalBehind, JournalFull
from ingest.batch import Batch
from ingest.flush import Pace
from ingest.journal import group_commit
from ingest.journal.unanswered import LOOK_S
from ingest.owner import Owner
from tests.ingest.journal.test_cluster_journal import NOW, Cluster

MINUTE = NOW // 60 * 60


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


class StuckOwner:
    """An owner over a journal in the cluster whose frames have no answer until `go_on`. `sent`: those under way."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.go_on, self.sent = cluster, asyncio.Event(), 0
        pace = Pace(lambda: cluster.now, 15.0, lambda: False)
        self.owner = Owner(
            cluster.made(), cluster.store, lambda: cluster.now, cluster.token, pace, "here", False, buffer_bytes=100_000
        )

    async def stuck(self) -> list[asyncio.Future[None]]:
        """Accepts a hit, and one more each time that a group is under way, until no more are."""
        await self.owner.flush()

        async def wait() -> None:
            self.sent += 1
            await self.go_on.wait()

        self.cluster.journals.before["append"] = wait
        waiting: list[asyncio.Future[None]] = []
        for groups in (1, 2, 2):
            waiting.append(self.owner.accept_one("launch"))
            for _ in range(100):
                await asyncio.sleep(0)
            assert self.sent == groups, "two groups are under way, the third gathers"
        return waiting

    async def counted(self, waiting: list[asyncio.Future[None]]) -> int:
        """Returns how many hits count when the cluster answers again."""
        self.go_on.set()
        await asyncio.wait_for(asyncio.gather(*waiting), 600)
        return self.owner.status.buffered_hits


async def test_while_a_frame_is_overdue_hits_are_refused_for_certain(cluster: Cluster) -> None:
    """They would wait for a group that cannot be sent yet, and perhaps have no answer then."""
    stuck = StuckOwner(cluster)
    waiting = await stuck.stuck()
    for _ in range(6):
        cluster.now += LOOK_S
        stuck.owner._commit._look()
    with pytest.raises(JournalFull, match=r"has not acknowledged a frame for 1 s"):
        await waiting.pop()  # it waited for its group, of which nothing was sent
    with pytest.raises(JournalFull, match=r"has not acknowledged a frame for 2 s"):
        stuck.owner.accept_one("launch")
    with pytest.raises(JournalFull, match=r"has not acknowledged a frame for 2 s"):
        await stuck.owner.accept(Batch(people={MINUTE: {"launch": 7}}))
    assert await stuck.counted(waiting) == 2
    await stuck.owner.accept(Batch(people={MINUTE: {"launch": 7}}))
    assert stuck.owner.status.buffered_hits == 9


async def test_as_many_hits_wait_behind_two_groups_as_may_and_more_are_refused_for_certain(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "WAITING_SINGLES", 5)
    monkeypatch.setattr(group_commit, "WAITING_BYTES", 1_000)
    stuck = StuckOwner(cluster)
    waiting = await stuck.stuck()
    waiting += [stuck.owner.accept_one("launch") for _ in range(4)]
    with pytest.raises(JournalBehind, match="5 hits are waiting for the journal; try again in a second"):
        stuck.owner.accept_one("launch")
    many = [f"link-{number}" for number in range(100)]
    waiting.append(asyncio.ensure_future(accepted(stuck.owner, many)))
    await asyncio.sleep(0)
    with pytest.raises(JournalBehind, match="bytes of batches are waiting for the journal; try again in a second"):
        await stuck.owner.accept(Batch(people={MINUTE: dict.fromkeys(many, 1)}))
    assert await stuck.counted(waiting) == 3 + 4 + 100


async def test_while_the_buffer_is_full_hits_are_refused_for_certain(cluster: Cluster) -> None:
    """It bounds what lies in the cluster, too."""
    stuck = StuckOwner(cluster)
    stuck.go_on.set()
    await stuck.owner.flush()
    many = [f"link-{number}" for number in range(2_000)]
    await accepted(stuck.owner, many)
    with pytest.raises(JournalBehind, match="of 100,000 bytes of memory; try again later"):
        stuck.owner.accept_one("launch")
    with pytest.raises(JournalBehind, match="of 100,000 bytes of memory; try again later"):
        await accepted(stuck.owner, many)
    await stuck.owner.flush()
    await stuck.owner.accept_one("launch")
    assert stuck.owner.status.buffered_hits == 1


async def accepted(owner: Owner, keys: list[str]) -> None:
    await owner.accept(Batch(people={MINUTE: dict.fromkeys(keys, 1)}))
