"""The source tree keeps its rules, and each rule is seen to catch what it forbids in a tiny tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from testing.server import ROOT
from tests import layout

pytestmark = pytest.mark.usefixtures("uncollected")
Rule = Callable[[Path], list[str]]
PYPROJECT = '[project]\ndependencies = ["fastapi>=0.1", "apscheduler", "cassandra-driver"]\n'


@pytest.mark.parametrize("rule", layout.RULES, ids=lambda rule: str(rule.__name__))
def test_the_tree_keeps_the_rule(rule: Rule) -> None:
    assert rule(ROOT) == []


def grow(root: Path, tree: Mapping[str, str]) -> Path:
    for name, text in {"pyproject.toml": PYPROJECT, **tree}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


BREACHES: list[tuple[Rule, str, str, str]] = [
    (
        layout.import_directions,
        "clickcurve/buckets/row.py",
        "import storage.contract",
        "clickcurve.buckets must not import storage.contract",
    ),
    (layout.import_directions, "query/curves.py", "from ingest import owner", "query must not import ingest.owner"),
    (
        layout.import_directions,
        "ingest/flush.py",
        "import storage.sqlite_store",
        "ingest must not import storage.sqlite",
    ),
    (layout.import_directions, "ingest/flush.py", "from server import clock", "ingest must not import server.clock"),
    (
        layout.import_directions,
        "server/app/application.py",
        "from testing import server",
        "server.app must not import testing.server",
    ),
    (
        layout.import_directions,
        "server/http/a.py",
        "from server.app import run",
        "server.http must not import server.app",
    ),
    (
        layout.import_directions,
        "server/workers/a.py",
        "import server.http.shares",
        "server.workers must not import server.http.shares",
    ),
    (
        layout.import_directions,
        "server/settings/a.py",
        "from server.alerts import watch",
        "server.settings must not import server.alerts.watch",
    ),
    (
        layout.import_directions,
        "server/fresh.py",
        "from server.cli import main",
        "server/fresh.py: stands on no floor of the server",
    ),
    (layout.import_directions, "bench/reads.py", "from tests import audit", "bench must not import tests.audit"),
    (layout.import_directions, "testing/server.py", "from tests import audit", "testing must not import tests.audit"),
    (layout.import_directions, "testing/server.py", "from bench import wrk", "testing must not import bench.wrk"),
    (layout.third_party, "query/curves.py", "import fastapi", "fastapi may not be imported here"),
    (
        layout.third_party,
        "server/app/worker.py",
        "import apscheduler.triggers",
        "apscheduler may not be imported here",
    ),
    (layout.third_party, "storage/sqlite/store.py", "from cassandra import cluster", "cassandra may not be imported"),
    (layout.third_party, "server/limiter/limiter.py", "import redis.asyncio", "redis may not be imported here"),
    (layout.third_party, "server/app/application.py", "import requests", "requests is no declared dependency"),
    (layout.clock_use, "ingest/owner.py", "import time", "ingest/owner.py:1: time"),
    (layout.clock_use, "ingest/owner.py", "from time import monotonic", "time.monotonic"),
    (layout.clock_use, "ingest/owner.py", "x = datetime.now()", "datetime.now"),
    (layout.clock_use, "ingest/owner.py", "x = datetime.date.today()", "date.today"),
    (layout.clock_use, layout.DEFAULT_CLOCKS[0], "import time\nx = time.time()", "limiter.py:2: time.time"),
    (layout.clock_use, layout.DEFAULT_CLOCKS[0], "from time import monotonic", "time.monotonic"),
    (layout.clock_use, "tests/test_x.py", "import time\ntime.sleep(1)", "tests/test_x.py:2: sleeps"),
    (layout.sizes, "bench/long.py", "x = 1\n" * 601, "bench/long.py: 601 lines"),
    (layout.sizes, "query/long.py", "def f():\n" + "    x = 1\n" * 69, "f has 70 lines"),
    (layout.contract, layout.CONTRACT, "x = 1\n" * 401, "contract.py: 401 lines"),
    (layout.contract, layout.CONTRACT, "# Of breakdowns.", "contract.py:1: names a feature: breakdown"),
    (layout.kinds, "ingest/flush.py", "x = is_moved(key)", "ingest/flush.py:1: asks a stored key"),
    (layout.kinds, "query/a.py", "x = key.startswith(breakdown_of(''))", "asks a stored key"),
    (layout.kinds, "query/a.py", r"x = key.startswith('\0by:')", "asks a stored key"),
    (layout.leftovers, "docs/a.md", "It works. TO" + "DO: test it.", "docs/a.md:1: leftover"),
    (layout.outside, "docs/a.md", "See [this](../../elsewhere/notes.md).", "notes.md, which is not here"),
    (layout.outside, "query/a.py", '"""As NOWHERE.md says."""', "names NOWHERE.md"),
    (layout.outside, "query/a.py", "x = '/ho" + "me/me/data'", "names a folder of somebody's machine"),
    (layout.addresses, "README.md", "https://elsewhere.org/x", "README.md:1: address of elsewhere.org"),
    (layout.lock, "requirements.lock", "--index-url somewhere", "requirements.lock:1: neither a pin nor a hash"),
    (layout.lock, "requirements.lock", "fastapi==1.0", "no pin of apscheduler"),
    (layout.packaged, "query/deep/a.py", "", "query/deep has no __init__.py"),
]


@pytest.mark.parametrize(("rule", "file", "text", "sentence"), BREACHES)
def test_a_breach_is_found(tmp_path: Path, rule: Rule, file: str, text: str, sentence: str) -> None:
    assert any(sentence in said for said in rule(grow(tmp_path, {file: text})))


def test_a_folder_of_seventeen_files_is_found(tmp_path: Path) -> None:
    root = grow(tmp_path, {f"query/part_{number}.py": "" for number in range(17)})
    assert layout.folders(root) == ["query: 17 files, 16 at most"]


def test_a_long_file_is_named_and_no_breach(tmp_path: Path) -> None:
    root = grow(tmp_path, {"bench/__init__.py": "", "bench/long.py": "x = 1\n" * 401})
    assert layout.long_files(root) == ["bench/long.py: 401 lines"]
    assert layout.sizes(root) == []


def test_what_is_allowed_is_not_complained_of(tmp_path: Path) -> None:
    lock = "fastapi==1.0 \\\n    --hash=sha256:" + "0" * 64 + "\napscheduler==1\ncassandra-driver==3\n"
    tree = {
        "requirements.lock": lock,
        "query/http/routes.py": "import fastapi\nimport clickcurve.buckets.row\nimport storage.contract\n",
        "query/curves.py": "import query.routes",
        "query/__init__.py": "",
        "query/http/__init__.py": "",
        "server/http/__init__.py": "",
        "server/process/__init__.py": "",
        "storage/cassandra/__init__.py": "",
        "server/__init__.py": "",
        "storage/__init__.py": "",
        "server/app/__init__.py": "",
        "server/app/application.py": "import fastapi\nimport query.routes",
        "server/process/schedule.py": "import apscheduler",
        "server/clock.py": "import time\nimport datetime\nnow = datetime.datetime.now()",
        "clickcurve/__init__.py": "",
        "clickcurve/limiter/__init__.py": "",
        layout.DEFAULT_CLOCKS[0]: "import time\ndef f(*, clock=time.time, timer=time.monotonic): ...",
        "storage/cassandra/session.py": "import cassandra.cluster",
        "docs/a.md": "See [the other](b.md), http://127.0.0.1:8080/ and docs/b.md.",
        "docs/b.md": "Nothing.",
        ".venv/lib/x.py": "import server  # TO" + "DO",
    }
    root = grow(tmp_path, tree)
    assert [sentence for rule in layout.RULES for sentence in rule(root)] == []
