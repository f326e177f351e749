"""Listing of groups at one of several workers: each accepted hit of all is there, whatever is flushed meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given

from clickcurve.keys import group_key
from query.lists.key_list import KeyPage
from query.lists.listed_rows import GROUP, WorkerPending
from query.lists.listing import Listing
from query.lists.rankings import RankedKeys
from query.parameters import LINKS, Parameters, parse_parameters, parse_query
from server.workers.messages import ALL_GROUPS, NUMBERS_MOST, PendingGroups
from server.workers.peers import Peers
from tests.conftest import Serve
from tests.query.queried_nodes import QueriedNodes
from tests.server.workers.test_peers import NOW, STEPS, Neighbour, said
from tests.server.workers.workers_kit import Connected, connected_to, three_workers

BY_HITS, BY_NAME = (
    parse_parameters(parse_query(query, LINKS)) for query in (b"sort=hits&limit=3", b"sort=key&limit=3")
)


def counts(found: RankedKeys | KeyPage) -> dict[str, int]:
    return dict(found.links)


@given(before=STEPS, between=STEPS, during=STEPS, after=STEPS)
def test_a_list_has_the_hits_of_all_workers_whatever_is_flushed_meanwhile(
    before: list[tuple[int, str]],
    between: list[tuple[int, str]],
    during: list[tuple[int, str]],
    after: list[tuple[int, str]],
) -> None:
    """Hits that come after the answer may be missing, and only those. The ranking of the question before is kept."""
    nodes = QueriedNodes(owners=3, now=NOW)
    neighbours = [Neighbour(owner) for owner in nodes.owners[1:]]
    steps_between: list[tuple[int, str]] = []

    def play(steps: list[tuple[int, str]]) -> None:
        for number, step in steps:
            owner = nodes.owners[number]
            if step == "hit":
                nodes.hit("k", NOW, 1, owner=number + 1, groups=("g", f"of-{number}"))
            elif step == "complete" and owner.is_flushing:
                owner.complete()
            elif step != "complete" and not owner.is_flushing:
                owner.begin(NOW) if step == "begin" else owner.flush(NOW)

    async def elsewhere() -> Sequence[WorkerPending]:
        answers = [said(each, ALL_GROUPS)[0] for each in neighbours]
        play(steps_between)
        held = [
            each.worker_pending(f"journal-{n}", 1) for n, each in enumerate(answers) if isinstance(each, PendingGroups)
        ]
        assert len(held) == 2
        return held

    mine = nodes.owners[0]
    lists = Listing(GROUP, nodes.store, mine.pending, lambda: mine.buffered(GROUP), lambda: mine.flushes, elsewhere)

    def ask(parameters: Parameters) -> dict[str, int]:
        return counts(asyncio.run(lists.list(parameters, NOW)))

    def held(names: dict[str, int], hits: list[str]) -> bool:
        return all(names.get(name, 0) >= hits.count(name) for name in set(hits))

    for now, meanwhile in ((before, between), (during, after)):
        play(now)
        for parameters in (BY_HITS, BY_NAME):
            sent = [name for hit in nodes.hits for name in hit.groups if name in ("g", "of-1", "of-0")]
            steps_between[:] = meanwhile
            found = ask(parameters)
            assert sum(found.values()) <= 2 * len(nodes.hits)
            assert found.get("g", 0) >= sent.count("g")
            if len(found) < 3:
                assert held(found, sent)
            steps_between.clear()
            assert ask(parameters).get("g", 0) == len(nodes.hits)


@pytest.mark.slow
def test_what_a_worker_holds_of_groups_is_bounded_and_says_why_it_cannot_be_read() -> None:
    nodes = QueriedNodes(now=NOW)
    owner = Neighbour(nodes.owners[0])
    (nothing,) = said(owner, ALL_GROUPS)
    assert nothing == PendingGroups(0, {})
    nodes.hit("k", NOW, 3, groups=("g",))
    (found,) = said(owner, ALL_GROUPS)
    assert isinstance(found, PendingGroups)
    assert [(part.flush, part.people) for part in found.rows[group_key("g")]] == [(1, {NOW: 3})]
    owner.damaged = True
    assert said(owner, ALL_GROUPS) == ["this link's row is damaged"]
    owner.damaged = False
    nodes.hits.clear()
    for number in range(NUMBERS_MOST // 2):
        nodes.hit("k", NOW, groups=(f"g{number}",))
    assert said(owner, ALL_GROUPS) == [None]


def test_a_worker_that_was_started_again_has_another_stamp(data: Path) -> None:
    async def main() -> None:
        nodes = QueriedNodes(owners=2, now=NOW)
        nodes.hit("k", NOW, 5, owner=2, groups=("g",))
        first, second = Peers(data, 1, 2), Peers(data, 2, 2)
        await first.listen(Neighbour(nodes.owners[0]))
        await second.listen(Neighbour(nodes.owners[1]))
        (before,) = await first.groups()
        assert [each.delta.people for each in before.pending[group_key("g")]] == [{NOW: 5}]
        for writer in second._answering.values():
            writer.transport.abort()  # as a kill does it
        await second.close()
        again = Peers(data, 2, 2)
        await again.listen(Neighbour(nodes.owners[1]))
        (after,) = await first.groups()
        assert after.pending.keys() == before.pending.keys() and after.stamp != before.stamp
        await first.close()
        await again.close()

    data.mkdir()
    asyncio.run(main())


# --- real workers ----------------------------------------------------------------------------------------------------


def test_each_of_three_workers_answers_for_the_groups_of_all_before_any_flush(
    serve: Serve, connected: Connected, data: Path
) -> None:
    server = three_workers(serve, data, "--flush-s", "3600")
    clients = [connected_to(number, server, connected, data)[0].client for number in (1, 2, 3)]
    for number, client in enumerate(clients, 1):
        client.send({"key": "a", "count": number, "ref": f"r{number}.example", "groups": ["spring", f"of-{number}"]})
    wanted = [("spring", 6), ("of-3", 3), ("of-2", 2), ("of-1", 1)]
    for client in clients:

        def asked(path: str, of: object = client) -> dict[str, object]:
            answer = of.http.get(f"/v1/groups{path}").raise_for_status()  # type: ignore[attr-defined]
            assert "clickcurve-unreachable-workers" not in answer.headers
            found: dict[str, object] = answer.json()
            return found

        assert asked("")["groups"] == [{"key": name, "count": count} for name, count in wanted]
        assert asked("?last=1d")["groups"] == [{"key": name, "count": count} for name, count in wanted]
        by_name = asked("?sort=key&limit=3")
        assert by_name["groups"] == [{"key": name, "count": count} for name, count in sorted(wanted)[:3]]
        assert by_name["after"] == "of-3"
        assert asked("/spring")["lifetime"] == asked("/spring/total")["total"] == 6
        assert asked("/spring/curve")["total"] == 6
        values = asked("/spring/by/ref")["values"]
        assert [(each["value"], each["at_least"]) for each in values] == [  # type: ignore[attr-defined]
            (f"r{number}.example", number) for number in (3, 2, 1)
        ]
