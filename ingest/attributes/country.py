"""The country of an address, from data inside the program or from a file of the user's own.

The data inside is that of the package `iptocc`: the country for which an address is registered, as the registries
publish it. A file is in MaxMind's format, with `country.iso_code` or `country_code` in its records. The address itself
is forgotten as soon as its country is known.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from socket import AF_INET, inet_pton
from typing import Final, TypeAlias

import iptocc
import maxminddb

from clickcurve.buckets.breakdowns.vocabulary import VOCABULARIES
from clickcurve.buckets.errors import HitRejected, SettingInvalid
from clickcurve.limiter.http.address import address_in

BUILTIN, OFF = "builtin", "off"
UNKNOWN = ""
COUNTRY_RULE = "two letters of ISO 3166, as DE"
ADDRESS_RULE = "an IPv4 or IPv6 address, also with a port or in brackets, or a list that begins with one"
ADDRESSES_OF_LIST = 16  # of X-Forwarded-For that are looked at, where the first ones are none
# ISO 3166-1 alpha-2, and XK, which everybody uses for Kosovo. Registries and proxies have others for what is no
# country, such as XX, T1, and the first two here, which rows may hold.
COUNTRIES: Final = frozenset(VOCABULARIES[1].values["country"]) - {"EU", "AP", UNKNOWN}

CountryOf: TypeAlias = Callable[[str], str]  # an address as `address_of` writes it -> its country; "" = unknown
_FORGOTTEN = None  # in place of an address that is refused: errors are logged and answered


def address_of(value: object) -> str:
    """Returns the address in the field `ip` of a hit; a HitRejected never repeats what it holds instead."""
    text = value.strip() if isinstance(value, str) else ""
    try:
        inet_pton(AF_INET, text)
        return text  # of the fourth version and written in the one way that there is: ten times as fast as below
    except (OSError, ValueError):
        pass
    for part in text.split(",", ADDRESSES_OF_LIST)[:ADDRESSES_OF_LIST]:
        if address := address_in(part):
            return str(address)
    raise HitRejected("ip is not an address", field="ip", value=_FORGOTTEN, rule=ADDRESS_RULE)


def country_of_field(value: object) -> str:
    """Returns the country in the field `country` of a hit, in capitals; raises HitRejected if it is none."""
    code = value.strip().upper() if isinstance(value, str) else ""
    if code in COUNTRIES:
        return code
    raise HitRejected("country is not the code of one", field="country", value=value, rule=COUNTRY_RULE)


def _builtin(address: str) -> str:
    code = iptocc.country_code(address) or UNKNOWN
    return code if code in COUNTRIES else UNKNOWN


def _nowhere(_: str) -> str:
    return UNKNOWN


class CountryFile:
    """A database in MaxMind's format, read as a whole: a new one replaces it when the settings are read again."""

    def __init__(self, path: Path) -> None:
        try:
            self._database = maxminddb.open_database(path, maxminddb.MODE_MEMORY)
        except (OSError, ValueError, maxminddb.InvalidDatabaseError) as error:
            raise SettingInvalid(f"{path} cannot be read: {error}", field="country_data", value=str(path)) from None

    def country(self, address: str) -> str:
        """Returns the country of an address; "" where the file knows none."""
        record = self._database.get(address)
        if not isinstance(record, dict):
            return UNKNOWN
        country = record.get("country")
        code = country.get("iso_code") if isinstance(country, dict) else record.get("country_code")
        return code.upper() if isinstance(code, str) and code.upper() in COUNTRIES else UNKNOWN


def country_reader(setting: str) -> CountryOf:
    """Returns what finds countries, for the setting `country_data`; raises SettingInvalid for an unreadable file."""
    if setting == OFF:
        return _nowhere
    return _builtin if setting == BUILTIN else CountryFile(Path(setting)).country
