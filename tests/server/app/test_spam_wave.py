"""The commands of docs/spam.md, in their order, on a log that is made here: they find the wave and take it out."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from testing.server import ROOT, run
from tests.conftest import Serve
from tests.test_readme import Example, examples

PAGE = (ROOT / "docs" / "spam.md").read_text()
KEY, WAVE, OWN = "projects/xdotool/", 60, 6
BROWSER = "Mozilla/5.0 (Windows NT 6.1; rv:27.0) Gecko/20100101 Firefox/27.0"
NUMBERS = re.compile(r"\d[\d,.]*")
DATES = re.compile(r"\d{4}-\d\d-\d\d")


def yesterday() -> datetime:
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)


def log_lines(chance: Random) -> list[str]:
    """Two days of five pages and four referrers, hosts that spam a little, and a wave of yesterday afternoon."""
    lines = []

    def add(at: datetime, key: str, ref: str, agent: str = BROWSER, ip: str = "203.0.113.9") -> None:
        lines.append(f'{ip} - - [{at:%d/%b/%Y:%H:%M:%S} +0000] "GET /{key} HTTP/1.1" 200 12 "{ref}" "{agent}"\n')

    for ago in (1, 0):
        day = yesterday() - timedelta(days=ago)
        for n in range(40):
            key = KEY if n % 4 == 0 else f"page{n % 5}"
            ref = chance.choice(["-", "https://news.example/", "https://search.example/?q=x", "https://blog.example/"])
            add(day + timedelta(minutes=30 * n), key, ref)
        add(day, KEY, "-", "Googlebot/2.1")
    for n in range(OWN):
        add(yesterday() + timedelta(hours=n), "page1", f"https://pills{n // 3}.example/")
    for n in range(WAVE):
        at = yesterday() + timedelta(hours=13, minutes=3 * n)
        add(at, KEY, "http://spam.example/cheap", ip=f"198.51.100.{n % 256}")
    return lines


def in_page(example: Example, rule: str) -> str:
    """The command with the days and the rule of this run in place of those of the page."""
    days = sorted(set(DATES.findall(PAGE)))
    assert days[-3:] == ["2026-11-22", "2026-11-23", "2026-11-24"]
    meant = {shown: f"{yesterday() + timedelta(days=n):%Y-%m-%d}" for n, shown in enumerate(days[-3:-1])}
    command = DATES.sub(lambda shown: meant[shown[0]], example.command)  # at once: a day may be another one of the page
    return re.sub(r"(disavow undo) \w+", rf"\1 {rule}", command)


def first_line(printed: str) -> str:
    """The first line without what differs from log to log."""
    line = re.sub(r"\b[0-9a-f]{16}\b", "ID", printed.strip().splitlines()[0])
    return " ".join(NUMBERS.sub("#", DATES.sub("DAY", line)).split())


def test_the_commands_of_the_page_find_the_wave_and_take_it_out(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("access.log").write_text("".join(log_lines(Random(1))))
    Path("hosts.txt").write_text("pills0.example\npills1.example\n")
    (rules,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    Path("bots.toml").write_text(rules)
    server = serve("--flush-s", "3600", data=tmp_path / "counted")
    printed: list[tuple[str, str]] = []
    rule = ""
    for example in examples(PAGE):
        command = in_page(example, rule)
        if "import" in command and printed:
            server = serve("--config", "bots.toml", data=tmp_path / "guarded")
        words = shlex.split(command)
        done = run(*words[1:], CLICKCURVE_URL=server.url, COLUMNS="100")  # those of the page
        assert (words[0], done.returncode) == ("clickcurve", 0), done.stderr
        text = done.stdout or done.stderr
        assert first_line(text) == first_line(example.shown), command
        printed.append((" ".join(words[1:3]), text))
        if found := re.search(r"by the rule (\w+)", text):
            rule = found[1]
    hold(printed)


def hold(printed: list[tuple[str, str]]) -> None:
    """What each command must have said of the made log."""
    why = [text for command, text in printed if command.startswith("why")]
    assert f"  +{WAVE}  spam.example\n" in why[0] and f"  +{WAVE}  {KEY}" in why[0]
    assert f"  +{WAVE}  spam.example\n" in why[1] and "spam.example" not in why[2]
    totals = [int(text.split()[1]) for command, text in printed if command.startswith("total")]
    people, bots = 20, 2
    assert totals == [people, bots + WAVE, people + WAVE, people], "without it, bots, undone, kept out by the rule"
    values = [text for command, text in printed if command.startswith("by")]
    assert values[0].splitlines()[1].split()[:2] == ["spam.example", str(WAVE)] and "spam.example" not in values[1]
    tried = [text for command, text in printed if command == "bots try"]
    assert f"would take {WAVE} of the hits" in tried[0] and f"would take {OWN} of the hits" in tried[1]
    (dry, called, listed, undone) = (text for command, text in printed if command.startswith("disavow"))
    assert dry.startswith(f"{WAVE} hits of ref spam.example") and "would be called bots" in dry
    assert called.startswith(f"{WAVE} hits") and "settled" in listed and undone.startswith("undone: ")
