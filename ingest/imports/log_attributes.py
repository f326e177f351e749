"""The attributes in a line of an access log: referrer, address, agent, and the campaign in the link's query.

What a field of a hit may not hold is left out: a log holds whatever clients sent. Of a referrer the host is kept.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple

from clickcurve.access_log import parse_log_line, split_request, unescape
from clickcurve.buckets.errors import HitRejected
from ingest.attributes.campaign import campaign_of_query, source_of, utm_of
from ingest.attributes.country import address_of
from ingest.attributes.referrer import host_of
from ingest.attributes.text import utf8_text

# Fields of a hit that a line can fill. Of bots the agent alone says something.
OF_LINES = ("ip", "ref", "ua", "source", "utm")
_MAX_KNOWN = 65_536  # addresses, referrers or queries kept; then the dict starts again
_NO_FIELDS: dict[str, object] = {}


class LineAttributes(NamedTuple):
    """The attributes of a line, as the log has them; "" where one is absent or not wanted."""

    before: str = ""  # the address, and what else stands before the time
    referrer: str = ""
    agent: str = ""
    query: str = ""


NOTHING = LineAttributes()


class LogAttributes:
    """Turns the attributes of lines into fields of hits. only: the fields to fill; None: all that are wanted."""

    def __init__(self, only: Collection[str] | None = None) -> None:
        self._only = frozenset(OF_LINES if only is None else only)
        self._addresses: dict[str, str] = {}
        self._hosts: dict[str, str] = {}
        self._campaigns: dict[str, dict[str, object]] = {}
        self.use(())

    def use(self, wanted: Collection[str]) -> None:
        """Fills only these fields from now on: the target of the import uses them."""
        self.wanted = self._only & frozenset(wanted) & frozenset(OF_LINES)
        self._wants_query = not self.wanted.isdisjoint(("source", "utm"))
        self._campaigns.clear()

    def of_parts(self, before: str, referrer: str, agent: str, request: str, bot: bool) -> LineAttributes:
        """Returns what is wanted of a line that was split already."""
        agent = agent if "ua" in self.wanted else ""
        if bot:
            return LineAttributes(agent=agent) if agent else NOTHING
        query = request.partition("?")[2] if self._wants_query else ""
        return LineAttributes(
            before.partition(" ")[0] if "ip" in self.wanted else "",
            referrer if "ref" in self.wanted else "",
            agent,
            query.partition(" ")[0],
        )

    def of_line(self, line: str, bot: bool) -> LineAttributes:
        """Returns what is wanted of a line of text; a line of another format has none."""
        parts = parse_log_line(line)
        if parts is None:
            return NOTHING
        _, target = split_request(parts.request)
        return self.of_parts(parts.before, parts.referrer or "", parts.agent or "", target, bot)

    def fields(self, line: LineAttributes) -> dict[str, object]:
        """Returns the attributes of a line as fields of a hit."""
        fields = dict(self._campaign(line.query)) if line.query else {}
        if line.before and (address := self._address(line.before)):
            fields["ip"] = address
        if line.referrer and (host := self._host(line.referrer)):
            fields["ref"] = host
        if line.agent not in ("", "-"):
            fields["ua"] = utf8_text(unescape(line.agent))
        return fields

    def _address(self, text: str) -> str:
        address = self._addresses.get(text)
        if address is None:
            try:
                address = address_of(text)
            except HitRejected:
                address = ""
            _note_known(self._addresses, text, address)
        return address

    def _host(self, text: str) -> str:
        host = self._hosts.get(text)
        if host is None:
            host = host_of(utf8_text(unescape(text)))
            _note_known(self._hosts, text, host)
        return host

    def _campaign(self, query: str) -> dict[str, object]:
        campaign = self._campaigns.get(query)
        if campaign is None:
            campaign = self._campaign_fields(query)
            if len(self._campaigns) >= _MAX_KNOWN:
                self._campaigns.clear()
            self._campaigns[query] = campaign
        return campaign

    def _campaign_fields(self, query: str) -> dict[str, object]:
        source, utm = campaign_of_query(utf8_text(query))
        fields: dict[str, object] = {}
        with suppress(HitRejected):
            if source and "source" in self.wanted:
                fields["source"] = source_of(source)
        with suppress(HitRejected):
            if utm and "utm" in self.wanted:
                fields["utm"] = utm_of(utm)
        return fields or _NO_FIELDS


def _note_known(values: dict[str, str], text: str, value: str) -> None:
    if len(values) >= _MAX_KNOWN:
        values.clear()
    values[text] = value
