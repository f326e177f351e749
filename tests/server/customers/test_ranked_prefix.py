"""The server keeps candidates of a customer's links, and the answers stay those of the walk."""

from __future__ import annotations

from pathlib import Path

from clickcurve.buckets.ladder import CLICKS
from server.tokens.token import Scope
from storage.sqlite.rankings import MANY_LINKS
from storage.sqlite.store import SqliteStore
from testing.client import Clickcurve
from testing.server import RunningServer
from testing.tokens import add_token
from tests.server.conftest import wait_until


def test_the_prefix_of_a_token_is_ranked_after_a_start(tmp_path: Path) -> None:
    data = tmp_path / "data"
    secret = add_token(data / "tokens.json", "acme", (Scope.write, Scope.read), prefix="acme/")
    counts = {f"acme/{n:04}": 1 + n * 7_919 % MANY_LINKS for n in range(MANY_LINKS)}

    def ranked_prefixes() -> list[str]:
        store = SqliteStore(data / "clickcurve.db", CLICKS, read_only=True)
        try:
            with store.view() as view:
                return sorted(view.ranked_prefixes())
        finally:
            store.close()

    def best(client: Clickcurve) -> list[tuple[str, int]]:
        client.http.headers["Authorization"] = f"Bearer {secret}"
        answer = client.http.get("/v1/links", params={"limit": 1_000, "last": "7d"}).raise_for_status().json()
        return [(each["key"], each["count"]) for each in answer["links"]]

    expected = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:1_000]
    with RunningServer(data) as server, Clickcurve(server.url) as client:
        client.http.headers["Authorization"] = f"Bearer {secret}"
        client.send([{"key": key, "count": count} for key, count in counts.items()])
        assert best(client) == expected
        assert ranked_prefixes() == [""]
    with RunningServer(data) as server, Clickcurve(server.url) as client:
        wait_until(lambda: ranked_prefixes() == ["", "acme/"])
        assert best(client) == expected
