"""The examples for proxies and senders of logs: Caddy and nginx for real, others by syntax and what they send."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
import pytest
import yaml

from server.tokens.token import Scope
from testing.client import Clickcurve, http_client
from testing.program import running
from testing.server import ROOT, RunningServer, free_port, run
from testing.tokens import add_token
from tests.conftest import Serve
from tests.ingest.imports.logs.kit import AGENT, TRAEFIK_JSON
from tests.server.compat.test_log_lines import line
from tests.server.conftest import wait_until

EXAMPLES = ROOT / "examples"
BROWSER = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"}
BOT = {"User-Agent": "Mozilla/5.0 (compatible; Googlebot/2.1)"}
# As Nginx Proxy Manager has it in conf.d/include/log-proxy.conf.
PROXY_FORMAT = (
    "log_format proxy '[$time_local] $upstream_cache_status $upstream_status $status - $request_method $scheme $host "
    '"$request_uri" [Client $remote_addr] [Length $body_bytes_sent] [Gzip $gzip_ratio] [Sent-to $server] '
    '"$http_user_agent" "$http_referer"\';'
)
PROXY_HOST = """
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {format}
    server {{
        set $server "shortener";
        listen 127.0.0.1:{port};
        access_log {folder}/proxy-host-1_access.log proxy;
        location / {{ return 302 https://example.org/; }}
        include {folder}/server_proxy[.]conf;
    }}
}}
"""


def text_of(example: str, **values: str) -> str:
    """A file of an example with other texts for some of its own, which it must hold."""
    text = (EXAMPLES / example).read_text()
    for old, new in values.items():
        assert old in text
        text = text.replace(old, new)
    return text


def yaml_of(example: str) -> Any:
    return yaml.safe_load((EXAMPLES / example).read_text())


@contextmanager
def shortener(command: list[str], folder: Path, port: int) -> Iterator[Callable[..., None]]:
    """Runs a program that answers short links; gives what visits one."""
    with (
        running(command, folder / "out", {"HOME": str(folder), "XDG_DATA_HOME": str(folder)}) as program,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as browser,
    ):

        def answers() -> bool:
            try:
                return browser.get("/", headers=BOT).status_code < 500
            except httpx.TransportError:
                return False

        def visit(path: str, times: int, headers: dict[str, str]) -> None:
            for _ in range(times):
                assert browser.get(path, headers=headers).status_code in (301, 302)

        program.until(answers)
        yield visit


def with_syslog(serve: Serve) -> tuple[RunningServer, str]:
    """Starts a server that takes lines by syslog; returns it with that address."""
    address = f"127.0.0.1:{free_port()}"
    return serve("--syslog", address), address


@pytest.mark.needs("caddy")
def test_caddy_sends_its_log_over_tcp(serve: Serve, tmp_path: Path) -> None:
    server, address = with_syslog(serve)
    port = free_port()
    config = tmp_path / "Caddyfile"
    config.write_text(text_of("caddy/Caddyfile", **{"127.0.0.1:9005": f"127.0.0.1:{port}", "127.0.0.1:5140": address}))
    command = [shutil.which("caddy") or "caddy", "run", "--config", str(config), "--adapter", "caddyfile"]
    with shortener(command, tmp_path, port) as visit, Clickcurve(server.url) as client:
        visit("/launch", 5, {**BROWSER, "Referer": "https://news.example/"})
        visit("/docs?utm_source=mail", 2, BROWSER)
        visit("/launch", 3, BOT)
        wait_until(lambda: client.lifetimes(["launch", "docs"]) == {"launch": 5, "docs": 2})
        wait_until(lambda: bool(client.total("launch", bots="only")["total"] == 3))
        by = client.http.get("/v1/links/launch/by/ref").json()["values"]
        assert [(value["value"], value["at_least"]) for value in by] == [("news.example", 5)]


@pytest.mark.needs("nginx")
def test_nginx_sends_the_format_of_nginx_proxy_manager(serve: Serve, tmp_path: Path) -> None:
    server, address = with_syslog(serve)
    port = free_port()
    (tmp_path / "server_proxy.conf").write_text(
        text_of("nginx-proxy-manager/server_proxy.conf", **{"127.0.0.1:5140": address})
    )
    (tmp_path / "nginx.conf").write_text(PROXY_HOST.format(folder=tmp_path, port=port, format=PROXY_FORMAT))
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin") or "nginx"
    user = "" if os.geteuid() else "user root;"
    command = [nginx, "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"), "-g", f"daemon off; {user}"]
    with shortener(command, tmp_path, port) as visit, Clickcurve(server.url) as client:
        visit("/launch", 6, {**BROWSER, "Referer": "https://news.example/"})
        visit("/launch", 1, BOT)
        wait_until(lambda: bool(client.total("launch", bots="include")["total"] == 7))
        assert client.total("launch")["total"] == 6
        own = tmp_path / "proxy-host-1_access.log"
        assert own.read_text().count("/launch") == 7, "the host's own log stays"
        assert "counted 7" in run("import", str(own), "--url", server.url).stdout, "an import reads the same format"


LINES = [line("/launch"), line("/launch"), line("/none", 404), line("/docs")]


@pytest.mark.parametrize(
    ("sink", "body"),
    [
        # Vector's codec text: messages as they are, with newlines between them; here without a last one.
        ("vector", "\n".join(LINES)),
        # Fluent Bit's json_lines: an object for each record, with a newline behind each.
        ("fluent-bit", "".join(json.dumps({"log": each}) + "\n" for each in LINES)),
    ],
)
def test_what_a_shipper_of_logs_sends_counts_once(serve: Serve, sink: str, body: str) -> None:
    if sink == "vector":
        settings = yaml_of("vector/vector.yaml")["sinks"]["clickcurve"]
        assert (settings["encoding"]["codec"], settings["framing"]["method"]) == ("text", "newline_delimited")
        assert settings["inputs"] == list(yaml_of("vector/vector.yaml")["sources"])
        path, packed = settings["uri"].partition("8080")[2], settings["compression"]
    else:
        settings = yaml_of("vector/fluent-bit.yaml")["pipeline"]["outputs"][0]
        assert (settings["format"], settings["json_date_key"]) == ("json_lines", False)
        path, packed = settings["uri"], settings["compress"]
    assert packed == "gzip"
    server = serve()
    sent = gzip.compress(body.encode(), mtime=0)
    with http_client(server.url) as http:
        for counted in (3, 0):
            receipt = http.post(path, content=sent, headers={"Content-Encoding": packed}).json()
            assert (receipt["counted"], receipt["refused"]) == (counted, 0)
            assert receipt["skipped_because"] == {"status 404": 1}
        assert http.get("/v1/total").json()["total"] == 3


def test_hits_of_a_queue_count_once(serve: Serve) -> None:
    """What Vector's sink sends of messages of Kafka: an array, each with what its source adds."""
    config = yaml_of("vector/kafka.yaml")
    sink, source = config["sinks"]["clickcurve"], config["sources"]["hits"]
    assert sink["inputs"] == ["hits"] and source["type"] == "kafka" and source["decoding"] == {"codec": "json"}
    assert sink["encoding"] == {"codec": "json"} and "framing" not in sink
    added = {"topic": "clicks", "partition": 0, "message_key": None, "headers": {}, "source_type": "kafka"}
    added["timestamp"] = "2026-01-01T12:00:03.000Z"
    hits = [{"key": key, "id": f"m{n}", "offset": n, **added} for n, key in enumerate(["launch", "launch", "docs"])]
    packed = gzip.compress(json.dumps(hits).encode())
    path = urlsplit(sink["uri"]).path
    headers = {"Content-Type": "application/json", "Content-Encoding": sink["compression"]}
    with http_client(serve().url) as http:
        for counted in (3, 0):
            receipt = http.post(path, content=packed, headers=headers).json()
            assert (receipt["counted"], receipt["duplicate"], receipt["refused"]) == (counted, 3 - counted, 0)
        assert http.get("/v1/links/launch/total").json()["total"] == 2


def test_traefik_keeps_the_header_fields_that_its_lines_are_read_with(serve: Serve, tmp_path: Path) -> None:
    log = yaml_of("traefik/traefik.yaml")["accessLog"]
    assert log["format"] == "json"
    kept = {name: field for name, how in log["fields"]["headers"]["names"].items() if (field := how) == "keep"}
    assert kept.keys() == {"User-Agent", "Referer"}
    assert yaml_of("traefik/traefik.yaml")["providers"]["file"]["filename"].endswith("/links.yaml")
    routed = yaml_of("traefik/links.yaml")["http"]
    assert {router["service"] for router in routed["routers"].values()} == routed["services"].keys()
    written = tmp_path / "access.log"
    lines = [TRAEFIK_JSON | {"request_User-Agent": AGENT, "request_Referer": "https://news.example/a"}] * 3
    written.write_text("".join(json.dumps(each) + "\n" for each in lines))
    server = serve()
    assert "counted 3" in run("import", str(written), "--url", server.url).stdout
    with Clickcurve(server.url) as client:
        by = client.http.get("/v1/links/launch/by/ref").json()["values"]
    assert [value["value"] for value in by] == ["news.example"]


def test_shlink_reports_its_visits_by_its_settings(tmp_path: Path) -> None:
    """What Shlink's Matomo tracker sends: everything in a form, the visitor's agent in the request's header."""
    pairs = [each.partition("=") for each in text_of("shlink/shlink.env").splitlines() if each[:1] not in ("", "#")]
    settings = {name: value for name, _, value in pairs}
    assert settings["MATOMO_ENABLED"] == "true" and urlsplit(settings["MATOMO_BASE_URL"]).path == ""
    token = add_token(tmp_path / "data" / "tokens.json", "shlink", (Scope.write,))
    admin = add_token(tmp_path / "data" / "tokens.json", "admin", (Scope.admin,))
    visit = {
        "idsite": settings["MATOMO_SITE_ID"],
        "rec": "1",
        "apiv": "1",
        "r": "123456",
        "cip": "203.0.113.7",
        "_id": "0123456789abcdef",
        "url": "https://s.example/launch",
        "urlref": "https://news.example/",
        "country": "Austria",
        "type": "valid_short_url",
        "action_name": "A title",
        "token_auth": token,
    }
    headers = {**BROWSER, "Content-Type": "application/x-www-form-urlencoded"}
    with RunningServer(tmp_path / "data") as server, http_client(server.url) as http:
        for sent in (visit, visit | {"type": "base_url", "orphan": "true", "url": "https://s.example/"}):
            assert http.post("/matomo.php", content=urlencode(sent), headers=headers).is_success
        wrong = visit | {"token_auth": settings["MATOMO_API_TOKEN"]}
        assert http.post("/matomo.php", content=urlencode(wrong), headers=headers).status_code == 401
        http.headers["Authorization"] = f"Bearer {admin}"
        assert http.get("/v1/links/launch/total").json()["total"] == 1
        assert http.get("/v1/total?bots=include").json()["total"] == 1
