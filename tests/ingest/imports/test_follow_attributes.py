"""A followed log's words through kill -9 of either side: breakdowns are what ten lines of script count."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from testing.client import Clickcurve
from testing.program import running
from testing.server import RunningServer, command, run
from tests.conftest import Serve

LINES = 4_000
DIMENSIONS = ("ref", "device", "source", "utm_campaign")
REFERRERS = ("https://news.example/a?b", "https://www.blog.example/", "-", "https://shop.example:8443/x")
CAMPAIGNS = ("", "?utm_campaign=spring", "?utm_source=mail&utm_campaign=may", "?src=qr")
PHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0"
DESKTOP = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0"
AGENTS = (f"{PHONE} Mobile/15E148 Safari/604.1", f"{DESKTOP} Safari/537.36", "Googlebot/2.1")


def written(dice: random.Random) -> bytes:
    lines = []
    for n in range(LINES):
        clock = f"{n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}"
        asked = f"GET /k{dice.randrange(3)}{dice.choice(CAMPAIGNS)} HTTP/1.1"
        status = dice.choice((302, 302, 302, 404))
        said = f'"{dice.choice(REFERRERS)}" "{dice.choice(AGENTS)}"'
        lines.append(f'203.0.113.{n % 250} - - [17/May/2025:{clock} +0000] "{asked}" {status} 5 {said}\n')
    return "".join(lines).encode()


def plain_counts(log: bytes) -> dict[tuple[str, str], Counter[str]]:
    found: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for line in log.decode().splitlines():
        key, query, status, ref, agent = re.findall(r'GET /(\w+)(\?\S+|) HTTP/1.1" (\d+) 5 "(.*?)" "(.*?)"', line)[0]
        if status == "302" and "bot" not in agent:
            asked: dict[str, str] = dict(pair.split("=") for pair in query[1:].split("&") if pair)
            found[key, "ref"][re.sub(r"^https://(www\.)?|[:/].*|^-$", "", ref)] += 1
            found[key, "device"]["phone" if "iPhone" in agent else "desktop"] += 1
            found[key, "source"][asked.get("src", "")] += 1
            found[key, "utm_campaign"][asked.get("utm_campaign", "")] += 1
    return dict(found)


def divided(client: Clickcurve) -> dict[tuple[str, str], Counter[str]]:
    found = {}
    for key in ("k0", "k1", "k2"):
        for dimension in DIMENSIONS:
            answer = client.http.get(f"/v1/links/{key}/by/{dimension}").raise_for_status().json()
            assert answer["exact"] and answer["total"] == client.total(key)["total"]
            found[key, dimension] = Counter({each["value"]: each["at_least"] for each in answer["values"]})
    return found


def hits_of(counts: dict[tuple[str, str], Counter[str]]) -> int:
    return sum(counted.total() for (_, dimension), counted in counts.items() if dimension == "ref")


def has_counted(server: RunningServer, hits: int) -> bool:
    with Clickcurve(server.url) as client:
        return int(client.total()["total"]) >= hits


@pytest.mark.slow
def test_a_followed_logs_words_are_counted_once_through_kills_of_either_side(serve: Serve, tmp_path: Path) -> None:
    dice = random.Random(12)
    data = written(dice)
    log = tmp_path / "access.log"
    log.touch()
    server = serve("--breakdown-dimensions", ",".join(DIMENSIONS), "--flush-s", "1")
    follow = command("import", "--follow", str(log), "--url", server.url)
    cuts = [0, *sorted(dice.sample(range(len(data)), 4)), len(data)]
    with log.open("ab", buffering=0) as writing:
        for (start, end), victim in zip(pairwise(cuts), ("import", "server", "import", "both", None), strict=True):
            hits = hits_of(plain_counts(data[: data.rfind(b"\n", 0, end)]))
            with running(follow, tmp_path / "follow.out") as follower:
                writing.write(data[start : (start + end) // 2])
                follower.until(partial(has_counted, server, hits // 2))
                if victim in ("server", "both"):
                    server.kill()
                writing.write(data[(start + end) // 2 : end])
                if victim == "server":
                    server.start()
                if victim in ("server", None):
                    follower.until(partial(has_counted, server, hits))
                if victim is None:
                    assert follower.stop() == 0
            if victim == "both":
                server.start()
    wanted = plain_counts(data)
    with Clickcurve(server.url) as client:
        assert divided(client) == wanted
    assert "counted 0" in run("import", str(log), "--url", server.url).stdout
    server.stop()
    server.start()
    with Clickcurve(server.url) as client:
        assert divided(client) == wanted
    server.stop()
    assert run("verify", "--data", str(server.data)).returncode == 0
