"""What came of a click, as another product tells it: the name of an event of ours, and its value.

Names are folded: lower case, and one `_` for each run of anything but a-z and 0-9, none at the ends: `Order Completed`
is `order_completed`. An amount counts where it is of the unit of the settings; nothing is converted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from clickcurve.buckets.measures import VALUE_MAX, is_event_name
from server.settings.events import Unit

Event: TypeAlias = Mapping[str, Any]
Places: TypeAlias = tuple[str, ...]
Units: TypeAlias = Mapping[str, Unit]  # by the names of the events that are counted

NO_EVENTS: Units = MappingProxyType({})
SALE, LEAD = "sale", "lead"  # what products' own words for an order and a sign-up stand for, if not named as they are
AMOUNT, CURRENCY = "amount", "currency"  # reasons why an event has no value
_AMOUNT = re.compile(r"[0-9]{1,15}(\.[0-9]{1,20})?\Z")
_OTHER = re.compile("[^a-z0-9]+")
_LONGEST = 200  # characters of a name that is looked at


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Where a product says what came of clicks.

    names: what an event may be called, the first that the settings have counts. amount, currency: places; in_smallest:
    the amount is of the smallest unit. key: places of the link's key, where the address is another page's. id, ts: as
    of a product, of the event itself and never of its click; None: as of its clicks.
    """

    names: Callable[[Event], Iterable[object]]
    amount: Places = ()
    currency: Places = ()
    in_smallest: bool = False
    key: Places = ()
    id: Places | None = None
    ts: Places | None = None


class Value(NamedTuple):
    """The value of an event in the smallest unit. None: it has none, and reason says why if one was sent."""

    value: int | None = None
    reason: str = ""


def folded(name: object) -> str:
    """Returns a name as names of events are written; "" for what is no text, or cannot be one."""
    if not isinstance(name, str) or len(name) > _LONGEST:
        return ""
    name = _OTHER.sub("_", name.lower()).strip("_")
    return name if is_event_name(name) else ""


def counted_name(outcomes: Outcomes, event: Event, units: Units) -> str:
    """Returns which event of the settings it is; "" for none."""
    return next((name for name in map(folded, outcomes.names(event)) if name in units), "")


def value_of(amount: object, currency: object, unit: Unit, in_smallest: bool) -> Value:
    """Returns the value of an amount, in the unit of the settings; halves of its smallest are rounded up.

    A sender that names no currency is believed to mean the unit.
    """
    if amount is None or amount == "":
        return Value()
    if currency not in (None, "") and not (isinstance(currency, str) and currency.lower() == unit.name.lower()):
        return Value(reason=CURRENCY)
    text = format(Decimal(repr(amount)), "f") if isinstance(amount, float) and amount < VALUE_MAX else amount
    if type(text) is int and 0 <= text <= VALUE_MAX:
        text = str(text)
    if not isinstance(text, str) or not _AMOUNT.match(text):
        return Value(reason=AMOUNT)
    value = int(Decimal(text).scaleb(0 if in_smallest else unit.decimals).to_integral_value(ROUND_HALF_UP))
    return Value(value) if value <= VALUE_MAX else Value(reason=AMOUNT)
