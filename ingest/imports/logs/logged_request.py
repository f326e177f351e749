"""What a line of any access log says: the one shape that all formats give."""

from __future__ import annotations

from typing import NamedTuple


class LineBad(Exception):
    """A line has no known format, or an impossible time; the text says why."""


class LoggedRequest(NamedTuple):
    """What a line says; "" where it says nothing. Escapes of the log are undone, those of the URL are not.

    target: path and query, or a whole URL. second: epoch seconds. status: three digits. client: the address of who
    asked, perhaps with a port or as a list whose first one it is. scheme: http, https or "". format: its name.
    behind: the fields behind those that the format knows.
    """

    method: str
    target: str
    second: int
    status: str
    host: str = ""
    client: str = ""
    referrer: str = ""
    agent: str = ""
    scheme: str = ""
    format: str = ""
    behind: str = ""


def no_dash(text: str) -> str:
    """Returns a text; "" for the dash by which logs say that there is none."""
    return "" if text == "-" else text
