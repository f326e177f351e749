"""The tables `[matomo.SITE]` of the settings file: where the links of a site of Matomo's senders stand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clickcurve.access import PREFIX_BYTES, PREFIX_RULE
from clickcurve.buckets.errors import SettingInvalid, shown
from clickcurve.hosts import IN_KEY
from clickcurve.keys import GROUP_BYTES, GROUP_RULE

MATOMO = "matomo"
MOST_SITES = 10_000
_SITE = re.compile("[A-Za-z0-9_-]{1,64}")
_TEXTS = {"prefix": (PREFIX_BYTES, PREFIX_RULE), "group": (GROUP_BYTES, GROUP_RULE)}


@dataclass(frozen=True, slots=True)
class Site:
    """What stands before the keys of a site's links, and the group that its hits count in; "" for neither."""

    prefix: str = ""
    group: str = ""


def parse_sites(tables: object) -> dict[str, Site]:
    """Reads the tables, by the names of sites; raises SettingInvalid, one sentence, for what breaks a rule."""
    if not isinstance(tables, dict):
        raise _broken(MATOMO, tables, f"tables of sites: [{MATOMO}.1]")
    if len(tables) > MOST_SITES:
        raise _broken(MATOMO, f"{len(tables):,} sites", f"at most {MOST_SITES:,}")
    return {name: _parse_site(name, table) for name, table in tables.items()}


def require_hosts_ignored(sites: Mapping[str, Site], hosts: str) -> None:
    """Raises SettingInvalid for a prefix where keys begin with their host."""
    for name, site in sites.items():
        if site.prefix and hosts == IN_KEY:
            rule = f"left out with hosts = {IN_KEY}, where keys begin with their host"
            raise _broken(f"{MATOMO}.{name}.prefix", site.prefix, rule)


def _parse_site(name: str, table: object) -> Site:
    field = f"{MATOMO}.{name}"
    if not _SITE.fullmatch(name):
        raise _broken(field, name, f"{MATOMO}. and 1 to 64 letters, digits, - or _, as its senders give in idsite")
    if not isinstance(table, dict) or not table:
        raise _broken(field, table, f"a table [{field}] with {' or '.join(_TEXTS)}")
    for unknown in table.keys() - _TEXTS.keys():
        raise _broken(f"{field}.{unknown}", table[unknown], f"called {' or '.join(_TEXTS)}")
    return Site(**{name: _text(f"{field}.{name}", value, *_TEXTS[name]) for name, value in table.items()})


def _text(field: str, value: Any, most_bytes: int, rule: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value.encode()) <= most_bytes:
        raise _broken(field, value, rule)
    return value


def _broken(field: str, value: object, rule: str) -> SettingInvalid:
    return SettingInvalid(f"{field} is {shown(value)!r}: it must be {rule}", field=field, value=value, rule=rule)
