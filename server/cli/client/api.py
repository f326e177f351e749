"""How commands talk to a running server: one httpx client, errors as sentences, retries where they are safe."""

from __future__ import annotations

import functools
import ipaddress
import json
from collections.abc import Callable, Mapping
from typing import Any, Self
from urllib.parse import quote, urlsplit

import httpx

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.keys import GROUP_RULE, require_key
from server import clock
from server.cli.main import FAILED, UNREACHABLE, USAGE, Failed
from server.cli.options import Command, with_settings
from server.settings.table import Settings

TIMEOUT_S = 60.0
TRIES = 6
LONGEST_WAIT_S = 30.0
Query = Mapping[str, str | int | None]  # parameters that are None are left out
NO_QUERY: Query = {}


def link_path(key: str | None, question: str = "") -> str:
    """Returns the path of a question about one link, or (key None) about all links together."""
    return "/v1/" + question if key is None else _path("links", require_key(key, ParameterInvalid), question)


def group_path(name: str, question: str = "") -> str:
    """Returns the path of a question about a group."""
    if not name:
        raise ParameterInvalid("the name of the group is empty", field="group", value="", rule=GROUP_RULE)
    return _path("groups", name, question)


def segment_of(text: str) -> str:
    """Returns a text as one segment of a path."""
    segment = quote(text, safe="")
    # `.` and `..` alone are steps in a path, which clients take.
    return segment if segment.strip(".") else segment.replace(".", "%2E")


def _path(kind: str, name: str, question: str) -> str:
    path = f"/v1/{kind}/{segment_of(name)}"
    return f"{path}/{question}" if question else path


class NamedServer:
    """Talks to the server that the settings name. Raises Failed, a sentence with an exit code.

    unit: how the settings here show the values of an event.
    """

    def __init__(
        self,
        settings: Settings,
        transport: httpx.BaseTransport | None = None,
        pause: Callable[[float], None] = clock.pause,
    ) -> None:
        self.url = settings.url
        self.unit = settings.unit
        self._pause = pause
        headers = {"Authorization": f"Bearer {settings.token}"} if settings.token else {}
        self._http = httpx.Client(
            base_url=settings.url,
            headers=headers,
            timeout=TIMEOUT_S,
            transport=transport,
            trust_env=not is_here(settings.url),  # no proxy between two programs of one machine
        )

    def get(self, path: str, query: Query, accept: str = "application/json") -> httpx.Response:
        """Returns the answer to a question."""
        return self._judged(self._try("GET", path, query, headers={"Accept": accept}))

    def call(self, path: str, query: Query, body: object) -> Any:
        """Sends a command that is the same one when it is sent again; returns what the answer says."""
        return self._judged(self._try("POST", path, query, json=body)).json()

    def delete(self, path: str, query: Query = NO_QUERY) -> httpx.Response:
        """Deletes what the path and the query name; returns the answer."""
        return self._checked(self._try("DELETE", path, query))

    def ask(self, path: str, query: Query) -> Any:
        """Returns what the answer to a question says."""
        answer = self.get(path, query)
        try:
            return answer.json()
        except ValueError as error:
            raise Failed(f"{answer.request.url} does not answer in JSON: is {self.url} a Clickcurve server?") from error

    def send(self, path: str, body: bytes, headers: Mapping[str, str]) -> httpx.Response:
        """Sends a write and returns the answer, perhaps after several tries.

        A write without an Idempotency-Key is tried again only after an answer that says that nothing was counted.
        422 is not a failure here: its body is a receipt.
        """
        repeatable = "Idempotency-Key" in headers
        answer = self._try("POST", path, NO_QUERY, repeatable, content=body, headers=headers)
        return answer if answer.status_code == 422 and _is_receipt(answer) else self._checked(answer)

    def pass_on(self, path: str, body: bytes, headers: Mapping[str, str]) -> httpx.Response:
        """Sends a body that changes nothing, and returns the answer whatever it says."""
        return self._try("POST", path, NO_QUERY, content=body, headers=headers)

    def _try(self, method: str, path: str, query: Query, repeatable: bool = True, **more: Any) -> httpx.Response:
        given = {name: value for name, value in query.items() if value is not None}
        for tried in range(1, TRIES + 1):
            wait_s = min(2.0 ** (tried - 1), LONGEST_WAIT_S)
            try:
                answer = self._http.request(method, path, params=given, **more)
            except httpx.ConnectError as error:
                raise Failed(
                    f"no server answers at {self.url}; start one with `clickcurve serve`, or name yours by --url",
                    UNREACHABLE,
                ) from error
            except httpx.TransportError as error:
                if not repeatable or tried == TRIES:
                    raise Failed(
                        f"the connection to {self.url} broke: {error or type(error).__name__}", UNREACHABLE
                    ) from error
            else:
                if answer.status_code not in (429, 503) or tried == TRIES:
                    return answer
                wait_s = min(_retry_after_s(answer.headers.get("Retry-After")) or wait_s, LONGEST_WAIT_S)
            self._pause(wait_s)
        raise AssertionError("the last try returns or raises")

    def _judged(self, answer: httpx.Response) -> httpx.Response:
        if answer.status_code == 422:  # a value of a flag, which the server judges
            raise Failed(problem_sentence(answer), USAGE, problem_of(answer))
        return self._checked(answer)

    def _checked(self, answer: httpx.Response) -> httpx.Response:
        if answer.is_success:
            return answer
        code = UNREACHABLE if answer.status_code in (502, 503, 504) else FAILED
        raise Failed(problem_sentence(answer), code, problem_of(answer))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()


def with_server(command: Command) -> Command:
    """Gives a command flags that name a server, and hands it that server as `server`, open while the command runs."""

    @with_settings("url", "token", "config")
    @functools.wraps(command)
    def wrapped(settings: Settings, **given: Any) -> Any:
        if "tz" in given:
            given["tz"] = given["tz"] or settings.home_tz or None
        with NamedServer(settings) as server:
            return command(server=server, **given)

    return wrapped


def problem_sentence(answer: httpx.Response) -> str:
    """Returns what a problem document says, or the bare status where there is none."""
    problem = problem_of(answer)
    if problem is None:
        return f"{answer.request.url} answered {answer.status_code} {answer.reason_phrase}"
    return f"the server says: {problem['title']}: {problem['detail']}"


def problem_of(answer: httpx.Response) -> dict[str, Any] | None:
    """Returns the problem document of an answer, if it is one."""
    try:
        problem = answer.json()
    except ValueError:
        return None
    return problem if isinstance(problem, dict) and {"title", "detail"} <= problem.keys() else None


def _is_receipt(answer: httpx.Response) -> bool:
    try:
        return "refused" in json.loads(answer.content)
    except (ValueError, TypeError):
        return False


def _retry_after_s(text: str | None) -> float | None:
    return float(text) if text and text.isascii() and text.isdigit() else None


def is_here(url: str) -> bool:
    """Returns whether the server runs on this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
