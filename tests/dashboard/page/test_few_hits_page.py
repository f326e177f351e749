"""With `page_least` the page and shares name no referrer with few hits: tables, filters, what changed, and CSV."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from testing.client import http_client
from testing.server import RunningServer
from tests.server.commands import said

LEAST = 5
# Referrers of one hour and their hits; a bucket that hides one value hides another one with it.
MANY, SOME, FEW = "many.example", "some.example", "few.example"
COUNTS = {MANY: 40, SOME: 8, FEW: 2}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    data = tmp_path_factory.mktemp("few") / "data"
    config = data.parent / "clickcurve.toml"
    config.write_text(f"[page]\nleast = {LEAST}\n")
    now = int(time.time())
    with RunningServer(data, "--config", str(config)) as running:
        with http_client(running.url) as http:
            hits = [{"key": "launch", "ref": ref, "count": count, "ts": now} for ref, count in COUNTS.items()]
            hits += [{"key": "launch", "ref": MANY, "count": 30, "ts": now - 86_400 * 2}]
            http.post("/v1/hits", json=hits).raise_for_status()
        yield running


def shared(server: RunningServer) -> str:
    return said("share", "launch", "--data", str(server.data), "--url", server.url).strip()


def text(address: str) -> str:
    answer = httpx.get(address, trust_env=False)
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.mark.parametrize("query", ["last=2h", "last=24h", "last=7d", "from=0", "last=24h&compare=before"])
def test_no_question_of_a_page_or_a_share_names_it(server: RunningServer, query: str) -> None:
    for address in (shared(server), f"{server.url}/links/launch", f"{server.url}/"):
        page = text(f"{address}?{query}")
        assert MANY in page and "Other values" in page, address
        assert FEW not in page and SOME not in page, address


def test_the_tables_of_a_share_name_it_as_little(server: RunningServer) -> None:
    address = shared(server)
    listed = text(f"{address}/by/ref?last=24h&limit=1000").splitlines()
    assert listed[:2] == ["value,at_least,at_most", f"{MANY},40,50"]
    assert "(other),10,10" in listed
    assert not any(line.startswith((FEW, SOME)) for line in listed)
    for value in (FEW, "never.example"):  # one that few hits had, and one that none had
        (asked, *_) = text(f"{address}/by/ref?last=24h&value={value}").splitlines()[1:]
        assert asked == f"{value},0,10"
    points = text(f"{address}/by/ref/curve?last=2h&step=native&value={FEW}").splitlines()[1:]
    assert [line for line in points if line.split(",")[2] != "0"] == []
    for query in ("last=24h", "last=2d", "last=7d"):
        why = text(f"{address}/why?{query}&limit=100")
        assert why.startswith("dimension,value,") and FEW not in why and SOME not in why


def test_a_filter_shows_no_count_of_it(server: RunningServer) -> None:
    address = shared(server)
    begun, pages = 0.0, []
    while begun // 60 != time.time() // 60:  # the page names the minute in which it is asked
        begun = time.time()
        pages = [text(f"{address}?last=24h&by=ref&value={value}") for value in (FEW, "never.example")]
    same = [page.replace(FEW, "X").replace("never.example", "X").split('class="cards"')[1] for page in pages]
    assert same[0] == same[1], "as one that no hit had"


def test_the_page_has_no_link_to_the_whole_lists_and_programs_may_ask(server: RunningServer) -> None:
    for path in ("/links/launch", "/"):
        page = text(f"{server.url}{path}?last=24h")
        assert "/by/ref?" not in page and "/why?" not in page and "/curve?" in page
    values = httpx.get(f"{server.url}/v1/links/launch/by/ref?last=24h", trust_env=False).json()["values"]
    assert {each["value"]: each["at_least"] for each in values} == COUNTS


@pytest.mark.parametrize("least", ["2", "-1", "many"])
def test_a_least_that_would_tell_is_refused(tmp_path: Path, least: str) -> None:
    done = said("serve", "--data", str(tmp_path), "--port", "0", "--page-least", least, code=2)
    assert "must be 0, or a whole number from 3" in done
