"""Folders that former versions left behind: this version opens them and gives the answers that were given then.

Each has a database with rows of every tier and a journal with hits that its store has not: their server was killed. The
bytes of single rows are held by `tests/buckets/test_golden.py`, those of the journal by `tests/ingest/journal`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from clickcurve.buckets.measures import clicks_row
from clickcurve.keys import ALL_LINKS, counts_key
from storage.sqlite.store import SqliteStore
from storage.tools.verify import pages
from tests.install.environments import project
from tests.server.commands import said
from tests.upgrade.then import (
    BEFORE_EVENTS,
    BEGAN,
    FOR_EVER,
    GOLDEN,
    HOUR_S,
    ask,
    client_of,
    export_at,
    import_file,
    questions_of,
    server_at,
    unpack,
)

VERSIONS = sorted(path.name for path in GOLDEN.iterdir())
EACH_VERSION = [
    pytest.param(version, marks={VERSIONS[-1]: [], VERSIONS[0]: [pytest.mark.slow]}.get(version, [pytest.mark.long]))
    for version in VERSIONS
]
THEN = BEGAN + 2 * HOUR_S
FORMER = "60:1,300:1,3600:31,week:366,month"  # the default of 0.1.0, and of the golden folder of 0.2.0
LADDER_SINCE = "60:1,300:2,3600:31,86400:92,week:366,month"


@dataclass(frozen=True, slots=True)
class Opened:
    """A server on the folder of one version, and a client that has its token."""

    golden: Path
    url: str
    client: httpx.Client


@pytest.fixture(params=EACH_VERSION)
def golden(request: pytest.FixtureRequest) -> Path:
    """The folder of one version."""
    return GOLDEN / str(request.param)


@pytest.fixture
def token(golden: Path, tmp_path: Path) -> str:
    """What the unpacked folder's server asks for; without it there is no answer."""
    return unpack(golden, tmp_path)


@pytest.fixture(params=EACH_VERSION, scope="module")
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """This version's server on a folder of each version, two hours after the first hit; for tests that add nothing."""
    golden, folder = GOLDEN / str(request.param), tmp_path_factory.mktemp("opened")
    token = unpack(golden, folder)
    with server_at(THEN, folder) as server, client_of(server, token) as client:
        yield Opened(golden, server.url, client)


def holds(now: object, then: object) -> bool:
    """Whether an answer says all that one said then; a later version may say more."""
    if isinstance(then, dict):
        return isinstance(now, dict) and all(name in now and holds(now[name], then[name]) for name in then)
    if isinstance(then, list):
        return isinstance(now, list) and len(now) == len(then) and all(map(holds, now, then))
    return now == then


def ladder_of(folder: Path) -> str:
    """Returns the ladder of the folder's database, as it stands there."""
    with closing(sqlite3.connect(folder / "data" / "clickcurve.db")) as database:
        (ladder,) = database.execute("SELECT value FROM meta WHERE name = 'ladder'").fetchone()
    return str(ladder)


def test_this_version_has_a_golden_folder() -> None:
    assert project()["project"]["version"] in VERSIONS


def test_the_answers_are_those_of_then(opened: Opened) -> None:
    answers = json.loads((opened.golden / "answers.json").read_text())
    assert list(answers) == list(questions_of(opened.golden.name))
    now = ask(opened.client, answers)
    assert [question for question in answers if not holds(now[question], answers[question])] == []


def test_a_folder_keeps_its_ladder_and_another_is_refused(golden: Path, token: str, tmp_path: Path) -> None:
    """Without a setting: a server, and every command that opens the database."""
    data = ("--data", str(tmp_path / "data"))
    made_with = ladder_of(tmp_path)
    assert made_with == (FORMER if golden.name in BEFORE_EVENTS else LADDER_SINCE)
    with server_at(THEN, tmp_path) as server:
        assert server.stop() == 0
    other = tmp_path / "other.db"
    here = f"sqlite:///{tmp_path}/data/clickcurve.db"
    for command in (
        ("verify",),
        ("dump", "launch"),
        ("export",),
        ("owners", "list"),
        ("fold", "--dry-run"),
        ("fold",),
        ("backup", str(tmp_path / "backup.db")),
    ):
        said(*command, *data)
    said("copy", "--from", here, "--to", f"sqlite:///{other}")
    assert ladder_of(tmp_path) == made_with
    with closing(SqliteStore(other, None)) as copied:
        assert str(copied.ladder()) == made_with
    for refused in ("verify", "export", "fold", "serve"):
        sentence = said(refused, *data, "--ladder", "days", code=2)
        assert f"was made with the ladder {made_with}, but 60:1,300:2,3600:31,86400:400" in sentence
    said("verify", *data, "--ladder", made_with)


def test_totals_are_what_was_sent(opened: Opened) -> None:
    sent = {"launch": 62, "a%2Fb": 5, "moved": 105, "logged": 25, "gone": 1, "late": 3, "gr%C3%BC%C3%9Fe": 1}
    assert {key: opened.client.get(f"/v1/links/{key}/total").json()["total"] for key in sent} == sent


def test_tokens_are_asked_for_as_before(opened: Opened) -> None:
    assert httpx.get(f"{opened.url}/v1/links/launch/total", trust_env=False).status_code == 401


def test_ids_are_known_flushed_or_not(opened: Opened) -> None:
    client = opened.client
    for id_ in ("visit-1", "visit-2"):
        assert client.post("/v1/hits", json={"key": "launch", "id": id_}).json()["duplicate"] == 1
    for id_, count in (("batch-1", 2), ("batch-2", 4)):
        again = client.post("/v1/hits", json=[{"key": "launch", "count": count}], headers={"Idempotency-Key": id_})
        assert (again.json()["counted"], again.json()["duplicate"]) == (0, count)
    assert client.get("/v1/links/launch/total").json()["total"] == 62


@pytest.mark.slow
def test_imports_go_on_where_they_stood(golden: Path, token: str, tmp_path: Path) -> None:
    """25 of the log's 30 lines were imported, 5 of them after the last flush."""
    with server_at(THEN, tmp_path) as server, client_of(server, token) as client:
        assert "counted 5" in import_file(golden / "access.log", server, token)
        assert "counted 0" in import_file(golden / "history.ndjson", server, token)
        assert client.get("/v1/links/logged/total").json()["total"] == 30


def test_years_later_totals_and_whole_months_are_the_same(golden: Path, token: str, tmp_path: Path) -> None:
    answers = json.loads((golden / "answers.json").read_text())
    for moment in (THEN + 3 * 366 * 24 * HOUR_S, None):
        with server_at(moment, tmp_path) as server, client_of(server, token) as client:
            now = ask(client, FOR_EVER)
            assert [question for question in FOR_EVER if not holds(now[question], answers[question])] == []
            assert server.stop() == 0
        said("verify", "--data", str(tmp_path / "data"))


@pytest.mark.slow
def test_the_export_is_that_of_then_and_can_be_imported(golden: Path, token: str, tmp_path: Path) -> None:
    exported = (golden / "export.ndjson").read_text()
    with server_at(THEN, tmp_path) as server:
        assert server.stop() == 0
    now = [json.loads(line) for line in export_at(THEN, tmp_path).splitlines()]
    then = [json.loads(line) for line in exported.splitlines()]
    assert holds(now, then)
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    ladder = f'ladder = "{ladder_of(tmp_path)}"\n'  # or with --wide start, into any
    (fresh / "clickcurve.toml").write_text(ladder + (golden / "clickcurve.toml").read_text())
    with server_at(THEN, fresh) as server, client_of(server, "") as client:
        import_file(golden / "export.ndjson", server, "")
        for line in then:
            kind, name = ("groups", line["group"]) if "group" in line else ("links", line["key"])
            assert client.get(f"/v1/{kind}/{name.replace('/', '%2F')}").json()["lifetime"] == line["total"]


def rows_in(folder: Path) -> dict[tuple[str, int], bytes]:
    """The bytes of all rows, by stored key and owner, but those of all links: every flush marks these."""
    with closing(SqliteStore(folder / "data" / "clickcurve.db", None)) as store, store.view() as view:
        found = {(key, row.owner): row.data for page in pages(view) for key, link in page for row in link.rows}
    return {(key, owner): data for (key, owner), data in found.items() if counts_key(key) != ALL_LINKS}


@pytest.mark.parametrize(
    "golden", [pytest.param(BEFORE_EVENTS[0], marks=pytest.mark.slow), BEFORE_EVENTS[1]], indirect=True
)
def test_counting_events_leaves_the_rows_without_events_as_they_are(golden: Path, token: str, tmp_path: Path) -> None:
    with server_at(THEN, tmp_path) as server:
        assert server.stop() == 0  # what the journal held is in the rows
    before = rows_in(tmp_path)
    with (tmp_path / "clickcurve.toml").open("a") as file:
        file.write('\n[events]\nnames = ["sale"]\n')
    with server_at(THEN, tmp_path) as server, client_of(server, token) as client:
        sale = {"key": "sold", "event": "sale", "value": 4990, "count": 2}
        assert client.post("/v1/hits", json=[sale]).json()["counted"] == 2
        for question, total in (("event=sale", 2), ("event=sale&measure=value", 9980), ("", 0)):
            assert client.get(f"/v1/links/sold/total?{question}").json()["total"] == total
        assert client.get("/v1/links/launch/total?event=sale").json()["total"] == 0
        assert server.stop() == 0
    after = rows_in(tmp_path)
    assert {key: data for key, data in after.items() if key in before} == before
    added = {clicks_row(counts_key(key)) for key, _ in after.keys() - before.keys()}
    assert added == {"sold", ALL_LINKS}  # of events alone, of all links
    said("verify", "--data", str(tmp_path / "data"))


@pytest.mark.parametrize(
    ("now", "then", "same"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([{"a": 1, "b": 0}], [{"a": 1}], True),
        ([1, 2], [1], False),
        ({"a": [1]}, {"a": [2]}, False),
    ],
)
def test_answers_are_compared(now: object, then: object, same: bool) -> None:
    assert holds(now, then) is same
