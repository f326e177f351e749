"""The list of rules: it holds up no other request, however many rules there are of one link."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

from clickcurve.buckets.ladder import DAY_S, END_OF_TIME, fold_day
from clickcurve.keys import link_key
from ingest.hit import Moment
from ingest.reading.body import Media
from ingest.reading.request_sums import RequestSums
from server.corrections.disavow_routes import _Rules
from server.corrections.rules import DisavowRule
from storage.memory_store import MemoryStore
from tests.ingest.http_kit import summed
from tests.server.correcting_server import NOW, READER, CorrectingServer

RULES = 300
LONGEST_PIECE_S = 0.02  # of processor time, which a busy machine does not lengthen; 0.2 in one piece


class Pieces:
    """Takes the loop's turns and notes the longest piece between two of them."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def watch(self) -> None:
        before = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            self.longest_s, before = max(self.longest_s, now - before), now


async def test_each_rule_is_a_piece_of_its_own_beside_the_loop(tmp_path: Path) -> None:
    server = CorrectingServer(tmp_path, MemoryStore())
    hits = [
        {"key": "a", "ref": f"h{n % RULES}.example", "ts": NOW - 3_600 - n * 7_919 % 7_200 * 3_600}
        for n in range(20 * RULES)
    ]
    moment = Moment(NOW, fold_day(NOW) * DAY_S, NOW + 300)
    batch = summed(json.dumps(hits).encode(), Media.json, RequestSums(moment, reader=READER)).batch()
    assert batch is not None
    await server.owner.accept(batch)
    await server.owner.flush()
    for n in range(RULES):
        rule = DisavowRule(link_key("a"), "ref", f"h{n}.example", 0, END_OF_TIME, NOW, None)
        server.corrections.book.add(rule)
    rules = _Rules(server.corrections, ("ref",), lambda dimension, value: value, lambda: float(NOW))
    pieces = Pieces()
    watching = asyncio.create_task(pieces.watch())
    answers = await rules.answers()
    await asyncio.sleep(0)  # the last piece is noted by the turn after it
    watching.cancel()
    assert {each["value"] for each in answers} == {f"h{n}.example" for n in range(RULES)}
    assert all(each["at_least"] > 0 for each in answers)
    assert pieces.longest_s < LONGEST_PIECE_S
    await server.owner.close()
