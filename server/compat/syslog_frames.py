"""Syslog's messages: how they are cut out of a stream, and what stands before the line of a log.

    <190>Nov 28 10:00:00 web1 nginx: 203.0.113.7 - - [...      RFC 3164; nginx, rsyslog, Docker, logger
    <190>1 2026-11-28T10:00:00Z web1 nginx 12 - - 203...       RFC 5424
    {"level":"info","request":{...                             neither, over TCP: Caddy's `output net`

Sources: RFC 3164; RFC 5424, "6. Syslog Message Format"; RFC 6587, "3.4. Method of Framing" (octets that are counted
before a message, or a newline behind it); nginx's documentation, "Logging to syslog".
"""

from __future__ import annotations

import re

from ingest.imports.log_body import LONGEST_LINE

LONGEST_MESSAGE = LONGEST_LINE + 2_048  # with what stands before the line
_COUNTED = re.compile(rb"([1-9][0-9]{0,5}) <")
# RFC 5424: six fields and elements of data in brackets. RFC 3164: the time, perhaps a host, and a program. A program
# ends with a colon and a blank, so an IPv6 address without one before it stays; a host does not end with a colon.
_HEADER = re.compile(
    rb"<[0-9]{1,3}>(?:"
    rb'1 (?:[^ ]++ ){5}(?:-|(?:\[(?:[^\]"]|"(?:[^"\\]|\\.)*+")*+\])++)(?: |\Z)(?:\xef\xbb\xbf)?+'
    rb"|(?:[A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8}|[0-9]{4}-[0-9-]{5}T[0-9:.+Z-]{8,24}) "
    rb"(?:(?:[^ ]{0,255}[^ :] )?[\w./@%-]{1,128}(?:\[[^\] ]{0,64}\])?: )?"
    rb")",
    re.DOTALL,
)
_PRIORITY = re.compile(rb"<[0-9]{1,3}>")


class FramesBroken(Exception):
    """A message is longer than any may be: nobody knows where the next one begins."""


class Frames:
    """Cuts what comes over one connection into messages."""

    def __init__(self) -> None:
        self._left = bytearray()
        self._looked = 0  # bytes of it without a newline

    @property
    def is_open(self) -> bool:
        """Whether a message has begun that has no end yet."""
        return bool(self._left)

    def feed(self, data: bytes) -> list[bytes]:
        """Returns the messages that are whole now; raises FramesBroken."""
        left = self._left
        left += data
        messages = []
        while left:
            counted = _COUNTED.match(left)
            begin = counted.end() - 1 if counted else 0
            end = begin + int(counted[1]) if counted else left.find(b"\n", self._looked)
            if (len(left) if end < 0 else end - begin) > LONGEST_MESSAGE:
                raise FramesBroken
            if not 0 <= end <= len(left):
                self._looked = 0 if counted else len(left)
                break
            if end > begin:
                messages.append(bytes(left[begin:end]))
            del left[: end if counted else end + 1]
            self._looked = 0
        return messages


def line_of(message: bytes) -> bytes:
    """Returns the line of a log in a message, without what stands before it."""
    header = _HEADER.match(message) or _PRIORITY.match(message)
    return (message[header.end() :] if header else message).rstrip(b"\r\n\0")
