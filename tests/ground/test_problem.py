"""Errors as documents: one style, one rule for Retry-After."""

from __future__ import annotations

import json

import pytest

from clickcurve.buckets import errors
from clickcurve.buckets.errors import (
    ClickcurveError,
    JournalBehind,
    MethodNotAllowed,
    ParameterInvalid,
    StoreUnavailable,
    shown,
)
from clickcurve.problem import error_headers, problem, problem_answer, problem_body

FAMILY = [error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, ClickcurveError)]


def test_a_document_is_compact_and_leaves_out_what_is_not_there() -> None:
    assert problem_body(404, "not found", "no such thing") == (
        b'{"title":"not found","status":404,"detail":"no such thing"}'
    )
    error = ParameterInvalid("ü is wrong", field="from", value="ü", rule="a time")
    assert json.loads(problem(error).body["body"]) == {
        "title": "invalid parameter",
        "status": 422,
        "detail": "ü is wrong",
        "field": "from",
        "value": "ü",
        "rule": "a time",
    }


@pytest.mark.parametrize("kind", FAMILY)
def test_every_429_and_503_says_when_to_try_again(kind: type[ClickcurveError]) -> None:
    error = kind("it is so")
    headers = dict(problem(error).start["headers"])
    assert (b"retry-after" in headers) == (error.status in (429, 503))
    assert headers[b"content-type"] == b"application/problem+json"
    assert (problem(error).status, headers[b"content-length"]) == (
        error.status,
        b"%d" % len(problem(error).body["body"]),
    )


def test_an_error_carries_what_a_client_needs_next() -> None:
    assert error_headers(JournalBehind("x")) == ((b"retry-after", b"1"),)
    assert error_headers(StoreUnavailable("x")) == ((b"retry-after", b"5"),)
    assert error_headers(MethodNotAllowed("x", rule="GET, HEAD")) == ((b"allow", b"GET, HEAD"),)
    assert error_headers(ParameterInvalid("x")) == ()


def test_further_headers_are_kept() -> None:
    answer = problem_answer(405, "method not allowed", "hits are sent by POST", ((b"allow", b"POST"),))
    assert (answer.status, dict(answer.start["headers"])[b"allow"]) == (405, b"POST")


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        (True, True),
        (7, 7),
        (2**63, str(2**63)),
        (0.5, 0.5),
        (float("nan"), "nan"),
        (b"\xff", "\ufffd"),
        ("\ud800", "\\ud800"),
        ((60, 300), "(60, 300)"),
        ("x" * 201, "x" * 200 + "…"),
    ],
)
def test_a_value_is_shown_short_and_in_json(value: object, plain: object) -> None:
    assert shown(value) == plain
    json.dumps(shown(value), allow_nan=False).encode()
