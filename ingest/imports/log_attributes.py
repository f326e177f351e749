"""The attributes in a line of an access log: referrer, address, agent, and the campaign in the link's query.

What a field of a hit may not hold is left out: a log holds whatever clients sent. Of a referrer the host is kept.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from clickcurve.access_log import unescape
from clickcurve.buckets.errors import HitRejected
from ingest.attributes.campaign import campaign_of_query, source_of, utm_of
from ingest.attributes.country import address_of
from ingest.attributes.referrer import host_of
from ingest.attributes.text import utf8_text
from ingest.hit import Judge

# Fields of a hit that a line can fill. Of bots the agent alone says something.
OF_LINES = ("ip", "ref", "ua", "source", "utm")


class Campaign(NamedTuple):
    """What the query of a link names. utm: pairs of name and value."""

    source: str | None
    utm: tuple[tuple[str, str], ...] | None


def address_in_log(text: str) -> str | None:
    """Returns the address at the beginning of a line; None if there is none."""
    try:
        return address_of(text)
    except HitRejected:
        return None


def referrer_in_log(text: str) -> str | None:
    """Returns the host of a referrer; None if there is none."""
    return host_of(utf8_text(unescape(text))) or None


def agent_in_log(is_bot: Judge, wanted: bool, text: str) -> tuple[bool, str | None]:
    """Returns whether an agent is a bot's, and the agent if it is wanted and there is one."""
    if text in ("", "-"):
        return False, None
    agent = unescape(text)
    return is_bot(agent), utf8_text(agent) if wanted else None


def campaign_in_log(wanted: frozenset[str], query: str) -> Campaign | None:
    """Returns the source and the campaign in a query, as far as they are wanted; None where there is none."""
    named_source, named_utm = campaign_of_query(utf8_text(query), wanted)
    source = utm = None
    if named_source:
        with suppress(HitRejected):
            source = source_of(named_source)
    if named_utm:
        with suppress(HitRejected):
            utm = tuple(utm_of(named_utm).items())
    return None if source is None and utm is None else Campaign(source, utm)
