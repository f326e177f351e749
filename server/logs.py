"""Logs on standard error, ours and those of the libraries alike: one JSON object a line, on a terminal sentences.

A person at a terminal reads warnings and errors, and the address to open; a flush every 15 seconds would push it away.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

from clickcurve.buckets.errors import JournalUnknown
from clickcurve.visible import json_line, visible

log = logging.getLogger("clickcurve")

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class JsonLine(logging.Formatter):
    """`time`, `level`, `event` (the message), then the record's extra fields in the order given."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        if not record.name.startswith("clickcurve"):
            line["from"] = record.name
        line.update((name, value) for name, value in vars(record).items() if name not in _STANDARD)
        if record.exc_info and record.exc_info[1] is not None:
            line["traceback"] = self.formatException(record.exc_info)
        return json_line(line)  # a stranger may have written any of it


class Sentence(logging.Formatter):
    """The level and the event, then the extra fields; a traceback is on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        fields = [f"{name}: {value}" for name, value in vars(record).items() if name not in _STANDARD]
        sentence = visible(", ".join([f"{record.levelname.capitalize()}: {record.getMessage()}", *fields]))
        if record.exc_info and record.exc_info[1] is not None:
            sentence = "\n".join([sentence, *map(visible, self.formatException(record.exc_info).split("\n"))])
        return sentence


def without_traceback(record: logging.LogRecord) -> bool:
    """Makes a warning of what uvicorn says when a request is left unanswered because nobody knows whether it counts.

    The exception is how the connection is closed then; where the journal is in a cluster that happens now and then.
    Returns True: the record is logged.
    """
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, JournalUnknown):
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.msg, record.args, record.exc_info = "request unanswered", (), None
        record.__dict__["reason"] = error.detail
    return True


def start(stream: TextIO | None = None) -> None:
    """Sends all logs to the stream (standard error). Libraries are heard from warnings on, on a terminal all are."""
    stream = stream or sys.stderr
    people = stream.isatty()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(Sentence() if people else JsonLine())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    log.setLevel(logging.WARNING if people else logging.INFO)
    logging.getLogger("uvicorn.error").addFilter(without_traceback)
    # It reports each skipped run of a job; the schedule counts those itself.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
