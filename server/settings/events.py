"""The table `[events]` of the settings file: the names of events, and how their values are shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clickcurve.buckets.errors import SettingInvalid
from clickcurve.buckets.measures import is_event_name

UNIT_CHARACTERS = 8
DECIMALS = 6


@dataclass(frozen=True, slots=True)
class Unit:
    """How the values of an event are shown: integers of the smallest unit, with so many decimals and this unit."""

    name: str = ""
    decimals: int = 0

    def shown(self, amount: int) -> str:
        """Returns an amount as people read it: `1,234.50 EUR`."""
        whole, rest = divmod(abs(amount), 10**self.decimals)
        sign, decimals = "-" if amount < 0 else "", f".{rest:0{self.decimals}}" if self.decimals else ""
        return f"{sign}{whole:,}{decimals} {self.name}".rstrip()

    def between(self, at_least: int, at_most: int) -> str:
        """Returns an amount that lies between two, or is both."""
        return " to ".join(dict.fromkeys((self.shown(at_least), self.shown(at_most))))


NO_UNIT = Unit()


def parse_units(tables: Mapping[str, object]) -> dict[str, Unit]:
    """Reads the tables `[events.NAME]`; raises SettingInvalid, one sentence, for what breaks a rule."""
    return {name: _parse_unit(name, table) for name, table in tables.items()}


def require_named(units: Mapping[str, Unit], names: tuple[str, ...]) -> None:
    """Raises SettingInvalid for a table `[events.NAME]` of a name that is no event."""
    for name in units:
        if name not in names:
            rule = f"one of {', '.join(names) or 'no names'}"
            detail = f"events.{name} is not an event: events_names has {rule}"
            raise SettingInvalid(detail, field=f"events.{name}", value=name, rule=rule)


def _parse_unit(event: str, table: object) -> Unit:
    field = f"events.{event}"
    if not isinstance(table, dict) or not is_event_name(event):
        raise SettingInvalid(f"{field} must be a table of an event: [events.sale]", field=field)
    for name in table:
        if name not in ("unit", "decimals"):
            raise SettingInvalid(f"{field} has no field {name}", field=f"{field}.{name}", rule="unit, decimals")
    unit, decimals = table.get("unit", ""), table.get("decimals", 0)
    if not isinstance(unit, str) or len(unit) > UNIT_CHARACTERS or not unit.isprintable():
        rule = f"a text of at most {UNIT_CHARACTERS} characters"
        raise SettingInvalid(
            f"{field}.unit is {unit!r}: it must be {rule}", field=f"{field}.unit", value=unit, rule=rule
        )
    if type(decimals) is not int or not 0 <= decimals <= DECIMALS:
        rule = f"an integer from 0 to {DECIMALS}"
        detail = f"{field}.decimals is {decimals!r}: it must be {rule}"
        raise SettingInvalid(detail, field=f"{field}.decimals", value=decimals, rule=rule)
    return Unit(unit, decimals)
