"""Other products' senders at a real server: what they are answered, with and without tokens, and what counts."""

from __future__ import annotations

import gzip
import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.settings.values import DOORS
from server.tokens.token import Scope
from testing.client import Clickcurve, http_client
from testing.server import RunningServer
from testing.tokens import add_token

URL = "https://s.test/abc"
UMAMI = {"type": "event", "payload": {"website": "w", "hostname": "s.test", "url": "/abc"}}
PAGE = {"type": "page", "messageId": "m1", "properties": {"url": URL}}
SECRET = "whsec"


def signed(body: bytes, secret: str = SECRET) -> dict[str, str]:
    return {"Dub-Signature": hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}


def dub(key: str, id_: str) -> bytes:
    return json.dumps({"event": "link.clicked", "data": {"link": {"key": key}, "click": {"id": id_}}}).encode()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with RunningServer(
        tmp_path_factory.mktemp("doors") / "data", settings={"CLICKCURVE_DUB_SECRET": SECRET}
    ) as running:
        yield running


@pytest.fixture
def http(server: RunningServer) -> Iterator[httpx.Client]:
    with http_client(server.url) as client:
        yield client


@pytest.fixture
def counts(server: RunningServer) -> Iterator[Any]:
    """How many hits of people and bots were counted since the test began."""
    with Clickcurve(server.url) as client:
        before = client.total(bots="include")["total"]
        yield lambda: client.total(bots="include")["total"] - before


def test_matomo_by_query_by_form_by_both_and_in_bulk(http: httpx.Client, counts: Any) -> None:
    image = http.get("/matomo.php", params={"idsite": 1, "rec": 1, "url": URL})
    assert (image.status_code, image.headers["content-type"], image.content[:3]) == (200, "image/gif", b"GIF")
    assert http.post("/matomo.php", data={"url": URL, "rec": "1", "send_image": "0"}).status_code == 204
    assert http.post("/matomo.php?rec=1", params={"url": URL}, data={"token_auth": "x"}).status_code == 200
    bulk = {
        "requests": [f"?idsite=1&url={URL}", {"url": URL}, "?idsite=1&ping=1", 7, {"url": URL, "cdt": "nonsense"}],
        "token_auth": "x",
    }
    assert http.post("/matomo.php", json=bulk).json() == {"status": "success", "tracked": 2, "invalid": 2}
    assert http.post("/matomo.php", data={"url": URL, "cdt": "nonsense"}).status_code == 400
    assert counts() == 5


def test_umami_alone_and_in_a_batch(http: httpx.Client, counts: Any) -> None:
    assert http.post("/api/send", json=UMAMI).json().keys() == {"cache", "sessionId", "visitId"}
    assert http.post("/api/send", json={"type": "identify", "payload": {"website": "w"}}).status_code == 200
    answer = http.post("/api/batch", json=[UMAMI, UMAMI, 7]).json()
    assert (answer["size"], answer["processed"], answer["errors"]) == (3, 2, 1)
    assert counts() == 3


def test_goatcounter_says_which_page_views_are_wrong(http: httpx.Client, counts: Any) -> None:
    good = http.post("/api/v0/count", json={"no_sessions": True, "hits": [{"path": "/one"}, {"path": "/two"}]})
    assert good.status_code == 202
    bad = http.post("/api/v0/count", json={"hits": [{"path": "/one"}, {"path": "/one", "created_at": "yesterday"}]})
    assert bad.status_code == 400 and bad.json()["errors"].keys() == {"1"}
    assert counts() == 3


def test_posthog_alone_and_in_a_packed_batch(http: httpx.Client, counts: Any) -> None:
    view = {"event": "$pageview", "distinct_id": "u", "properties": {"$current_url": URL}}
    assert http.post("/i/v0/e/", json={"api_key": "phc", **view}).json() == {"status": "Ok"}
    body = gzip.compress(
        json.dumps({"api_key": "phc", "batch": [view, {"event": "other"}, {**view, "uuid": "1"}]}).encode()
    )
    for _ in range(2):
        assert http.post("/batch/", content=body, headers={"Content-Encoding": "gzip"}).status_code == 200
    assert counts() == 4, "the view with a uuid counts once"


def test_segment_counts_each_message_once(http: httpx.Client, counts: Any) -> None:
    for path, body in (
        ("batch", {"batch": [PAGE, {"type": "track", "event": "x"}]}),
        ("page", PAGE),
        ("track", {"event": "y"}),
    ):
        assert http.post(f"/v1/from/segment/v1/{path}", json=body).json() == {"success": True}
    assert counts() == 1
    assert http.post("/v1/from/segment/v1/import", json={}).status_code == 404


def test_dub_is_believed_by_its_signature(http: httpx.Client, counts: Any) -> None:
    body = dub("launch", "c1")
    for _ in range(2):
        assert http.post("/v1/from/dub", content=body, headers=signed(body)).status_code == 200
    assert http.post("/v1/from/dub", content=body, headers=signed(body, "other")).status_code == 401
    assert http.post("/v1/from/dub", content=body).status_code == 401
    assert counts() == 1


@pytest.mark.parametrize(
    "path",
    [
        "/matomo.php",
        "/api/send",
        "/api/batch",
        "/api/event",
        "/api/v0/count",
        "/i/v0/e/",
        "/batch/",
        "/v1/from/segment/v1/batch",
    ],
)
def test_what_cannot_be_read_is_refused_and_never_a_500(http: httpx.Client, counts: Any, path: str) -> None:
    for body in (b"{", b"null", b"7", b'{"requests": 7, "hits": 7, "batch": 7}', b"[" * 5_000, b"\xff", b"{}" * 2, b""):
        assert http.post(path, content=body).status_code < 500
    assert http.post(path, content=b"x" * (2 << 20)).status_code == 413
    assert (
        http.post(path, content=gzip.compress(b" " * (8 << 20)), headers={"Content-Encoding": "gzip"}).status_code
        == 413
    )
    assert http.post(path, content=b"x", headers={"Content-Encoding": "gzip"}).status_code == 400
    assert http.post(path, content=b"x", headers={"Content-Encoding": "br"}).status_code == 415
    assert counts() == 0


def test_a_page_of_another_site_writes_nothing_without_tokens(http: httpx.Client, counts: Any) -> None:
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert http.get("/matomo.php", params={"url": URL}, headers=headers).status_code == 403
        assert http.post("/api/send", json=UMAMI, headers=headers).status_code == 403
    assert counts() == 0


def test_tokens_where_each_sender_can_show_them(tmp_path: Path) -> None:
    file = tmp_path / "data" / "tokens.json"
    acme = add_token(file, "acme", (Scope.write,), prefix="acme/")
    wide = add_token(file, "wide", (Scope.write, Scope.read))
    admin = add_token(file, "admin", (Scope.admin,))
    url = "https://s.test/acme/a"
    umami = {"type": "event", "payload": {"website": acme, "url": "/acme/a"}}
    page = {"type": "page", "properties": {"url": url}}
    plausible = {"n": "pageview", "u": url, "d": "s.test"}
    view = {"event": "$pageview", "properties": {"$current_url": url}}
    with RunningServer(tmp_path / "data") as server, http_client(server.url) as http:
        asks: list[tuple[int, httpx.Response]] = [
            (200, http.post("/matomo.php", data={"url": url, "token_auth": acme})),
            (200, http.get("/matomo.php", params={"url": url, "token_auth": acme})),
            (200, http.post("/matomo.php", json={"requests": [{"url": url}], "token_auth": acme})),
            (200, http.post("/api/send", json=umami)),
            (200, http.post(f"/api/send/{acme}", json={**umami, "payload": {"url": "/acme/a"}})),
            (200, http.post(f"/api/batch/{acme}", json=[{**umami, "payload": {"url": "/acme/a"}}])),
            (202, http.post(f"/api/event/{acme}", content=json.dumps(plausible))),
            (202, http.post("/api/event", json=plausible, headers={"Authorization": f"Bearer {acme}"})),
            (200, http.post("/i/v0/e/", json={"api_key": acme, **view})),
            (200, http.post("/i/v0/e/", json={"token": acme, **view})),
            (200, http.post("/v1/from/segment/v1/page", json={**page, "writeKey": acme})),
            (
                202,
                http.post(
                    "/api/v0/count", json={"hits": [{"path": "/acme/a"}]}, headers={"Authorization": f"Bearer {acme}"}
                ),
            ),
            (202, http.post("/api/v0/count", json={"hits": [{"path": "/acme/a"}]}, auth=("", acme))),
            (200, http.post("/batch/", json={"api_key": acme, "batch": [view]})),
            (200, http.post("/v1/from/segment/v1/page", json=page, auth=(acme, ""))),
        ]
        assert [answer.status_code for _, answer in asks] == [status for status, _ in asks]
        refused = [
            (401, http.post("/matomo.php", data={"url": url})),
            (401, http.post("/api/send", json={**umami, "payload": {"website": "w", "url": "/acme/a"}})),
            (403, http.post("/api/send", json={**umami, "payload": {"website": wide, "url": "/acme/a"}})),
            (401, http.post("/v1/from/segment/v1/page", json=page)),
            (401, http.post("/v1/from/segment/v1/page", json={**page, "writeKey": "w"})),
            (401, http.post("/api/v0/count", json={"hits": [{"path": "/acme/a"}]})),
            (403, http.post("/batch/", json={"api_key": wide, "batch": [view]})),
            (401, http.post("/api/event", json=plausible)),
            (401, http.post(f"/api/event/{acme}x", json=plausible)),
            (403, http.post(f"/api/event/{wide}", json=plausible)),
            (403, http.post(f"/api/send/{wide}", json=umami)),
            (403, http.post("/matomo.php", data={"url": url, "token_auth": wide})),
            (400, http.post(f"/api/event/{acme}", json={**plausible, "u": "https://s.test/beta/b"})),
            (404, http.post("/v1/from/dub", content=b"{}")),
        ]
        assert [answer.status_code for _, answer in refused] == [status for status, _ in refused]
        other = http.post("/matomo.php", json={"requests": [{"url": "https://s.test/beta/b"}], "token_auth": acme})
        assert other.json() == {"status": "success", "tracked": 0, "invalid": 1}
        http.headers["Authorization"] = f"Bearer {admin}"
        assert http.get("/v1/total?bots=include").json()["total"] == len(asks)
        assert http.get("/v1/groups/acme/total?bots=include").json()["total"] == len(asks)


def test_the_limit_of_writes_holds_at_each_door(tmp_path: Path) -> None:
    file = tmp_path / "data" / "tokens.json"
    acme = add_token(file, "acme", (Scope.write,), prefix="acme/")
    settings = tmp_path / "settings.toml"
    settings.write_text('[limits.write]\nby = ["token"]\nrates = "2/d"\n')
    with RunningServer(tmp_path / "data", "--config", str(settings)) as server, http_client(server.url) as http:
        asked = [http.post("/matomo.php", data={"url": "https://s.test/acme/a", "token_auth": acme}) for _ in range(2)]
        asked.append(http.get("/matomo.php", params={"url": "https://s.test/acme/a", "token_auth": acme}))
        asked.append(http.post("/api/send", json={"type": "event", "payload": {"website": acme, "url": "/acme/a"}}))
    assert [answer.status_code for answer in asked] == [200, 200, 429, 429]


def test_a_door_that_is_off_is_not_there(tmp_path: Path) -> None:
    settings = {"CLICKCURVE_DOORS": "umami"}
    with RunningServer(tmp_path / "data", settings=settings) as server, http_client(server.url) as http:
        assert http.post("/api/send", json=UMAMI).status_code == 200
        for path in (
            "/matomo.php",
            "/api/event",
            "/api/event/x",
            "/api/v0/count",
            "/i/v0/e/",
            "/batch/",
            "/v1/from/segment/v1/batch",
            "/v1/from/dub",
            "/v1/logs/web1",
            "/v1/logs",
        ):
            answer = http.post(path, content=b"{}")
            assert answer.status_code == 404 and answer.json()["field"] == "doors", path


def test_of_the_pages_of_a_proxy_only_links_count(tmp_path: Path) -> None:
    settings = {"CLICKCURVE_DOORS_KEYS": "go/*, r/?"}
    with RunningServer(tmp_path / "data", settings=settings) as server, http_client(server.url) as http:
        pages = ["/go/a", "/go/a/b", "/r/1", "/r/12", "/about", "/GO/a", "/xgo/a"]
        batch = [{"type": "event", "payload": {"hostname": "s.test", "url": page}} for page in pages]
        answer = http.post("/api/batch", json=batch).json()
        assert (answer["processed"], answer["errors"]) == (7, 0)
        for page in ("/about", "/go/a"):
            event = {"n": "pageview", "u": f"https://s.test{page}", "d": "s.test"}
            assert http.post("/api/event", json=event).status_code == 202
        listed = http.get("/v1/links?bots=include").json()["links"]
        assert {each["key"]: each["count"] for each in listed} == {"go/a": 2, "go/a/b": 1, "r/1": 1}
        with Clickcurve(server.url) as client:
            ignored = {name: n for name, n in client.metrics().items() if 'reason="key"' in name}
        assert sorted(ignored.values()) == [1, 4]


def test_every_door_has_a_name_in_the_settings() -> None:
    products = {"matomo", "umami", "plausible", "goatcounter", "posthog", "segment", "dub"}
    assert set(DOORS) == products | {"logs"}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/matomo.php", "requests"),
        ("/api/send", ""),
        ("/api/batch", ""),
        ("/api/v0/count", "hits"),
        ("/batch/", "batch"),
        ("/v1/from/segment/v1/batch", "batch"),
    ],
)
def test_too_many_events_are_refused_as_one(http: httpx.Client, counts: Any, path: str, name: str) -> None:
    events = [0] * 1_001
    answer = http.post(path, json={name: events} if name else events)
    assert (answer.status_code, "1,001 events" in answer.text) == (413, True)
    assert counts() == 0
