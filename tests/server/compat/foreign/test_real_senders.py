"""The senders themselves, as their makers publish them: what they send by their settings alone, and what counts of it.

They come from PyPI and the npm registry, each at the version that is written here.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from testing.client import Clickcurve
from testing.server import RunningServer
from tests.conftest import Serve
from tests.install.environments import Environment

pytestmark = pytest.mark.needs("network", "npm")

PYTHON = ("posthog==7.91.1", "segment-analytics-python==2.4.0", "rudder-sdk-python==2.1.9")
NODE = ("@umami/node@0.4.0", "matomo-tracker@2.2.4", "@segment/analytics-node@3.1.0")
WITHIN_S = 600.0

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


def sent_by(python: Environment, script: str, server: RunningServer, **given: object) -> None:
    lines = [f"{name} = {value!r}" for name, value in {"BASE": server.url, **given}.items()]
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
    sent_by(python, script, server, **given)
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
