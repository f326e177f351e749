"""Answers byte by byte, as programs of former versions read them: `golden_answers.json` was written before this code.

To write down answers that are new: `GOLDEN=write python -m pytest tests/query/breakdowns/test_golden_answers.py`; what
was there before must not change.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path

import pytest

from tests.query.breakdowns.attribute_nodes import AttributeHit, AttributeNodes
from tests.query.breakdowns.test_breakdown_routes import Served

NOW = 1_772_407_680  # 2026-03-01T23:28:00Z
DAY_S = 86_400
GOLDEN = Path(__file__).with_name("golden_answers.json")
KEYS = ("k", "a/b", 'q"\\\x01\u2028ü😀', "=1,2")
SUBJECTS = (
    "/v1",
    "/v1/links/k",
    "/v1/links/a%2Fb",
    "/v1/links/q%22%5C%01%E2%80%A8%C3%BC%F0%9F%98%80",
    "/v1/groups/g%2Fh",
)
RANGES = (
    "",
    "last=60m&step=5m",
    "last=3d&step=1h&tz=Asia/Kathmandu",
    "last=40d&step=1d&bots=include",
    "from=2025-03-03&to=2026-02-17T10:10&step=1w",
    "from=0&step=native",
    "to=2026-02-20&step=1mo&bots=only",
)
VALUES = ("", "last=24h", "last=90d&limit=2", "from=2026-02-17T10:10&to=2026-02-27", "value=news.example", "value=")
LISTS = ("", "last=7d", "limit=2&bots=include", "sort=key", "sort=key&limit=1", "sort=key&prefix=a", "format=csv")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    nodes = AttributeNodes(NOW, {"ref": NOW - 30 * DAY_S, "bot": 0})
    refs = ("news.example", "", 'a,"b"', "ü\u2028", "other.example")
    for number in range(400):
        t = NOW - number * number * 431 % (700 * DAY_S)
        said = (("ref", refs[number * 7 % 5]),) if number % 3 else ()
        groups = ("g/h",) if number % 4 == 0 else ()
        nodes.accept(AttributeHit(KEYS[number % 4], t, 1 + number % 9, said=said, visitor=number % 11, groups=groups))
        if number % 8 == 0:
            nodes.accept(AttributeHit(KEYS[number % 4], t, 2, bot=True, said=(("bot", "Crawler"),), groups=groups))
        if number == 300:
            nodes.owners[0].flush(NOW)
    return Served(nodes, tmp_path_factory.mktemp("golden") / "tokens.json")


def questions() -> list[str]:
    asked = []
    for of in SUBJECTS:
        for query in RANGES:
            whole = "&".join(each for each in query.split("&") if not each.startswith("step"))
            asked += [f"{of}/total?{whole}", f"{of}/curve?{query}"]
        asked += [f"{of}/curve?{RANGES[1]}&format={form}" for form in ("csv", "rows")]
        asked += [f"{of}/by/{dimension}?{query}" for dimension in ("ref", "bot") for query in VALUES]
        asked += [f"{of}/by/ref?last=90d&format=csv"]
        ranges = (RANGES[1], RANGES[4], RANGES[5])
        asked += [f"{of}/by/ref/curve?value=news.example&{query}" for query in ranges]
        asked += [f"{of}/by/ref/curve?value=&{RANGES[1]}&format=csv"]
    for of in SUBJECTS[1:]:
        asked += [of, f"{of}?tz=Asia/Kathmandu&bots=only", f"{of}/visitors", f"{of}/visitors?last=90d"]
    asked += [f"/v1/{kind}?{query}" for kind in ("links", "groups") for query in LISTS]
    return asked


def test_answers_are_byte_by_byte_what_they_were(served: Served) -> None:
    answers = {}
    for path in questions():
        answer = served.get(path)
        answers[path] = [answer.status_code, answer.headers["content-type"], _short(answer.text)]
    if os.environ.get("GOLDEN") == "write":
        GOLDEN.write_text("".join(_lines(answers)))
    golden = json.loads(GOLDEN.read_text())
    assert len(answers) >= 195
    assert answers == golden


def _short(text: str) -> str:
    """A long answer by its beginning and its hash."""
    return text if len(text) <= 1_000 else f"{text[:300]} ... {sha256(text.encode()).hexdigest()}"


def _lines(answers: dict[str, list[object]]) -> list[str]:
    lines = [f"{json.dumps(path)}: {json.dumps(answer)}" for path, answer in answers.items()]
    return ["{\n", ",\n".join(lines), "\n}\n"]
