"""A campaign of random requests at every route, from all scopes, beside hits.

Whatever is asked, no answer is a 5xx, nothing holds the event loop for long, hits are counted and memory stays flat. A
request during which the loop stood still is asked again alone: it counts only if the loop stands still each time, for
others use the machine, too. How much of the pause was work of the loop's own thread is told with it.
"""

from __future__ import annotations

import http.client
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from dashboard.page.login_routes import COOKIE
from server.tokens.token import Scope
from testing.client import http_client
from testing.tokens import add_token
from tests.hostile.loop_watch import HIT_P99_MAX, PAUSE_MAX, Pause, WatchedServer, read_pauses
from tests.hostile.piece import piece_s
from tests.hostile.random_requests import GOOD, KEYS, RandomRequest, random_requests

ANSWER_WITHIN_S = 30.0
AGAIN = 3  # times that a request is asked again
SLICE = 50  # requests, after which pauses are read
MOST_GROWTH_MIB = 100
RULES = '[limits.login]\nby = "user"\nrates = "5/m, 20/h"\n'
_Asked = tuple[float, float, RandomRequest, Mapping[str, str]]  # when it began and ended, what was asked, by whom


@dataclass
class Report:
    """What was asked, and what was wrong. memory_mib: the server's, at the ends of quarters."""

    answers: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    pauses: int = 0
    pauses_again: list[Pause] = field(default_factory=list)
    longest_s: float = 0.0
    hit_p99_ms: float = 0.0
    memory_mib: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        answers = ", ".join(f"{count:,} x {status}" for status, count in sorted(self.answers.items()))
        return (
            f"{self.requests.total():,} requests of {len(self.requests)} kinds: {answers}; "
            f"longest {self.longest_s:.2f} s; "
            f"p99 of hits {self.hit_p99_ms:.1f} ms; "
            f"{self.pauses} pauses longer than {PAUSE_MAX} pieces of work, {len(self.pauses_again)} of them each time; "
            f"memory {' '.join(map(str, self.memory_mib))} MiB\n" + "\n".join(self.wrong)
        )


class Campaign:
    """Asks one server, as each of these: nobody, a token of each scope, one with a prefix, a reader's page."""

    def __init__(self, folder: Path, seed: int) -> None:
        (folder / "data").mkdir(parents=True)
        (folder / "clickcurve.toml").write_text(RULES)
        file = folder / "data" / "tokens.json"
        by_scope = {each: add_token(file, each.value, (each,)) for each in Scope}
        customer = add_token(file, "customer", (Scope.write, Scope.read), prefix="k0")
        self._admin = by_scope[Scope.admin]
        bearers = [{"Authorization": f"Bearer {token}"} for token in (*by_scope.values(), customer)]
        self._callers: list[Mapping[str, str]] = [{}, *bearers, {"Cookie": f"{COOKIE}={by_scope[Scope.read]}"}]
        self._server = WatchedServer(folder / "data", "--config", str(folder / "clickcurve.toml"), "--flush-s", "2")
        self._pauses = folder / "data-pauses"
        self._seed = seed
        self.report = Report()

    def run(self, seconds: float) -> Report:
        """Asks for so long; returns what was seen."""
        with self._server as server:
            admin = {"Authorization": f"Bearer {self._admin}"}
            with http_client(server.url) as client:
                keys = [f"k{n:04}" for n in range(1_000)] + list(KEYS)
                moment = int(time.time())
                hits = [
                    {
                        "key": key,
                        "ts": moment - n * 40 * 86_400,
                        "ref": f"r{n}.example",
                        "country": "DE",
                        "groups": ["spring"],
                    }
                    for key in keys
                    for n in range(20)
                ]
                client.post("/v1/hits", json=hits, headers=admin).raise_for_status()
                document = client.get("/openapi.json", headers=admin).json()
                wish = {"do": "share", "days": "30", "token": self._admin}
                shares = client.post("/links/launch/share", data=wish).raise_for_status().text
                assets = client.get("/", headers=admin).raise_for_status().text
            known = {
                "signed": re.findall(r"/share/([\w.-]+)", shares),
                "name": [*GOOD["name"], *re.findall(r"static/([\w.-]+)", assets)],
                "token": [self._admin, "ck_0_0"],
            }
            watched = server.watch(f"Authorization: Bearer {self._admin}\r\n")
            with watched as seen:
                self._others = seen.others
                self._ask_for(seconds, random_requests(document, self._seed, known))
            self.report.hit_p99_ms = seen.hit_p99_ms
            if seen.hit_p99_ms > HIT_P99_MAX * seen.piece_ms:
                self.report.wrong.append(f"hits waited: {seen}")
        return self.report

    def _ask_for(self, seconds: float, requests: Iterator[RandomRequest]) -> None:
        end, quarters = time.monotonic() + seconds, [seconds * part / 4 for part in (3, 2, 1)]
        asked: list[_Asked] = []
        for number, request in enumerate(requests):
            asked.append(self._ask(request, self._callers[number % len(self._callers)]))
            if len(asked) == SLICE:
                self._look_at_pauses(asked)
                asked.clear()
            if quarters and end - time.monotonic() < quarters[0]:
                quarters.pop(0)
                self.report.memory_mib.append(memory_mib(self._server.pid))
            if time.monotonic() > end:
                break
        self._look_at_pauses(asked)
        self.report.memory_mib.append(memory_mib(self._server.pid))
        first, *_, last = self.report.memory_mib
        if last - first > MOST_GROWTH_MIB:
            self.report.wrong.append(f"memory grew from {first} to {last} MiB")

    def _ask(self, request: RandomRequest, caller: Mapping[str, str]) -> _Asked:
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=ANSWER_WITHIN_S)
        begun = time.monotonic()
        try:
            connection.request(request.method, request.target, request.body, {**request.headers, **caller})
            answer = connection.getresponse()
            status = str(answer.status)
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            status, body = type(error).__name__, b""
        finally:
            connection.close()
        ended = time.monotonic()
        self.report.answers[status] += 1
        self.report.requests[request.group] += 1
        self.report.longest_s = max(self.report.longest_s, ended - begun)
        if not status.isdigit() or int(status) >= 500:
            self.report.wrong.append(f"{status} after {ended - begun:.1f} s: {told(request)}: {body[:200]!r}")
        return begun, ended, request, caller

    def _look_at_pauses(self, asked: list[_Asked]) -> None:
        most_ms = PAUSE_MAX * piece_s() * 1000
        for begun, ended, request, caller in asked:
            pause = self._longest_pause(begun, ended)
            self.report.pauses += pause.ms > most_ms
            for _ in range(AGAIN):
                if pause.ms <= most_ms:
                    break
                begun, ended, _, _ = self._ask(request, caller)
                pause = min(pause, self._longest_pause(begun, ended))
            if pause.ms > most_ms:
                self.report.pauses_again.append(pause)
                self.report.wrong.append(f"the loop stood still each time ({pause}): {told(request)}")
        with suppress(FileNotFoundError):
            self._pauses.write_text("")  # read to the end

    def _longest_pause(self, begun_s: float, ended_s: float) -> Pause:
        return max(read_pauses(self._pauses, begun_s, ended_s, self._others), default=Pause(0.0, 0.0))


def told(request: RandomRequest) -> str:
    """Returns a request as a line."""
    body = "" if request.body is None else f" with {len(request.body):,} bytes {request.body[:300]!r}"
    headers = "".join(f" {name}: {text[:20]} ({len(text)})" for name, text in request.headers.items())
    return f"{request.method} {request.target[:500]} ({len(request.target):,} characters){headers}{body}"


def memory_mib(pid: int) -> int:
    """Returns the resident memory of a process."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) // 1024
