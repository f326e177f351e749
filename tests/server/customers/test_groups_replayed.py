"""The token's group is in the journal's record: a replay counts it the same, whatever became of the token meanwhile."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.access import ALL_ACCESS, Access, begin_access
from clickcurve.buckets.ladder import minutes_since
from clickcurve.keys import group_key
from ingest.batch import encode_batch
from ingest.buffer import replay
from ingest.hit import Moment
from ingest.journal.contract import Frame
from ingest.reading.body import Media, read_hits
from ingest.reading.request_sums import RequestSums
from server.tokens.token import Scope
from testing.client import http_client
from testing.server import RunningServer
from testing.tokens import add_token
from tests.power import at

NOW = 1_767_225_600
ACME = Access("acme/", "acme", "1f2e3d4c")
NEVER = {"CLICKCURVE_FLUSH_S": "3600"}

one_hit = st.fixed_dictionaries(
    {"key": st.sampled_from(["acme/a", "acme/b", "acme", "beta/c"])},
    optional={
        "count": st.integers(1, 5),
        "ts": st.sampled_from([NOW, NOW - 60, NOW - 90_000_000]),
        "id": st.sampled_from(["1", "2"]),
        "bot": st.booleans(),
        "groups": st.sampled_from([["acme/spring"], ["acme"], []]),
    },
)


@given(st.lists(one_hit, min_size=1, max_size=8), st.sampled_from([None, "named"]))
def test_a_record_adds_to_the_group_what_its_good_hits_say(hits: list[dict[str, Any]], name: str | None) -> None:
    sums = RequestSums(Moment.at(NOW, minutes_since), name, allowed=ACME)
    for raw in read_hits(msgspec.json.encode(hits), Media.json):
        sums.add(raw, lambda agent: False)
    batch = sums.batch()
    frames = [] if batch is None else [Frame(1, encode_batch(batch))]
    begin_access(ALL_ACCESS)  # at a replay there is no request, and perhaps no such token
    buffer = replay(frames, {}, NOW - 86_400)
    buffer.decide(set())
    seen: set[str] = set()
    people = bots = 0
    for hit in hits:
        if not hit["key"].startswith("acme/") or hit.get("id") in seen:
            continue
        seen |= {hit["id"]} if "id" in hit else set()
        people += 0 if hit.get("bot") else hit.get("count", 1)
        bots += hit.get("count", 1) if hit.get("bot") else 0
    delta = buffer.delta_of_row(group_key("acme"))
    assert (sum(delta.people.values()), sum(delta.bots.values())) == (people, bots)


class Customer:
    """Writes with a token of its own in every way there is, and knows what its group must count."""

    def __init__(self, server: RunningServer, admin: str, chance: random.Random) -> None:
        self.server, self.admin, self.chance = server, admin, chance
        self.counted = self.numbers = self.position = 0
        self.token_id = self.token = ""
        self.make_token()

    def ask(self, method: str, path: str, token: str, headers: Any = (), **request: Any) -> Any:
        with http_client(self.server.url) as http:
            given = {"Authorization": f"Bearer {token}", **dict(headers)}
            answer = http.request(method, path, headers=given, **request)
        assert answer.is_success, (method, path, answer.text)
        return answer.json() if answer.content else None

    def make_token(self) -> None:
        wish = {"name": "acme", "scopes": ["write", "read"], "prefix": "acme/"}
        made = self.ask("POST", "/v1/tokens", self.admin, json=wish)
        self.token, self.token_id = made["token"], made["id"]

    def write(self) -> None:
        self.numbers += 1
        key, many = f"acme/{self.chance.randrange(5)}", self.chance.randint(1, 4)
        hit = {"key": key, "count": many, "ref": "https://news.example/"}
        id_ = {"Idempotency-Key": f"batch-{self.numbers}"}
        way = self.chance.randrange(6)
        if way < 2:
            path = f"/v1/hits/{key.replace('/', '%2F')}"
            many = self.ask("POST", path, self.token, headers=id_ if way else ())["counted"]
        elif way == 2:
            self.ask("POST", "/v1/hits", self.token, json=hit)
        elif way == 3:
            self.ask("POST", "/v1/hits", self.token, json={**hit, "id": f"hit-{self.numbers}"})
        elif way == 4:
            self.ask("POST", "/v1/hits", self.token, json=[hit, {"key": "beta/x"}], headers=id_)
        else:
            path = f"/v1/import/log?from={self.position}&to={self.position + 9}"
            line = json.dumps({"key": key, "count": many, "ts": 1_767_225_600, "ref": "https://news.example/"})
            self.ask("POST", path, self.token, headers={"Content-Type": "application/x-ndjson"}, content=line)
            self.position += 9
        self.counted += many

    def check(self) -> None:
        with http_client(self.server.url) as http:  # an export flushes: ids that were replayed are decided then
            assert http.get("/v1/export", headers={"Authorization": f"Bearer {self.admin}"}).is_success
        total = self.ask("GET", "/v1/groups/acme/total?bots=include", self.admin)["total"]
        links = self.ask("GET", "/v1/links?sort=key&prefix=acme/&bots=include", self.admin)["links"]
        by = self.ask("GET", "/v1/groups/acme/by/ref", self.admin)
        assert (total, sum(each["count"] for each in links), by["total"]) == (self.counted,) * 3


@pytest.mark.parametrize("seed", range(at(quick=1, full=4)))
def test_hits_that_wait_in_the_journal_of_a_killed_server_count_in_the_group_of_a_revoked_token(
    tmp_path: Path, seed: int
) -> None:
    data = tmp_path / "data"
    admin = add_token(data / "tokens.json", "admin", (Scope.admin,))
    with RunningServer(data, settings=NEVER) as server:
        customer = Customer(server, admin, random.Random(seed))
        for _ in range(at(quick=2, full=6)):
            for _ in range(20):
                customer.write()
            customer.ask("DELETE", f"/v1/tokens/{customer.token_id}", admin)
            server.kill()
            server.start()
            with http_client(server.url) as http:
                answer = http.get("/v1/total", headers={"Authorization": f"Bearer {customer.token}"})
                assert answer.status_code == 401, "the token is gone"
            customer.make_token()
            customer.check()
