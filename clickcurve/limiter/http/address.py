"""The address of a caller, from the connection and from what trusted proxies say. Pure.

Only a connection's own address can be believed. So a header that names clients counts only where the connection comes
from a trusted proxy, and is read from its end: each proxy adds the address that it was called from, so the last one
that is not a trusted proxy is the client. What stands before it is the client's own claim.

Only one header is read, the one that the proxies write: any other passes through them as the client made it up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, TypeAlias

from clickcurve.buckets.errors import ParameterInvalid

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

IPV6_PREFIX = 64
LOCAL_SOCKET = "unix"  # stands for a peer without an address, which nginx writes as `unix:`
HEADERS = ("x-forwarded-for", "forwarded")
NETWORKS_RULE = "addresses and networks such as 10.0.0.0/8, 2001:db8::/32, with commas between them, or unix"

_WITH_PORT = re.compile(
    r"\[([^\]]*)\](?::[0-9]+)?|([0-9A-Fa-f:.]*\.[0-9]+):[0-9]+"
)  # the last part of 1.2.3.4, then a port
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+"')
_PAIRED = re.compile(r'[^"]*+(?:"(?:[^"\\]|\\.)*+"[^"]*+)*+')
_PAIR = re.compile(r'\s*([\w!#$%&\'*+.^`|~-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))\s*(?:;|$)', re.ASCII)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Names callers by their addresses.

    trusted: the networks of one's own proxies. ipv6_prefix: IPv6 addresses count by networks of this width, since a
    household has 2^64 of them or more. header: the one of HEADERS that the proxies write.
    """

    trusted: tuple[Network, ...] = ()
    trusts_local_socket: bool = False
    ipv6_prefix: int = IPV6_PREFIX
    header: str = HEADERS[0]

    def __post_init__(self) -> None:
        if not 1 <= self.ipv6_prefix <= 128:
            raise ParameterInvalid(
                "an IPv6 prefix has 1 to 128 bits", field="ipv6_prefix", value=self.ipv6_prefix, rule="1 to 128"
            )
        if self.header not in HEADERS:
            raise ParameterInvalid(
                f"{self.header} is not a header that names clients",
                field="header",
                value=self.header,
                rule="one of " + ", ".join(HEADERS),
            )

    def name(self, text: str) -> str:
        """Returns an address in the one form under which it counts; another text as it is.

        An IPv6 address counts as its network, an IPv4-mapped one as IPv4. Brackets, a port and blanks are left out:
        each connection of a caller has another port.
        """
        address = address_in(text)
        if address is None:
            return text
        if isinstance(address, IPv4Address) or self.ipv6_prefix == 128:
            return str(address)
        host_bits = 128 - self.ipv6_prefix
        return f"{IPv6Address(int(address) >> host_bits << host_bits)}/{self.ipv6_prefix}"

    def client(self, scope: Mapping[str, Any], header: str = "") -> str:
        """Returns the caller of an ASGI request, never empty. All callers over an untrusted local socket are one.

        header: the field that names the caller, if it is another one than usual; any name may stand there.
        """
        peer: str = (scope.get("client") or (LOCAL_SOCKET, 0))[0] or LOCAL_SOCKET
        if not (self.trusted or self.trusts_local_socket) or not self.trusts(peer):
            return self.name(peer)
        for peer in self._claimed(scope["headers"], header or self.header):
            if not self.trusts(peer):
                break
        return self.name(peer) or "unknown"

    def _claimed(self, headers: Iterable[tuple[bytes, bytes]], header: str) -> Iterator[str]:
        """Yields the addresses that the header names, from its end. It may be long: no more is read than is used."""
        wanted = header.encode()
        lines = [value.decode("latin-1") for name, value in headers if name == wanted]
        for line in reversed(lines):
            if header == "forwarded":
                yield from map(_for_of, reversed(_elements(line)))
            else:
                yield from map(_without_port, reversed(line.split(",")))

    def trusts(self, text: str) -> bool:
        """Returns whether an address is that of one's own proxy."""
        address = address_in(text)
        if address is None:
            return self.trusts_local_socket and text in (LOCAL_SOCKET, LOCAL_SOCKET + ":")
        return any(address in network for network in self.trusted)


def addresses(trusted: str, ipv6_prefix: int = IPV6_PREFIX, header: str = HEADERS[0]) -> Addresses:
    """Makes Addresses of trusted proxies written as `10.0.0.0/8, unix`. ParameterInvalid says what is wrong."""
    parts = [part.strip() for part in trusted.split(",") if part.strip()]
    networks = tuple(_network(part) for part in parts if part != LOCAL_SOCKET)
    return Addresses(networks, LOCAL_SOCKET in parts, ipv6_prefix, header)


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise ParameterInvalid(
            f"{text!r} is not a network: {error}", field="trusted_proxies", value=text, rule=NETWORKS_RULE
        ) from None


def address_in(text: str) -> Address | None:
    """Returns the address in a text, which may have brackets, a port and blanks around it; None without one.

    A zone (`fe80::1%eth0`) is left out; IPv4 in IPv6 is IPv4.
    """
    try:
        address = ip_address(text)
    except ValueError:
        bare = _without_port(text)
        return address_in(bare) if bare != text else None
    if isinstance(address, IPv6Address):
        return address.ipv4_mapped or (address if address.scope_id is None else IPv6Address(int(address)))
    return address


def _without_port(text: str) -> str:
    text = text.strip()
    match = _WITH_PORT.fullmatch(text)
    return (match[1] or match[2] or "") if match else text


def _elements(line: str) -> list[str]:
    """Splits a Forwarded header (RFC 7239) at the commas between its elements.

    A client may leave a quotation open, to swallow what the proxy adds. Where quotation marks do not pair up, every
    comma ends an element; so the proxy's own stays the last.
    """
    if not _PAIRED.fullmatch(line):
        return line.split(",")
    # A line break is in no header, so it can stand for a comma within quotation marks.
    hidden = _QUOTED.sub(lambda quoted: quoted[0].replace(",", "\n"), line)
    return [element.replace("\n", ",") for element in hidden.split(",")]


def _for_of(piece: str) -> str:
    """Returns the value of `for` in one element, `unknown` without one.

    It is read pair by pair, since a quoted value may hold what looks like another pair.
    """
    at = 0
    while pair := _PAIR.match(piece, at):
        if pair[1].lower() == "for":
            return _without_port(re.sub(r"\\(.)", r"\1", pair[2] or pair[3] or "")) or "unknown"
        at = pair.end()
    return "unknown"
