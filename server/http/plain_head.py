"""The head of a plain request, read at once by one expression. Pure.

It takes a part of what the parser takes, and reads it as the parser does: a target that needs no decoding, fields that
mean something here at most once each, and fields of other names with any value. What it does not take goes to the
parser, which alone decides what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Final, TypeAlias

from ingest.reading.hit_endpoint import NOT_PLAIN

# What a head with one of these means is for others to say: a page of another site, a cookie, another protocol.
_ODD: Final = NOT_PLAIN | {b"origin", b"sec-fetch-site", b"cookie", b"upgrade", b"trailer", b"proxy-connection"}
_READ: Final = (b"host", b"authorization", b"content-type", b"content-length", b"connection")


def _any_of(names: Iterable[bytes]) -> bytes:
    """Returns an expression for these names in any case, told apart by their first letter, which is faster."""
    by_letter = groupby(sorted(names), lambda name: name[:1])
    return b"|".join(
        b"[%s%s](?i:%s)" % (letter.upper(), letter, b"|".join(name[1:] for name in named))
        for letter, named in by_letter
    )


def _once(group: int, name: bytes, value: bytes) -> bytes:
    """Returns an expression for the line of a field that matches if this group has no value yet."""
    return rb"%s:[\t ]*+(?(%d)(?!)|(%s))\r\n" % (_any_of([name]), group, value)


# Possessive throughout: what one line has taken no later one needs, and nothing is tried twice.
_LINES: Final = (
    _once(3, b"host", rb"[!-~]++"),
    _once(4, b"authorization", rb"[!-~]++(?: [!-~]++)*+"),
    _once(5, b"content-type", rb"[!-~]++(?: [!-~]++)*+"),
    _once(6, b"content-length", rb"[0-9]{1,4}+"),
    rb"[Cc](?i:onnection):[\t ]*+(?i:keep-alive)\r\n",
    rb"(?!(?:%s):)[!#$%%&'*+.^_`|~0-9A-Za-z-]++:[\t -~\x80-\xff]*+\r\n" % _any_of([*_ODD, *_READ]),
)
_HEAD: Final = re.compile(
    rb"(POST|GET) (/[A-Za-z0-9._~/-]++) HTTP/1\.1\r\n(?:" + b"|".join(_LINES) + rb")*+(?(3)\r\n|(?!))"
)

PlainHead: TypeAlias = re.Match[bytes]

# Returns the head that bytes begin with: a match of method, target, host, authorization, content type, content length,
# None for a field that it lacks. None for a head that is not plain, or has not come whole.
read_head: Final[Callable[[bytes], PlainHead | None]] = _HEAD.match
