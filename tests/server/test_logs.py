"""What the log says of a request without an answer."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from clickcurve.buckets.errors import JournalUnknown
from server.logs import JsonLine, without_traceback


def line_of(error: Exception) -> dict[str, object]:
    """The line of what uvicorn logs when this error has ended a request."""
    try:
        raise error
    except Exception:
        record = logging.LogRecord("uvicorn.error", logging.ERROR, "", 0, "Exception\n", (), sys.exc_info())
    assert without_traceback(record)
    line: dict[str, object] = json.loads(JsonLine().format(record))
    return line


def test_a_request_that_nobody_knows_of_is_a_warning_with_its_reason() -> None:
    line = line_of(JournalUnknown("no answer within 4 s"))
    assert (line["level"], line["event"]) == ("warning", "request unanswered")
    assert line["reason"] == "no answer within 4 s"
    assert "traceback" not in line


@pytest.mark.parametrize("error", [ZeroDivisionError("oh"), ValueError("no")])
def test_any_other_error_has_its_traceback(error: Exception) -> None:
    line = line_of(error)
    assert line["level"] == "error"
    assert type(error).__name__ in str(line["traceback"])
