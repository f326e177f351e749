"""Groups of a running server: counted when their hits are accepted, flushed with them, and not reduced by anything."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testing.client import Clickcurve
from testing.server import RunningServer, run


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that has hits of two links in the groups g/h and ü, sent in every way, one of them twice."""
    data = tmp_path_factory.mktemp("groups") / "data"
    with RunningServer(data) as server, Clickcurve(server.url) as client:
        client.send({"key": "a", "groups": ["g/h"]})
        client.send({"key": "a", "count": 5, "groups": ["g/h", "ü", "g/h"], "ref": "news.example"})
        client.send([{"key": "b", "groups": ["ü"]}, {"key": "b"}, {"key": "b", "bot": True, "groups": ["ü"]}])
        for _ in range(2):
            client.send({"key": "a", "id": "one", "groups": ["g/h"]})
            client.send([{"key": "b", "count": 100, "groups": ["g/h"]}], {"Idempotency-Key": "batch"})
        yield server


TOTALS = {"g/h": 107, "ü": 6}


def totals(client: Clickcurve) -> dict[str, int]:
    return {group["key"]: group["count"] for group in client.groups()["groups"]}


@pytest.mark.slow
def test_groups_have_the_hits_that_name_them_before_and_after_a_restart(counted: RunningServer) -> None:
    with Clickcurve(counted.url) as client:
        assert totals(client) == TOTALS
        assert client.http.get("/v1/groups/%C3%BC").json()["bots"] == 1
        assert client.http.get("/v1/groups/g%2Fh/curve?last=1h").json()["total"] == 107
        assert client.total()["total"] == 5 + 1 + 1 + 1 + 1 + 100
    counted.kill()
    counted.launch()
    counted.wait_ready()
    with Clickcurve(counted.url) as client:
        assert totals(client) == TOTALS, "replayed from the journal"
        assert client.erase("a") == 204
        assert client.total("a")["total"] == 0
        assert totals(client) == TOTALS
        client.send({"key": "a", "id": "one", "groups": ["g/h"]})
        assert totals(client) == TOTALS, "a repeat after its link was erased"
    assert counted.stop() == 0
    verified = run("verify", "--data", str(counted.data))
    assert (verified.returncode, "2 groups" in verified.stdout) == (0, True), verified.stdout
    counted.launch()
    counted.wait_ready()
    with Clickcurve(counted.url) as client:
        assert totals(client) == TOTALS
        assert run("total", "--group", "g/h", "--last", "1d", "--url", counted.url).stdout.startswith(
            "g/h: 107 hits of people, "
        )
        assert run("groups", "--url", counted.url).stdout.splitlines()[1].split()[:2] == ["g/h", "107"]
