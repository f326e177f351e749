"""`clickcurve watch`: the list stays in place on a terminal, and is lines or JSON elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from server.cli.client import watch
from server.cli.main import Failed
from testing.client import Clickcurve
from testing.server import RunningServer, free_port
from testing.terminal import on_terminal
from tests.server.commands import said


@pytest.fixture
def watched(shared: RunningServer) -> Iterator[RunningServer]:
    with Clickcurve(shared.url) as client:
        if not client.top()["links"]:
            client.send([{"key": "launch", "count": 12}, {"key": "a\x1b[31mb", "count": 3}, {"key": "x" * 200}])
    yield shared


def test_a_file_gets_lines_for_each_look(watched: RunningServer) -> None:
    text = said("watch", "--times", "2", "--every", "1", "--url", watched.url)
    assert text.count("16 hits in the last 60m at ") == 2
    assert text.count("launch") == 2
    assert "\x1b" not in text
    assert "a\\x1b[31mb" in text


def test_a_program_gets_an_object_for_each_look(watched: RunningServer) -> None:
    (line,) = said("watch", "--times", "1", "--json", "--last", "7d", "--limit", "1", "--url", watched.url).splitlines()
    answer = json.loads(line)
    assert (answer["total"], answer["last"], answer["trouble"]) == (16, "7d", None)
    assert answer["links"] == [{"key": "launch", "count": 12}]


def test_a_terminal_gets_a_screen_of_its_own_and_its_own_back(watched: RunningServer) -> None:
    written = on_terminal(
        "watch", "--every", "1", "--url", watched.url, columns=60, lines=10,
        interrupt_when=lambda text: text.count("\x1b[H") >= 2,
    )  # fmt: skip
    assert written.startswith("\x1b[?1049h\x1b[?25l\x1b[H")
    assert written.endswith("\x1b[?25h\x1b[?1049l")
    looks = written.split("\x1b[H")[1:]
    assert len(looks) >= 2
    assert all(len(line.removesuffix("\x1b[K")) <= 60 for look in looks[:1] for line in look.split("\n")[:-1])
    assert "a\\x1b[31mb" in looks[0]


def test_without_a_server_it_ends_and_says_so() -> None:
    text = said("watch", "--times", "1", "--url", f"http://127.0.0.1:{free_port()}", code=3)
    assert "no server answers" in text


def test_a_server_that_goes_away_is_said_and_asked_again(
    watched: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:

    looks = iter([None, Failed("no server answers at x"), None])
    honest = watch._look

    def look(client: object, query: object) -> object:
        trouble = next(looks)
        if trouble is not None:
            raise trouble
        return honest(client, query)  # type: ignore[arg-type]

    monkeypatch.setattr(watch, "_look", look)
    text = said("watch", "--times", "3", "--every", "1", "--url", watched.url)
    assert text.count("no server answers at x") == 1
    assert text.count("16 hits") == 3
