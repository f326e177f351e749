"""Commands that talk to a server: what they send, when they try again, and what they say when it fails."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from clickcurve.buckets.errors import ParameterInvalid
from server.cli.client.api import TRIES, NamedServer, group_path, link_path
from server.cli.main import FAILED, UNREACHABLE, USAGE, Failed
from server.settings.reading import read_settings

Answer = httpx.Response | Exception
GOOD = {"counted": 1, "duplicate": 0, "late": 0, "refused": 0, "items": []}


class Server:
    """Answers in turn, and remembers what was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[httpx.Request] = []
        self.waited: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

    def client(self, token: str = "") -> NamedServer:
        return NamedServer(read_settings({"token": token}, {}), httpx.MockTransport(self), self.waited.append)


def problem(status: int, **headers: str) -> httpx.Response:
    return httpx.Response(status, json={"title": "journal full", "detail": "no room"}, headers=headers)


def send(server: Server) -> httpx.Response:
    return server.client().send("/v1/hits", b"{}", {"Idempotency-Key": "k"})


def test_the_token_is_shown_and_parameters_that_are_not_given_are_left_out() -> None:
    server = Server(httpx.Response(200, json={}))
    server.client("cc_x").get("/v1/total", {"last": "7d", "from": None})
    assert server.asked[0].headers["Authorization"] == "Bearer cc_x"
    assert str(server.asked[0].url) == "http://127.0.0.1:8080/v1/total?last=7d"


def test_a_key_is_one_percent_encoded_part_of_the_path() -> None:
    assert link_path("a/b ü", "curve") == "/v1/links/a%2Fb%20%C3%BC/curve"
    assert link_path("%2F") == "/v1/links/%252F"
    assert link_path(None, "total") == "/v1/total"


def test_a_name_that_is_empty_as_of_an_unset_variable_is_refused_by_name() -> None:
    with pytest.raises(ParameterInvalid, match="key is empty"):
        link_path("", "total")
    with pytest.raises(ParameterInvalid, match="the name of the group is empty"):
        group_path("")


def test_certainly_not_counted_is_tried_again_after_the_named_pause_with_the_same_id() -> None:
    server = Server(problem(503, **{"Retry-After": "7"}), problem(429), httpx.Response(200, json=GOOD))
    assert send(server).status_code == 200
    assert server.waited == [7.0, 2.0]
    assert {request.headers["Idempotency-Key"] for request in server.asked} == {"k"}


def test_a_lost_answer_is_tried_again_only_under_an_id() -> None:
    lost = httpx.RemoteProtocolError("gone")
    server = Server(lost, httpx.Response(200, json=GOOD))
    assert send(server).status_code == 200
    server = Server(lost, httpx.Response(200, json=GOOD))
    with pytest.raises(Failed, match="broke: gone") as failed:
        server.client().send("/v1/hits", b"{}", {})
    assert failed.value.exit_code == UNREACHABLE
    assert len(server.asked) == 1


def test_it_gives_up_after_some_tries() -> None:
    server = Server(problem(503))
    with pytest.raises(Failed, match="the server says: journal full: no room") as failed:
        send(server)
    assert failed.value.exit_code == UNREACHABLE
    assert len(server.asked) == TRIES


def test_a_receipt_full_of_refusals_is_an_answer() -> None:
    server = Server(httpx.Response(422, json={**GOOD, "counted": 0, "refused": 1}))
    assert send(server).json()["refused"] == 1


@pytest.mark.parametrize(
    ("answer", "sentence", "code"),
    [
        (problem(422), "the server says: journal full: no room", USAGE),
        (problem(401), "the server says: journal full: no room", FAILED),
        (httpx.Response(404, text="nginx"), "http://127.0.0.1:8080/v1/total answered 404 Not Found", FAILED),
        (httpx.Response(200, text="<html>"), None, None),
        (httpx.ConnectError("refused"), "no server answers at http://127.0.0.1:8080", UNREACHABLE),
    ],
)
def test_failures_are_sentences_with_an_exit_code(answer: Answer, sentence: str | None, code: int | None) -> None:
    ask: Callable[[], httpx.Response] = lambda: Server(answer).client().get("/v1/total", {})  # noqa: E731
    if sentence is None:
        assert ask().text == "<html>"
        return
    with pytest.raises(Failed) as failed:
        ask()
    assert sentence in failed.value.message
    assert failed.value.exit_code == code
