"""Pictures and badges of what came of clicks, and shares, which show clicks alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import httpx
import pytest

from testing.client import Clickcurve
from testing.server import RunningServer, run

SETTINGS = '[events]\nnames = ["sale"]\n[events.sale]\nunit = "EUR"\ndecimals = 2\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pictures")


@pytest.fixture(scope="module")
def http(folder: Path) -> Iterator[httpx.Client]:
    config = folder / "settings.toml"
    config.write_text(SETTINGS)
    with RunningServer(folder / "data", "--config", str(config)) as server:
        with Clickcurve(server.url) as client:
            client.send([{"key": "launch", "count": 7}, {"key": "launch", "event": "sale", "value": 2_495, "count": 2}])
        with httpx.Client(base_url=server.url) as asked:
            yield asked


@pytest.mark.parametrize(
    ("query", "said"),
    [("", "7 hits"), ("event=sale", "2 sale events"), ("event=sale&measure=value", "4,990 in sale values")],
)
def test_a_title_says_what_is_counted(http: httpx.Client, query: str, said: str) -> None:
    tree = ElementTree.fromstring(http.get(f"/v1/links/launch/curve.svg?last=24h&{query}").content)
    assert tree.attrib["aria-label"].startswith(f"launch: {said}, ")


@pytest.mark.parametrize(
    ("query", "label", "message"),
    [
        ("", "clicks", "7"),
        ("event=sale", "sale", "2"),
        ("event=sale&label=bought", "bought", "2"),
        ("event=sale&measure=value", "sale value", "49.90 EUR"),
    ],
)
def test_a_badge_of_an_event_has_its_name_and_unit(http: httpx.Client, query: str, label: str, message: str) -> None:
    badge = http.get(f"/v1/links/launch/badge.json?{query}").json()
    assert (badge["label"], badge["message"]) == (label, message)
    drawn = ElementTree.fromstring(http.get(f"/v1/links/launch/badge.svg?{query}").content)
    assert drawn.attrib["aria-label"] == f"{label}: {message}"


@pytest.mark.parametrize("query", ["event=order", "event=a%20b", "measure=value", "event=sale&measure=sum"])
def test_an_event_that_is_not_counted_is_refused(http: httpx.Client, query: str) -> None:
    for path in ("curve.svg", "badge.svg", "badge.json"):
        assert http.get(f"/v1/links/launch/{path}?{query}").status_code == 422


@pytest.mark.parametrize("path", ["curve.svg", "badge.svg", "curve", "why", "by/ref", "by/ref/curve"])
def test_a_share_shows_no_sales(http: httpx.Client, folder: Path, path: str) -> None:
    shared = run("share", "launch", "--data", str(folder / "data"), "--url", str(http.base_url)).stdout.split()[0]
    for query in ("event=sale", "event=sale&measure=value", "%65vent=sale"):
        refused = http.get(f"{shared}/{path}?{query}")
        assert refused.status_code == 422 and "2,495" not in refused.text
    assert "sale" not in http.get(shared).text
