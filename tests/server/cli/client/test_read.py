"""Questions to a server, as people ask and see them: on screens of several sizes, for odd keys, for unknown links."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from server import clock
from testing.client import Clickcurve
from testing.server import RunningServer, command, plain_environment, run
from testing.terminal import on_terminal
from tests.conftest import Serve
from tests.server.commands import said

DAY = 86_400


@pytest.fixture(scope="module")
def busy(shared: RunningServer) -> RunningServer:
    """A server with a link that has a hit in every minute of two hours, and ten hits a day for a hundred days."""
    now = int(clock.now())
    with Clickcurve(shared.url) as client:
        client.send([{"key": "busy", "ts": now - 60 * n} for n in range(1_440)])
        client.send([{"key": "ninety", "ts": now - DAY * n, "count": 10} for n in range(100)])
    return shared


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (60, 15)])
@pytest.mark.parametrize("asked", [(), ("--last", "60d"), ("--last", "10d"), ("--from", "2020-01-01")])
def test_a_curve_fits_the_screen(busy: RunningServer, asked: tuple[str, ...], columns: int, lines: int) -> None:
    shown = on_terminal("curve", "busy", *asked, "--url", busy.url, columns=columns, lines=lines).splitlines()
    assert len(shown) < lines, "and a prompt"
    # The title has its times, and the line of what is kept its words, however narrow the screen is.
    assert max(map(len, shown[1:-1])) <= columns
    assert "step " in shown[0]


def test_a_curve_in_a_file_is_the_same_from_every_terminal(busy: RunningServer) -> None:
    piped = run("curve", "ninety", "--last", "60d", "--url", busy.url)
    assert piped.returncode == 0
    assert len(piped.stdout.splitlines()) <= 50
    assert max(map(len, piped.stdout.splitlines())) <= 100


def test_a_step_that_is_asked_for_is_drawn_whatever_the_screen(busy: RunningServer) -> None:
    shown = on_terminal("curve", "busy", "--last", "60m", "--step", "1m", "--url", busy.url).splitlines()
    assert len(shown) == 62


def test_programs_get_every_point(busy: RunningServer) -> None:
    answer = json.loads(said("curve", "busy", "--last", "24h", "--json", "--url", busy.url))
    assert answer["step"] == "5m" and len(answer["points"]) > 24 * 11
    csv = said("curve", "busy", "--from", "2026-01-01", "--to", "2026-01-02", "--csv", "--url", busy.url)
    assert csv.startswith("start,end,count,state\n")
    assert "give one of" in said("curve", "busy", "--csv", "--json", "--url", busy.url, code=2)


def test_ten_hits_a_day_have_bars_of_one_length(busy: RunningServer) -> None:
    lines = said("curve", "ninety", "--last", "90d", "--step", "1d", "--url", busy.url).splitlines()[1:]
    bars = {line.count("█") for line in lines if "█" in line and "open" not in line}
    assert len(bars) == 1, lines


@pytest.mark.parametrize("key", [".", "..", "...", "a/../b", "%2E", "./x"])
def test_a_key_of_dots_is_the_link_of_that_name(shared: RunningServer, key: str) -> None:
    url = ("--url", shared.url)
    said("send", "--count", "3", *url, "--", key)
    assert said("total", "--last", "7d", *url, "--", key).startswith(f"{key}: 3 hits of people, ")
    assert said("total", *url, "--", key).splitlines()[0] == f"{key}: hits of people, days in UTC"
    assert said("curve", *url, "--", key).startswith(f"{key}: ")


def test_an_unknown_link_has_no_hits_yet(shared: RunningServer) -> None:
    url = ("--url", shared.url)
    assert said("total", "nosuch", *url) == "nosuch: no hits yet\n"
    assert said("curve", "nosuch", *url) == "nosuch: no hits yet\n"
    assert said("total", "nosuch", "--last", "7d", *url).startswith("nosuch: 0 hits of people, ")


def test_a_link_whose_hits_have_no_dates_says_so(shared: RunningServer, tmp_path: Path) -> None:
    url = ("--url", shared.url)
    history = tmp_path / "history.ndjson"
    history.write_text('{"key": "undated", "total": 7}\n')
    said("import", str(history), *url)
    assert said("curve", "undated", *url) == "undated: 7 hits without dates, and none with one\n"
    assert said("total", "undated", *url).splitlines()[1].split() == ["lifetime", "7"]


def test_times_of_a_link_are_in_the_asked_zone(shared: RunningServer) -> None:
    said("send", "zoned", "--ts", "2026-01-01T23:30Z", "--url", shared.url)
    assert "2026-01-02 05:00 Asia/Kolkata" in said("total", "zoned", "--tz", "Asia/Kolkata", "--url", shared.url)
    assert "2026-01-01 23:30 UTC" in said("total", "zoned", "--url", shared.url)


@pytest.mark.parametrize("written", ["20251001", "2025-10-01", "1759276800", "1759276800.75", "2025-10-01T02:00+02:00"])
def test_a_time_is_sent_as_it_is_asked_for(shared: RunningServer, written: str) -> None:
    """Eight digits are a date, here too: as a number they were a day of August 1970."""
    key = f"sent {written}"
    said("send", key, "--ts", written, "--url", shared.url)
    total = said("total", key, "--from", "20251001", "--to", "2025-10-01T00:01", "--url", shared.url)
    assert total == f"{key}: 1 hit of people, 2025-10-01 00:00 to 2025-10-01 00:01 UTC\n"


def test_a_day_in_kolkata_is_not_called_the_day_before(shared: RunningServer) -> None:
    """Ten hits, ten minutes after midnight there, some days ago: in an hour that belongs to two days."""
    day = (int(clock.now()) // DAY - 5) * DAY - 19_800
    with Clickcurve(shared.url) as client:
        client.send([{"key": "day", "ts": day + 600, "count": 10}])
    url = ("--url", shared.url)
    answer = json.loads(said("curve", "day", "--last", "7d", "--step", "1d", "--tz", "Asia/Kolkata", "--json", *url))
    lines = said("curve", "day", "--last", "7d", "--step", "1d", "--tz", "Asia/Kolkata", *url).splitlines()
    midnights = all((point["start"] + 19_800) % DAY == 0 for point in answer["points"])
    (drawn,) = [line for line in lines if " 10" in line.partition("█")[2]]
    assert (":" in drawn) is not midnights, "a start that is no midnight shows its time"


def test_a_question_is_about_a_link_or_a_group(shared: RunningServer) -> None:
    url = ("--url", shared.url)
    assert said("total", "--group", "nosuch", *url) == "nosuch: no hits yet\n"
    assert said("curve", "--group", "nosuch", *url) == "nosuch: no hits yet\n"
    assert said("total", "--group", "nosuch", "--last", "7d", *url).startswith("nosuch: 0 hits of people, ")
    assert said("groups", *url) == "groups by hits of people, all time: none\n"
    assert json.loads(said("groups", "--json", *url))["groups"] == []
    for name in ("total", "curve", "visitors"):
        assert "not both" in said(name, "launch", "--group", "spring", *url, code=2)
    assert "takes a KEY" in said("visitors", *url, code=2)
    assert "3 names were given" in said("by", "a", "b", "c", *url, code=2)
    assert "give one of" in said("by", "a", "ref", "--csv", "--json", *url, code=2)


def test_a_ranking_says_what_it_counts_and_of_which_range(serve: Serve, data: Path) -> None:
    server = serve("--breakdown-dimensions", "ref", data=data)
    url = ("--url", server.url)
    with Clickcurve(server.url) as client:
        first = {"key": "a", "ts": "2026-01-05T23:30", "count": 5, "ref": "a.example", "groups": ["g"]}
        client.send(
            [first, {"key": "b", "ts": "2026-02-01", "count": 7}, {"key": "b", "ts": "2026-02-01", "bot": True}]
        )
    assert said("top", *url).splitlines()[0] == "links by hits of people, all time"
    january = ("--from", "2026-01-01", "--to", "2026-02-01")
    assert [line.split()[:2] for line in said("top", *january, *url).splitlines()[1:]] == [["a", "5"]]
    assert said("top", *january, *url).startswith("links by hits of people, 2026-01-01 00:00 to 2026-02-01 00:00 UTC\n")
    assert said("groups", *january, *url).splitlines()[1].split()[:2] == ["g", "5"]
    zoned = said("top", *january, "--tz", "Asia/Kolkata", "--bots", "include", *url).splitlines()[0]
    assert zoned.startswith("links by hits of people and bots, 2026-01-01 00:00 to 2026-02-01 00:00 Asia/Kolkata")
    assert said("top", "--last", "1d", "--bots", "only", *url).endswith(": none\n")
    assert said("total", "b", "--bots", "only", *url).startswith("b: hits of bots, days in UTC\n")
    assert said("total", "--bots", "only", *url) == "all links: 1 hit of bots, all time\n"
    assert said("by", "a", "ref", *url).splitlines()[0] == "a: hits of people by ref, all time"
    assert said("by", "ref", *january, *url).startswith("all links: hits of people by ref, 2026-01-01 00:00 to 2026-0")
    assert "days in Asia/Kolkata" in said("total", "a", "--tz", "Asia/Kolkata", *url)


def test_a_reader_that_ends_early_ends_the_command_quietly(busy: RunningServer) -> None:
    """As `clickcurve curve | head -1`: no traceback, and the exit code of the help."""
    words = command("curve", "ninety", "--from", "2020-01-01", "--step", "1d", "--csv", "--url", busy.url)
    pipe = subprocess.PIPE
    with subprocess.Popen(words, env=plain_environment({}), stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (b"", 141)
