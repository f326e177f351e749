"""Addresses that show one link: only that one, only until their day, only as long as they are not revoked."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from clickcurve.buckets.errors import SettingInvalid
from server.http.shares import MAX_SHARES, SHARE, Share, Shares
from server.tokens.token import Scope
from storage.contract import Store
from storage.from_uri import open_store
from storage.memory_store import MemoryStore
from testing.client import http_client
from testing.server import RunningServer
from testing.tokens import add_token
from tests.dashboard.page.conftest import EVIL
from tests.server.commands import ask, said

NOW = 1_793_000_000  # 2026-10-26
DAY_S = 86_400


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, str]]:
    """A server that asks for tokens, with hits of two links; and a token that may do everything."""
    data = tmp_path_factory.mktemp("shared") / "data"
    data.mkdir()
    token = add_token(data / "tokens.json", "all", (Scope.admin,), 0)
    with RunningServer(data) as server:
        with http_client(server.url) as http:
            hits = [{"key": key, "count": 7} for key in ("launch", "secret", EVIL)]
            http.post("/v1/hits", json=hits, headers={"Authorization": f"Bearer {token}"}).raise_for_status()
        yield server, token


def shared(server: RunningServer, *arguments: str) -> str:
    return said("share", *arguments, "--data", str(server.data), "--url", server.url).strip()


def status(address: str) -> int:
    return httpx.get(address, trust_env=False).status_code


def test_nothing_is_shared_where_no_server_keeps_its_database(tmp_path: Path) -> None:
    """A database made on the spot signs addresses that no server knows."""
    data = tmp_path / "data"
    for words in (["launch"], ["list"], ["revoke", "1f2e3d4c5b6a"]):
        assert "name a server's data folder by --data" in said("share", *words, "--data", str(data), code=3)
    assert not data.exists()


def test_a_shared_link_is_a_page_for_anybody(guarded: tuple[RunningServer, str]) -> None:
    server, _ = guarded
    address = shared(server, "launch", "--days", "30")
    assert re.fullmatch(rf"{server.url}/share/[0-9a-f]{{12}}\.\d{{8}}\.[\w-]{{32}}", address)
    page = httpx.get(f"{address}?last=24h&tz=Asia/Tokyo", trust_env=False)
    assert page.status_code == 200 and "<bdi>launch</bdi>" in page.text and "7 hits" in page.text
    assert "secret" not in page.text and "System" not in page.text and "/v1/" not in page.text
    assert page.headers["referrer-policy"] == "same-origin" and page.headers["cache-control"] == "no-store"
    for path in ("/", "/links/launch", "/v1/links/launch", "/v1/links/launch/curve.svg"):
        assert status(server.url + path) in (303, 401), "nothing else is open"


def test_a_shared_link_has_a_picture_and_a_badge_to_put_elsewhere(guarded: tuple[RunningServer, str]) -> None:
    """Where tokens are in use nobody else could see them; a page of another site may show these."""
    server, _ = guarded
    address = shared(server, "launch")
    curve = httpx.get(f"{address}/curve.svg?last=7d&w=400&theme=dark", trust_env=False)
    assert curve.headers["content-type"] == "image/svg+xml" and 'aria-label="launch: 7 hits' in curve.text
    assert 'width="400"' in curve.text
    badge = httpx.get(f"{address}/badge.svg?label=visits", trust_env=False)
    assert badge.status_code == 200 and 'aria-label="visits: 7"' in badge.text
    assert status(f"{address}/curve.svg?w=1") == status(f"{address}/badge.svg?x=1") == 422
    assert status(f"{address[:-1]}/curve.svg") == status(f"{address[:-1]}/badge.svg") == 404
    assert status(f"{address}/curve.png") == 404


def test_an_address_that_was_changed_shows_nothing(guarded: tuple[RunningServer, str]) -> None:
    server, _ = guarded
    address, other = shared(server, "launch"), shared(server, "secret")
    base, _, signed = address.rpartition("/")
    (an_id, day, signature), (other_id, _, other_signature) = signed.split("."), other.rpartition("/")[2].split(".")
    later = f"{int(day) + 10000}"
    tampered = [
        f"{an_id}.{later}.{signature}", f"{an_id}.{day}.{other_signature}", f"{other_id}.{day}.{signature}",
        f"{an_id}.{day}.{signature[:-1]}", f"{an_id}.{day}.{signature}x", f"{an_id}.{day}.", f"{an_id}.{day}", an_id,
        f"{an_id}.{day}.{signature.swapcase()}", "%2E", quote(signed + "\u2603"), f"{an_id.upper()}.{day}.{signature}",
        "%00", "%FF", ".".join([signed, "x"]), f"{signed}%20",
    ]  # fmt: skip
    assert {status(f"{base}/{text}") for text in tampered} == {404}
    assert status(f"{address}/") == 401 or status(f"{address}/") == 404
    assert status(address) == 200


def test_a_page_of_a_share_reads_and_refuses_as_any_page(guarded: tuple[RunningServer, str]) -> None:
    server, token = guarded
    address = shared(server, "launch")
    assert status(f"{address}?last=never") == 422
    assert httpx.post(address, trust_env=False).status_code == 401
    assert httpx.post(address, headers={"Authorization": f"Bearer {token}"}, trust_env=False).status_code == 405
    assert "<img" not in httpx.get(shared(server, EVIL), trust_env=False).text


def test_a_share_is_listed_and_revoked_while_the_server_runs(guarded: tuple[RunningServer, str]) -> None:
    server, _ = guarded
    address = shared(server, "launch", "--days", "1")
    share_id = address.rpartition("/")[2].partition(".")[0]
    data = ("--data", str(server.data))
    assert re.search(rf"^{share_id}  \d{{8}}  clicks  link   launch$", said("share", "list", *data), re.MULTILINE)
    assert said("share", "revoke", share_id, *data) == f"revoked {share_id}\n"
    assert status(address) == 404
    assert "nothing is shared as" in ask("share", "revoke", share_id, *data).output


def test_the_command_takes_any_key_and_says_what_is_wrong(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path))
    open_store(f"sqlite:///{tmp_path}/clickcurve.db").close()
    for arguments in (("create", "list"), ("a/b c",), ("create", *data, "--", "--x")):
        assert "/share/" in said("share", *arguments, *(() if "--" in arguments else data))
    assert "/share/" in said("share", "--group", "spring", "--days", "3", *data)
    listed = [line.split(maxsplit=3)[3] for line in said("share", "list", *data).splitlines()]
    assert sorted(listed) == ["group  spring", "link   --x", "link   a/b c", "link   list"]
    for wrong in (("k", "--days", "0"), ("k", "--days", "99999"), ("",), ("k" * 1025,), ("--group", "g" * 65)):
        assert ask("share", *wrong, *data).exit_code != 0
    assert '"name":"json"' in said("share", "json", "--json", *data)
    assert "clickcurve share" in said("share", "--help")


# --- in the store -----------------------------------------------------------------------------------------------------
def good(store: Store, signed: str, now: int = NOW) -> tuple[str, str] | None:
    share = asyncio.run(Shares(store).shared(signed, now))
    return None if share is None else (share.kind, share.name)


def test_it_is_good_through_its_last_day_and_no_longer() -> None:
    store = MemoryStore()
    signed = Shares(store).add("link", "launch", 2, NOW)
    ends = NOW - NOW % DAY_S + 3 * DAY_S
    assert good(store, signed) == good(store, signed, ends - 1) == ("link", "launch")
    assert good(store, signed, ends) is None


def test_links_and_groups_of_one_name_are_two_things() -> None:
    store = MemoryStore()
    signed = {kind: Shares(store).add(kind, "a", 1, NOW) for kind in ("link", "group")}
    assert {kind: good(store, text) for kind, text in signed.items()} == {
        "link": ("link", "a"),
        "group": ("group", "a"),
    }


def test_a_secret_of_another_store_signs_nothing_here() -> None:
    share = Share("00", "link", "launch", "20991231", NOW)
    assert share.signed_by("11" * 32) != share.signed_by("22" * 32)
    ours, theirs = MemoryStore(), MemoryStore()
    Shares(ours).add("link", "k", 1, NOW)
    signed = Shares(theirs).add("link", "k", 1, NOW)
    (foreign,) = (share for share in Shares(theirs).all())
    ours.note(f"{SHARE}{foreign.id}", theirs.notes()[f"{SHARE}{foreign.id}"])
    assert good(theirs, signed) and good(ours, signed) is None


def test_ended_shares_are_dropped_when_one_is_made() -> None:
    store = MemoryStore()
    Shares(store).add("link", "old", 1, NOW)
    Shares(store).add("link", "new", 1, NOW + 9 * DAY_S)
    assert [share.name for share in Shares(store).all()] == ["new"]


@pytest.mark.parametrize("text", ["", "{}", '{"id":"00"}', "[1]"])
def test_a_note_that_cannot_be_read_shares_nothing(text: str) -> None:
    store = MemoryStore()
    signed = Shares(store).add("link", "launch", 1, NOW)
    name = SHARE + signed.partition(".")[0]
    store.drop_notes([name])
    store.note(name, text)
    assert good(store, signed) is None
    assert Shares(store).all() == []


def test_there_is_an_end_to_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.http.shares.MAX_SHARES", 2)
    assert MAX_SHARES == 1_000
    store = MemoryStore()
    for name in ("a", "b"):
        Shares(store).add("link", name, 1, NOW)
    with pytest.raises(SettingInvalid, match="2 at most"):
        Shares(store).add("link", "c", 1, NOW)


def test_a_backup_and_a_copy_keep_addresses_good(tmp_path: Path) -> None:
    data, other = tmp_path / "data", tmp_path / "other"
    with RunningServer(data) as server:
        signed = shared(server, "launch").rpartition("/")[2]
        said("backup", str(tmp_path / "backup.db"), "--data", str(data))
    other.mkdir()
    said("copy", "--from", f"sqlite:///{data}/clickcurve.db", "--to", f"sqlite:///{other}/clickcurve.db")
    for path in (tmp_path / "backup.db", other / "clickcurve.db"):
        store = open_store(f"sqlite:///{path}", read_only=True)
        assert good(store, signed, int(time.time())) == ("link", "launch")
        store.close()


def test_a_store_in_memory_shares_nothing(tmp_path: Path) -> None:
    refused = ask("share", "launch", "--store", "memory://", "--data", str(tmp_path))
    assert refused.exit_code != 0 and "is inside the server only" in refused.output
