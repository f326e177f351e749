"""How many connections each address has open, so that no address takes the place of all others.

A proxy of one's own, and every program of this machine, speaks for many: they are not counted. Nothing is known of whom
a proxy speaks for until a request came, and by then the connection is there; so the proxy has to bound its clients.
"""

from __future__ import annotations

from collections import Counter

from clickcurve.limiter.http.address import Addresses
from server.settings.table import ADDRESS_CONNECTIONS
from server.settings.values import is_loopback


class AddressConnections:
    """The open connections of a worker by address; `most` of each, 0 for no bound."""

    def __init__(self, addresses: Addresses, most: int = ADDRESS_CONNECTIONS) -> None:
        self._addresses = addresses
        self._most = most
        self._open: Counter[str] = Counter()

    def name(self, client: tuple[str, int] | None) -> str | None:
        """Returns the name that a client counts by, its network if IPv6; None if it is not counted."""
        if not self._most or client is None or self._addresses.trusts(client[0]):
            return None
        name = self._addresses.name(client[0])  # of ::ffff:127.0.0.1 it is 127.0.0.1
        return None if is_loopback(name) or is_loopback(client[0]) else name

    def enter(self, name: str | None) -> bool:
        """Counts a connection, unless its address has as many as it may."""
        if name is None:
            return True
        if self._open[name] >= self._most:
            return False
        self._open[name] += 1
        return True

    def leave(self, name: str | None) -> None:
        """Takes a connection back that was counted."""
        if name is not None:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]
