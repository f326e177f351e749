"""Hosts in keys: whether `a.example/x` and `b.example/x` are one link, `x`, or two."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

IGNORED, IN_KEY = "ignored", "in_key"
CHOICES = (IGNORED, IN_KEY)
# Letters of any script, for internationalized names come in both forms; of the signs of ASCII only those of names. What
# strangers send as their host, such as `a.example,b.example` or `${jndi:...}`, would else make links and groups.
_NAME = r"[^\s\x00-\x1f\x7f!\"#$%&'()*+,/:;<=>?@\[\\\]^`{|}~]+"
_HOST = re.compile(rf"(?:{_NAME}|\[[0-9A-Fa-f:.]+\])(?::[0-9]{{0,5}})?")
_DEFAULT_PORT = re.compile(r":(?:80|443)?\Z")
_HOSTS_KEPT = 1_024  # of which it is remembered whether they are hosts


@dataclass(frozen=True, slots=True)
class Hosts:
    """What the keys of addresses say of their hosts.

    in_key: the host stands before the path, lower case, without a default port, else as sent. default: the host of
    addresses that name none.
    """

    in_key: bool = False
    default: str = ""

    @property
    def setting(self) -> str:
        """One of CHOICES."""
        return IN_KEY if self.in_key else IGNORED

    def key(self, path: str, host: str = "") -> str:
        """Returns the key of a path without its leading slash; "" without a path, or where a host is missing."""
        if not self.in_key or not path:
            return path
        host_or_default = host_of_key(host) or self.default
        return f"{host_or_default}/{path}" if host_or_default else ""

    def key_of_address(self, address: object) -> str:
        """Returns the key that a short address names, without its query; "" if it names none."""
        if not isinstance(address, str):
            return ""
        try:
            parts = urlsplit(address if "://" in address else f"//{address}")
        except ValueError:
            return ""
        return self.key(parts.path.removeprefix("/"), parts.netloc.rpartition("@")[2])


HOSTS_IGNORED = Hosts()


def host_in_key(key: str) -> str:
    """Returns the host that a key begins with, before its first slash; "" for a key that begins with none."""
    host, slash, path = key.partition("/")
    return host if slash and path and _is_host_of_key(host) else ""


@lru_cache(_HOSTS_KEPT)
def _is_host_of_key(text: str) -> bool:
    return host_of_key(text) == text


def host_of_key(text: str) -> str:
    """Returns a host as it stands in keys: lower case, without a default port; "" if the text is none."""
    return _DEFAULT_PORT.sub("", text).lower() if _HOST.fullmatch(text) else ""
