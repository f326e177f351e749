"""With `group_by_host` each hit counts in the group of its host, by every way in; a replay counts what was so then."""

from __future__ import annotations

from pathlib import Path

import pytest

from clickcurve.hosts import host_in_key
from testing.client import Clickcurve
from testing.server import run
from tests.conftest import Serve
from tests.ingest.imports.test_access_log import line

ON = ("--hosts", "in_key", "--group-by-host", "on")
BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
HOSTS = ("a.example", "b.example")


def write_by_every_way(client: Clickcurve, host: str) -> None:
    """Eighteen hits of two links of a host."""
    key = f"{host}/launch"
    client.hit(key)  # by path
    client.hit(key, {"Idempotency-Key": f"one {host}".replace(" ", "-")})
    client.send({"key": key})
    client.send({"key": key, "ts": 1_700_000_000})
    client.send({"key": key, "ref": "news.example", "groups": ["spring"]})
    client.send([{"key": f"{host}/other"}, {"key": key, "count": 3}])
    client.send([{"key": key, "ua": BROWSER, "ip": f"203.0.113.{n}"} for n in range(6)])  # read in columns
    client.send([{"key": key, "id": f"id-{host}"}, {"key": key, "id": f"id-{host}"}])
    event = {"name": "pageview", "url": f"https://{host}/launch", "domain": host}
    assert client.http.post("/api/event", json=event, headers={"User-Agent": BROWSER}).status_code == 202


def sums(client: Clickcurve) -> dict[str, int]:
    """The hits of all groups."""
    return {group["key"]: group["count"] for group in client.groups(bots="include")["groups"]}


def test_every_way_in_counts_and_a_kill_and_another_setting_change_nothing(serve: Serve, tmp_path: Path) -> None:
    data = tmp_path / "data"
    server = serve(*ON, data=data)
    (tmp_path / "access.log").write_text(
        "".join(f"{line('GET /launch HTTP/1.1', head=f'{host} 203.0.113.9 - - ')}\n" for host in HOSTS)
    )
    with Clickcurve(server.url) as client:
        for host in HOSTS:
            write_by_every_way(client, host)
        client.hit("no-host")
        client.send({"key": "x" * 65 + "/launch"})  # longer than the name of a group may be
        done = run("import", "--url", server.url, str(tmp_path / "access.log"))
        assert done.returncode == 0, done.stdout + done.stderr
        expected = dict.fromkeys(HOSTS, 18) | {"spring": 2}
        assert sums(client) == expected
        for host in HOSTS:
            links = client.http.get("/v1/links", params={"prefix": f"{host}/", "bots": "include"}).json()["links"]
            assert sum(link["count"] for link in links) == expected[host]
            referrers = client.http.get(f"/v1/groups/{host}/by/ref", params={"last": "2d", "value": "news.example"})
            assert referrers.json()["values"] == [{"value": "news.example", "at_least": 1, "at_most": 1}]
            assert client.http.get(f"/v1/groups/{host}/visitors", params={"last": "2d"}).json()["visitor_days"] >= 6
    server.kill()  # nothing of it was flushed
    again = serve("--hosts", "in_key", data=data)
    with Clickcurve(again.url) as client:
        assert sums(client) == expected, "the journal says what each hit counted in"
        client.hit("a.example/launch")
        assert sums(client) == expected, "the setting is off"
    again.kill()
    with Clickcurve(serve(*ON, data=data).url) as client:
        client.hit("a.example/launch")
        assert sums(client) == expected | {"a.example": 19}


def test_a_token_with_a_prefix_counts_in_both_groups_and_once_where_they_are_one(serve: Serve) -> None:
    admin = "a" * 40
    server = serve(*ON, settings={"CLICKCURVE_ADMIN_TOKEN": admin})
    with Clickcurve(server.url) as client:
        client.http.headers["Authorization"] = f"Bearer {admin}"
        for prefix, group in (("a.example/", "a.example"), ("b.example/acme/", "acme")):
            asked = {"name": group, "scopes": ["write"], "prefix": prefix, "group": group}
            made = client.http.post("/v1/tokens", json=asked)
            assert made.status_code == 201, made.text
            who = {"Authorization": f"Bearer {made.json()['token']}"}
            path = "/v1/hits/" + prefix.replace("/", "%2F") + "x"
            for answer in (
                client.http.post(path, headers=who),
                client.http.post("/v1/hits", json=[{"key": f"{prefix}x"}], headers=who),
            ):
                assert answer.status_code == 200, answer.text
        assert sums(client) == {"a.example": 2, "b.example": 2, "acme": 2}


def test_an_import_into_a_folder_counts_in_groups_too(serve: Serve, tmp_path: Path) -> None:
    data = tmp_path / "data"
    (tmp_path / "access.log").write_text(f"{line('GET /launch HTTP/1.1', head='a.example 203.0.113.9 - - ')}\n")
    log = str(tmp_path / "access.log")
    done = run("import", "--data", str(data), log, CLICKCURVE_HOSTS="in_key", CLICKCURVE_GROUP_BY_HOST="on")
    assert done.returncode == 0, done.stderr
    with Clickcurve(serve(data=data).url) as client:
        assert sums(client) == {"a.example": 1}


def test_an_export_brings_each_group_its_hits_once(serve: Serve, tmp_path: Path) -> None:
    admin = "a" * 40
    server = serve(*ON, settings={"CLICKCURVE_ADMIN_TOKEN": admin}, data=tmp_path / "data")
    with Clickcurve(server.url) as client:
        client.http.headers["Authorization"] = f"Bearer {admin}"
        tokens = {}
        for prefix, group in (("a.example/", "a.example"), ("b.example/acme/", "acme")):
            asked = {"name": group, "scopes": ["write", "read"], "prefix": prefix, "group": group}
            tokens[group] = {"Authorization": f"Bearer {client.http.post('/v1/tokens', json=asked).json()['token']}"}
            hits = [{"key": f"{prefix}x", "count": 3, "ref": "news.example"}]
            client.http.post("/v1/hits", json=hits, headers=tokens[group]).raise_for_status()
        client.send([{"key": "b.example/y", "count": 5}, {"key": "plain", "groups": ["a.example"], "count": 7}])
        client.send({"key": "a.example/gone"})
        client.http.delete("/v1/links/a.example%2Fgone").raise_for_status()
        wanted = {
            "": ({}, {"a.example": 11, "b.example": 8, "acme": 3}),  # as they were, with what was deleted
            "?prefix=b.example/": ({}, {"b.example": 8}),  # without lines of groups
            "?": (tokens["a.example"], {"a.example": 3 + 1 + 7}),
            "?after=": (tokens["acme"], {"acme": 3, "b.example": 3}),
        }
        exports = {query: client.http.get(f"/v1/export{query}", headers=who) for query, (who, _) in wanted.items()}
    server.stop()
    written = run("export", "--data", str(tmp_path / "data"))
    assert written.stdout == exports[""].text
    for number, (query, exported) in enumerate(exports.items()):
        data = tmp_path / f"again-{number}"
        with Clickcurve(serve(*ON, data=data).url) as client:
            ndjson = {"Content-Type": "application/x-ndjson"}
            done = client.http.post("/v1/import/export?from=0&to=1", content=exported.content, headers=ndjson)
            assert done.is_success, done.text
            assert sums(client) == wanted[query][1], query


def test_without_hosts_in_keys_the_start_is_refused(tmp_path: Path) -> None:
    done = run("serve", "--data", str(tmp_path), "--port", "0", "--group-by-host", "on")
    assert done.returncode == 2
    assert "group_by_host needs hosts = in_key" in done.stderr


@pytest.mark.parametrize(
    ("key", "host"),
    [
        ("a.example/x", "a.example"),
        ("a.example:8080/x/y", "a.example:8080"),
        ("go/x", "go"),
        ("launch", ""),
        ("/x", ""),
        ("a.example/", ""),
        ("A.example/x", ""),
        ("a.example:443/x", ""),
        ("a b/x", ""),
    ],
)
def test_which_host_a_key_begins_with(key: str, host: str) -> None:
    assert host_in_key(key) == host
