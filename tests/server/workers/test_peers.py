"""Workers that ask each other: an answer has each accepted hit once, whatever is flushed meanwhile."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

import httpx
import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from clickcurve.buckets.breakdowns.breakdown import BreakdownDelta
from clickcurve.buckets.errors import RowCorrupt, StoreUnavailable
from clickcurve.buckets.ladder import CLICKS
from clickcurve.buckets.row import Delta
from clickcurve.keys import ALL_LINKS, breakdown_key, link_key
from clickcurve.pending import Pending, PendingBreakdown
from query.lists.listed_rows import GROUP, LINK, NameOf
from query.reader import Reader
from server.workers import peers
from server.workers.messages import NUMBERS_MOST, KeyAnswer, answer_of
from server.workers.peers import Peers
from server.workers.pending import PendingHits
from storage.contract import StoredLink
from testing.client import Clickcurve
from testing.server import RunningServer
from tests.conftest import Serve
from tests.query.queried_nodes import FakeOwner, QueriedNodes
from tests.server.conftest import events, wait_until
from tests.server.workers.workers_kit import Connected, connected_to, pid_of, three_workers

NOW = 1772407680  # 2026-03-01T23:28:00Z
KEY = link_key("k")


class Neighbour(PendingHits):
    """A fake owner, as another worker asks it."""

    def __init__(self, owner: FakeOwner) -> None:
        self.owner = owner
        self.adopted_numbers: set[int] = set()
        self.adopts: FakeOwner | None = None
        self.claimed = True
        self.damaged = False
        self.erased: list[str] = []

    def numbered(self, key: str) -> Sequence[tuple[Pending, int]]:
        if self.damaged:
            raise RowCorrupt("this link's row is damaged")
        pending = [*self.owner.pending(key), *(self.adopts.pending(key) if self.adopts else ())]
        if pending and not self.claimed:
            raise StoreUnavailable("not reached yet")
        return [(each, each.flush() or self.owner.flushes + 1 + self.owner.is_flushing) for each in pending]

    def numbered_breakdowns(self, key: str) -> Sequence[tuple[PendingBreakdown, int]]:
        delta = BreakdownDelta({"ref": {0: {"a.example": 3}}}, {0: {7, 8}}, {0: 2})
        return [(PendingBreakdown(lambda: 1, lambda: 5, lambda: delta), 5)]

    async def hide_erased(self, *keys: str) -> None:
        self.erased += keys

    def buffered_links(self) -> list[dict[str, int]]:
        return self.owner.buffered(LINK)

    def buffered_beside(self, name_of: NameOf) -> list[dict[str, int]]:
        assert name_of is GROUP.name_of
        return self.owner.buffered(GROUP)

    @property
    def flushes(self) -> int:
        return self.owner.flushes

    @property
    def adopted(self) -> set[int]:
        return self.adopted_numbers


def said(owner: Neighbour, *keys: str) -> list[KeyAnswer]:
    """What an owner says, as it comes over the socket."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(answer_of(owner, keys)), type=list[KeyAnswer])


STEPS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(("hit", "begin", "complete", "flush"))), max_size=8)


@given(before=STEPS, between=STEPS, during=STEPS)
def test_whatever_is_flushed_between_an_answer_and_the_row_each_hit_counts_once(
    before: list[tuple[int, str]], between: list[tuple[int, str]], during: list[tuple[int, str]]
) -> None:
    """Hits that come after the answer may be missing, and only those. An answer may be as old as one likes."""
    nodes = QueriedNodes(owners=3, now=NOW)
    neighbours = [Neighbour(owner) for owner in nodes.owners[1:]]

    def play(steps: list[tuple[int, str]]) -> None:
        for number, step in steps:
            owner = nodes.owners[number]
            if step == "hit":
                nodes.hit("k", NOW, 1, owner=number + 1)
            elif step == "complete" and owner.is_flushing:
                owner.complete()
            elif step != "complete" and not owner.is_flushing:
                owner.begin(NOW) if step == "begin" else owner.flush(NOW)

    async def elsewhere(key: str) -> Sequence[Pending]:
        answers = [answer for each in neighbours for answer in said(each, key)]
        play(between)
        pending = [part.pending() for parts in answers if isinstance(parts, list) for part in parts]
        return [each for each in pending if isinstance(each, Pending)]

    async def rows(key: str) -> StoredLink:
        play(during)
        return await nodes.store.rows(key)

    play(before)
    at_least = len(nodes.hits)
    reader = Reader(rows, nodes.owners[0].pending, nodes.owners[0].revisit, lambda: CLICKS, elsewhere)
    for key in (KEY, ALL_LINKS):
        found = asyncio.run(reader.row(key, NOW)).lifetime
        assert at_least <= found <= len(nodes.hits)
        at_least = found


def test_an_owner_says_why_it_cannot_answer() -> None:
    nodes = QueriedNodes(now=NOW)
    owner = Neighbour(nodes.owners[0])
    assert said(owner, KEY) == [[]]
    nodes.hit("k", NOW, 3)
    owner.damaged = True
    assert said(owner, KEY) == ["this link's row is damaged"]
    owner.damaged, owner.claimed = False, False
    assert said(owner, KEY) == [None]
    owner.claimed = True
    (parts,) = said(owner, KEY)
    assert isinstance(parts, list)
    assert [(part.owner, part.flush, part.people) for part in parts] == [(1, 1, {NOW: 3})]


def test_what_an_owner_says_of_a_breakdown_comes_over_as_it_was() -> None:
    owner = Neighbour(QueriedNodes(now=NOW).owners[0])
    (parts,) = said(owner, breakdown_key("k"))
    assert isinstance(parts, list)
    (pending,) = [part.pending() for part in parts]
    assert isinstance(pending, PendingBreakdown)
    assert (pending.owner, pending.flush()) == (1, 5)
    assert pending.delta == BreakdownDelta({"ref": {0: {"a.example": 3}}}, {0: {7, 8}}, {0: 2})
    assert parts[0].size() == 3


def test_an_answer_is_bounded() -> None:
    class Large(Neighbour):
        def numbered(self, key: str) -> Sequence[tuple[Pending, int]]:
            opening = 2**70 if key == "opening" else 0
            minutes = NUMBERS_MOST if key == "minutes" else 1
            return [
                (Pending(lambda: 1, lambda: 7, Delta(dict.fromkeys(range(0, 60 * minutes, 60), 1), {}, opening)), 7)
            ]

    owner = Large(QueriedNodes(now=NOW).owners[0])
    assert [answer is None for answer in said(owner, "one", "opening", "two", "minutes", "three")] == [
        False,
        True,
        False,
        True,
        True,
    ]


Play = Callable[[Peers, Neighbour, FakeOwner], Awaitable[None]]


def two_workers(data: Path, play: Play) -> None:
    """Plays with the peers of a first worker, and the owner of a second one that answers it."""

    async def main() -> None:
        nodes = QueriedNodes(owners=2, now=NOW)
        nodes.hit("k", NOW, 5, owner=2)
        neighbour = Neighbour(nodes.owners[1])
        first, second = Peers(data, 1, 2), Peers(data, 2, 2)
        await first.listen(Neighbour(nodes.owners[0]))
        await second.listen(neighbour)
        try:
            await play(first, neighbour, nodes.owners[1])
        finally:
            await first.close()
            await second.close()
        assert list((data / "peers").iterdir()) == []

    data.mkdir()
    asyncio.run(main())


def counts(pending: Sequence[Pending]) -> int:
    return sum(sum(each.delta.people.values()) for each in pending)


def test_questions_of_one_turn_go_together_and_are_answered_each(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    questions: list[Iterable[str]] = []

    def counted(asked: PendingHits, keys: Iterable[str]) -> list[msgspec.Raw]:
        questions.append(keys)
        return answer_of(asked, keys)

    monkeypatch.setattr(peers, "answer_of", counted)

    async def play(first: Peers, neighbour: Neighbour, owner: FakeOwner) -> None:
        keys = [KEY, link_key("other"), ALL_LINKS, KEY]
        assert [counts(found) for found in await asyncio.gather(*map(first.pending, keys))] == [5, 0, 5, 5]
        assert len(questions) == 1
        assert counts(await first.pending(KEY)) == 5
        assert len(questions) == 2
        neighbour.damaged = True
        with pytest.raises(RowCorrupt):
            await first.pending(KEY)
        assert first.incomplete_answers == 0

    two_workers(data, play)


def test_other_workers_hear_of_an_erasure_before_it_is_answered(data: Path) -> None:
    async def play(first: Peers, neighbour: Neighbour, owner: FakeOwner) -> None:
        await asyncio.gather(first.tell_erased("k"), first.pending(KEY), first.tell_erased("other"))
        assert neighbour.erased == ["k", "other"]

    two_workers(data, play)


def test_links_within_a_prefix_are_those_of_every_worker_or_the_question_fails(data: Path) -> None:
    async def play(first: Peers, neighbour: Neighbour, owner: FakeOwner) -> None:
        (found,) = await first.links_within("k")
        assert {key: counts(pending) for key, pending in found.pending.items()} == {KEY: 5}
        (none,) = await first.links_within("kx")
        assert none.pending == {}
        neighbour.claimed = False
        with pytest.raises(StoreUnavailable, match="journal-2"):
            await first.links_within("k")
        assert first.incomplete_answers == 0, "no answer went out that lacks hits"
        neighbour.claimed = True
        assert [len(each.pending) for each in await first.links_within("")] == [1]

    two_workers(data, play)


def test_a_request_that_is_cancelled_takes_no_answer_from_others(data: Path) -> None:
    async def play(first: Peers, neighbour: Neighbour, owner: FakeOwner) -> None:
        gone, waits = (asyncio.ensure_future(first.pending(KEY)) for _ in range(2))
        turn = asyncio.Event()
        asyncio.get_running_loop().call_soon(turn.set)
        await turn.wait()
        gone.cancel()
        assert counts(await waits) == 5

    two_workers(data, play)


def test_what_a_worker_said_last_does_not_count_beside_the_worker_that_has_adopted_its_journal(data: Path) -> None:
    async def main() -> None:
        nodes = QueriedNodes(owners=3, now=NOW)
        nodes.hit("k", NOW, 5, owner=2, groups=("g",))
        neighbours = [Neighbour(owner) for owner in nodes.owners]
        first, dead, adopter = (Peers(data, number, 3) for number in (1, 2, 3))
        for worker, neighbour in zip((first, dead, adopter), neighbours, strict=True):
            await worker.listen(neighbour)
        for each in (first, adopter):
            assert (counts(await each.pending(KEY)), await of_groups(each)) == (5, 5)
        await dead.close()
        assert (counts(await first.pending(KEY)), await of_groups(first)) == (5, 5), "its last answer"
        neighbours[2].adopts, neighbours[2].adopted_numbers = nodes.owners[1], {2}
        assert (counts(await first.pending(KEY)), await of_groups(first)) == (5, 5), "the adopter's"
        assert (counts(await adopter.pending(KEY)), await of_groups(adopter)) == (0, 0), "it has them itself"
        await first.close()
        await adopter.close()

    async def of_groups(worker: Peers) -> int:
        return sum(counts(pending) for each in await worker.groups() for pending in each.pending.values())

    data.mkdir()
    asyncio.run(main())


def test_what_a_worker_said_last_counts_until_it_is_stored_while_it_is_not_there(data: Path) -> None:
    async def main() -> None:
        nodes = QueriedNodes(owners=2, now=NOW)
        nodes.hit("k", NOW, 5, owner=2)
        first, second = Peers(data, 1, 3), Peers(data, 2, 3)  # a third one never comes
        await first.listen(Neighbour(nodes.owners[0]))
        await second.listen(Neighbour(nodes.owners[1]))
        mine = nodes.owners[0]
        reader = Reader(nodes.store.rows, mine.pending, mine.revisit, lambda: CLICKS, first.pending)
        assert (await reader.row(KEY, NOW)).lifetime == 5
        await second.close()
        assert (await reader.row(KEY, NOW)).lifetime == 5
        nodes.hit("k", NOW, 1, owner=2)
        nodes.owners[1].flush(NOW)
        assert (await reader.row(KEY, NOW)).lifetime == 6
        assert first.incomplete_answers == 3
        await first.close()

    data.mkdir()
    asyncio.run(main())


def test_a_path_longer_than_a_socket_may_have_is_no_hindrance(tmp_path: Path) -> None:
    async def play(first: Peers, neighbour: Neighbour, owner: FakeOwner) -> None:
        assert counts(await first.pending(KEY)) == 5

    two_workers(tmp_path / ("long" * 30), play)


# --- real workers ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_totals_of_three_workers_never_go_down_and_have_each_answered_hit(
    serve: Serve, connected: Connected, data: Path
) -> None:
    server = three_workers(serve, data, "--flush-s", "1")
    clients = [each for number in (1, 2, 3) for each in connected_to(number, server, connected, data)]
    dice = random.Random(11)
    keys = ["a", "b", None]
    counted: dict[str | None, int] = dict.fromkeys(keys, 0)
    seen, unreachable = dict(counted), 0
    for _ in range(200):
        key = dice.choice(("a", "b"))
        assert dice.choice(clients).client.hit(key)["counted"] == 1
        counted[key] += 1
        counted[None] += 1
        for reader in dice.sample(clients, 3):
            asked = dice.choice(keys)
            total, missing = reader.read(asked)
            if missing is None:
                assert total == counted[asked]
                assert total >= seen[asked]
                seen[asked] = total
            unreachable += missing is not None
    assert unreachable < 60, "a busy machine may be too slow once in a while"
    assert sorted(path.name for path in (data / "peers").iterdir()) == ["1", "2", "3"]
    assert {oct(path.stat().st_mode & 0o777) for path in (data / "peers").iterdir()} == {"0o600"}
    assert server.stop() == 0
    assert {line["journal"] for line in events(server, "flush") if line["hits"]} == {f"journal-{n}" for n in (1, 2, 3)}
    assert list((data / "peers").iterdir()) == []


def hit_each(server: RunningServer, times: int) -> None:
    with Clickcurve(server.url, fresh=True) as client:
        for _ in range(times):
            assert client.hit("launch")["counted"] == 1


def test_an_erased_link_is_empty_at_every_worker_at_once_and_counts_from_then_on(
    serve: Serve, connected: Connected, data: Path
) -> None:
    server = three_workers(serve, data, "--flush-s", "3600")
    clients = connected(server, 9)
    hit_each(server, 20)
    assert clients[0].client.erase("launch") == 204
    assert [each.read() for each in clients] == [(0, None)] * 9
    hit_each(server, 7)
    assert [each.read() for each in clients] == [(7, None)] * 9
    assert [each.read(None) for each in clients] == [(27, None)] * 9
    assert server.stop() == 0
    assert [each.read() for each in connected(serve(data=data), 1)] == [(7, None)]


@pytest.mark.slow
def test_a_worker_that_stands_still_is_named_and_holds_nobody_up(
    serve: Serve, connected: Connected, data: Path
) -> None:
    server = three_workers(serve, data, "--flush-s", "3600")
    hit_each(server, 30)
    clients = connected(server, 9)
    assert [each.read() for each in clients] == [(30, None)] * 9
    words = "Hits of the last 3600 s may be missing"
    assert words not in clients[0].client.http.get("/links/launch").text
    still = pid_of(data, 2)
    os.kill(still, signal.SIGSTOP)
    answers = []
    try:
        for each in clients:
            each.client.http.timeout = 2.0
            try:
                answers.append(each.read())
                assert words in each.client.http.get("/links/launch").text
            except httpx.ReadTimeout:  # this connection is the still worker's own
                each.client.close()
    finally:
        os.kill(still, signal.SIGCONT)
    assert answers and set(answers) == {(30, "journal-2")}
    others = [each for each in clients if not each.client.http.is_closed]
    assert others[0].client.metric("clickcurve_incomplete_answers_total") >= 1
    wait_until(lambda: all(each.read() == (30, None) for each in others))


def test_a_worker_that_is_killed_under_load_costs_nothing_that_was_answered(
    serve: Serve, connected: Connected, data: Path
) -> None:
    server = three_workers(serve, data, "--flush-s", "1")
    answered = unknown = 0
    for number in range(300):
        if number == 150:
            os.kill(pid_of(data, 2), signal.SIGKILL)
        try:
            hit_each(server, 1)
            answered += 1
        except httpx.TransportError:  # its connection broke
            unknown += 1
    wait_until(lambda: len(events(server, "listening")) == 4)
    clients = connected(server, 6)
    wait_until(lambda: all(each.read()[1] is None for each in clients))
    totals = {each.read()[0] for each in clients}
    assert len(totals) == 1
    assert answered <= totals.pop() <= answered + unknown
