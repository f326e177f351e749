"""The senders themselves, as their makers publish them: what they send by their settings alone, and what counts of it.

They come from PyPI and the npm registry, each at the version that is written here.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from testing.client import Clickcurve, http_client
from testing.server import RunningServer
from tests.conftest import Serve
from tests.install.environments import Environment

pytestmark = pytest.mark.needs("network", "npm")

PYTHON = ("posthog==7.91.1", "segment-analytics-python==2.4.0", "rudder-sdk-python==2.1.9", "asgi-matomo==0.8.0")
NODE = (
    "@umami/node@0.4.0",
    "matomo-tracker@2.2.4",
    "@segment/analytics-node@3.1.0",
    "posthog-node@5.70.0",
    "@rudderstack/rudder-sdk-node@3.0.13",
)
WITHIN_S = 600.0
BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"

POSTHOG = """
from posthog import Posthog
posthog = Posthog("phc_x", host=BASE, flush_at=2)
page = {"$current_url": "https://s.test/posthog?utm_source=news", "$referrer": "https://a.example/", "$ip": "192.0.2.5"}
posthog.capture("$pageview", distinct_id="u", properties=page)
posthog.capture("signed up", distinct_id="u")
posthog.shutdown()
"""
SEGMENT = """
import segment.analytics as analytics
analytics.write_key, analytics.host, analytics.gzip = "key", BASE + "/v1/from/segment", GZIP
context = {"ip": "192.0.2.6", "campaign": {"name": "spring"}}
analytics.page("user", "category", "Home", {"url": "https://s.test/segment"}, context)
analytics.track("user", "Order Completed", {"revenue": 3})
analytics.shutdown()
"""
RUDDER = """
import rudderstack.analytics as analytics
analytics.write_key, analytics.dataPlaneUrl = "key", BASE + "/v1/from/segment"
analytics.page("user", "category", "Home", {"url": "https://s.test/rudder"}, {"ip": "192.0.2.7"})
analytics.shutdown()
"""
ASGI_MATOMO = """
import asyncio, httpx2
from asgi_matomo import MatomoMiddleware
async def redirects(scope, receive, send):
    await send({"type": "http.response.start", "status": 302, "headers": [(b"location", b"https://a.example/")]})
    await send({"type": "http.response.body", "body": b""})
async def visited():
    tracked = MatomoMiddleware(redirects, matomo_url=BASE + "/matomo.php", idsite=7, access_token="token")
    headers = {"User-Agent": AGENT, "Referer": "https://news.example/", "X-Forwarded-For": "192.0.2.9"}
    transport = httpx2.ASGITransport(app=tracked)
    async with httpx2.AsyncClient(transport=transport, base_url="https://s.test", headers=headers) as browser:
        assert (await browser.get("/asgi?utm_source=mail")).status_code == 302
    await tracked.shutdown()
asyncio.run(visited())
"""
# Each sends one page view, and again what was answered 503.
AGAIN_IN_PYTHON = {
    "posthog": """
from posthog import Posthog
posthog = Posthog("phc_x", host=BASE, flush_at=1)
posthog.capture("$pageview", distinct_id="u", properties={"$current_url": "https://s.test/again"})
posthog.flush()
posthog.shutdown()
""",
    "segment": """
import segment.analytics as analytics
analytics.write_key, analytics.host = "key", BASE + "/v1/from/segment"
analytics.page("user", "category", "Home", {"url": "https://s.test/again"})
analytics.flush()
analytics.shutdown()
""",
    "rudderstack": """
import rudderstack.analytics as analytics
analytics.write_key, analytics.dataPlaneUrl = "key", BASE + "/v1/from/segment"
analytics.page("user", "category", "Home", {"url": "https://s.test/again"})
analytics.flush()
analytics.shutdown()
""",
}
AGAIN_IN_NODE = {
    "segment": """
const { Analytics } = require('@segment/analytics-node');
const host = process.argv[2];
const segment = new Analytics({ writeKey: 'key', host, path: '/v1/from/segment/v1/batch', flushAt: 1 });
segment.page({ userId: 'u', properties: { url: 'https://s.test/again' } });
segment.closeAndFlush().then(() => process.exit(0));
""",
    "posthog": """
const { PostHog } = require('posthog-node');
const posthog = new PostHog('phc_x', { host: process.argv[2], flushAt: 1, fetchRetryDelay: 10 });
const properties = { $current_url: 'https://s.test/again' };
posthog.capture({ distinctId: 'u', event: '$pageview', properties });
posthog.shutdown().then(() => process.exit(0));
""",
    "rudderstack": """
const Analytics = require('@rudderstack/rudder-sdk-node');
const rudder = new Analytics('key', { dataPlaneUrl: process.argv[2] + '/v1/from/segment', flushAt: 1 });
rudder.page({ userId: 'u', name: 'Home', properties: { url: 'https://s.test/again' } });
rudder.flush(() => process.exit(0));
""",
}
IN_NODE = """
const base = process.argv[2];
const { Umami } = require('@umami/node');
const Matomo = require('matomo-tracker');
const { Analytics } = require('@segment/analytics-node');
(async () => {
  const umami = new Umami({ websiteId: '50429a93-8479-4073-be80-d5d29c09c2ec', hostUrl: base });
  await umami.track({ url: '/umami?utm_medium=cpc', hostname: 's.test', referrer: 'https://c.example/' });
  await umami.track('signup', { plan: 'a' });
  const matomo = new Matomo(1, base + '/matomo.php');
  matomo.on('error', error => { throw error; });
  matomo.track({ url: 'https://s.test/matomo', cip: '192.0.2.8' });
  const bulk = [{ url: 'https://s.test/matomo' }, { url: 'https://s.test/matomo', e_c: 'video' }];
  await new Promise(done => matomo.trackBulk(bulk, done));
  const segment = new Analytics({ writeKey: 'key', host: base, path: '/v1/from/segment/v1/batch', flushAt: 1 });
  segment.page({ userId: 'u', properties: { url: 'https://s.test/segment-node' } });
  await segment.closeAndFlush();
  process.exit(0); // else it waits for the connections that the libraries keep
})();
"""


class LosesAnAnswer(ThreadingHTTPServer):
    """Passes requests on to a server, and answers the first with 503 although it was counted."""

    def __init__(self, to: RunningServer) -> None:
        super().__init__(("127.0.0.1", 0), _PassesOn)
        self.to, self.answered = to.url, list[int]()


class _PassesOn(BaseHTTPRequestHandler):
    server: LosesAnAnswer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        with http_client(self.server.to) as http:
            answer = http.post(self.path, content=body, headers=dict(self.headers))
        self.server.answered.append(answer.status_code)
        self.send_response(answer.status_code if len(self.server.answered) > 1 else 503)
        self.send_header("content-type", answer.headers["content-type"])
        self.send_header("content-length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def losing_an_answer(to: RunningServer) -> Iterator[LosesAnAnswer]:
    with LosesAnAnswer(to) as front:
        thread = Thread(target=front.serve_forever)
        thread.start()
        try:
            yield front
        finally:
            front.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = Environment.made(tmp_path_factory.mktemp("senders") / "venv")
    environment.pip("install", *PYTHON)
    return environment


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("node-senders")
    installing = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), *NODE]
    subprocess.run(installing, check=True, timeout=WITHIN_S)
    return folder


def sent_by(python: Environment, script: str, address: str, **given: object) -> None:
    lines = [f"{name} = {value!r}" for name, value in {"BASE": address, **given}.items()]
    done = python.run("\n".join(lines) + script, python.folder)
    assert done.returncode == 0, done.stderr


def counted(server: RunningServer) -> dict[str, int]:
    with Clickcurve(server.url) as client:
        return {link["key"]: link["count"] for link in client.top(bots="include")["links"]}


@pytest.mark.parametrize(
    ("script", "given", "counts", "ignored"),
    [
        pytest.param(POSTHOG, {}, {"posthog": 1}, "posthog", id="posthog"),
        pytest.param(SEGMENT, {"GZIP": False}, {"segment": 1}, "segment", id="segment"),
        pytest.param(SEGMENT, {"GZIP": True}, {"segment": 1}, "segment", id="segment, gzip"),
        pytest.param(RUDDER, {}, {"rudder": 1}, None, id="rudderstack, gzip"),
    ],
)
def test_libraries_of_python(
    serve: Serve,
    python: Environment,
    script: str,
    given: dict[str, object],
    counts: dict[str, int],
    ignored: str | None,
) -> None:
    server = serve()
    sent_by(python, script, server.url, **given)
    assert counted(server) == counts
    with Clickcurve(server.url) as client:
        told = [name for name in client.metrics() if name.startswith("clickcurve_ignored_events_total{")]
    assert [f'product="{ignored}"' in name for name in told] == ([] if ignored is None else [True])


def test_libraries_of_node(serve: Serve, node: Path) -> None:
    server = serve()
    script = node / "send.cjs"
    script.write_text(IN_NODE)
    subprocess.run(["node", str(script), server.url], check=True, timeout=WITHIN_S)
    assert counted(server) == {"umami": 1, "matomo": 2, "segment-node": 1}
    with Clickcurve(server.url) as client:
        mediums = client.http.get("/v1/links/umami/by/ref").json()["values"]
    assert [value["value"] for value in mediums] == ["c.example"]


def test_a_middleware_of_matomo_counts_in_its_site(serve: Serve, python: Environment, tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('[matomo.7]\nprefix = "py/"\ngroup = "python"\n')
    server = serve("--config", str(settings))
    sent_by(python, ASGI_MATOMO, server.url, AGENT=BROWSER)
    assert counted(server) == {"py/asgi": 1}
    with Clickcurve(server.url) as client:
        assert client.http.get("/v1/groups/python/total").json()["total"] == 1, "a person, by the visitor's agent"
        referrers = client.http.get("/v1/links/py%2Fasgi/by/ref").json()["values"]
        assert [value["value"] for value in referrers] == ["news.example"]


@pytest.mark.parametrize("library", AGAIN_IN_PYTHON)
def test_what_a_library_of_python_sends_again_counts_once(serve: Serve, python: Environment, library: str) -> None:
    server = serve()
    with losing_an_answer(server) as front:
        sent_by(python, AGAIN_IN_PYTHON[library], f"http://127.0.0.1:{front.server_port}")
        assert front.answered == [200, 200]
    assert counted(server) == {"again": 1}


@pytest.mark.parametrize("library", AGAIN_IN_NODE)
def test_what_a_library_of_node_sends_again_counts_once(serve: Serve, node: Path, library: str) -> None:
    server = serve()
    script = node / f"again-{library}.cjs"
    script.write_text(AGAIN_IN_NODE[library])
    with losing_an_answer(server) as front:
        subprocess.run(["node", str(script), f"http://127.0.0.1:{front.server_port}"], check=True, timeout=WITHIN_S)
        assert front.answered == [200, 200]
    assert counted(server) == {"again": 1}
