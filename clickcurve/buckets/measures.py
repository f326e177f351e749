"""What is counted of a link, a group or all links: clicks, an event (what came of a click), or the sum of its values.

Each has a row of its own, under a stored key that names the event before the row of clicks that it belongs to. So all
that is done by stored key (folding, breakdowns, corrections, erasing) is done for events alike, and no event is in any
number of clicks. A value is an amount in the smallest unit, an integer: a row of values counts amounts as others count
hits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

EVENTS = 16  # that a store may count
EVENT_RULE = 'a name of 1 to 32 of a-z, 0-9 and _, not "click"'
VALUE_MAX = 10**12  # of one event
AMOUNT_MAX = 10**15  # of all events of one hit, and of all hits of one request

_EVENT = re.compile(r"[a-z0-9_]{1,32}\Z")
_OF_EVENTS, _OF_VALUES = "\0event:", "\0value:"


class Measure(NamedTuple):
    """What is counted. event: its name, empty for clicks; of_values: the sum of its values."""

    event: str = ""
    of_values: bool = False

    def __str__(self) -> str:
        """Returns what it is called in sentences: `clicks`, `the event sale`, `the values of sale`."""
        return f"the {'values of' if self.of_values else 'event'} {self.event}" if self.event else "clicks"

    @property
    def prefix(self) -> str:
        """How all stored keys of its rows begin."""
        return f"{_OF_VALUES if self.of_values else _OF_EVENTS}{self.event}:" if self.event else ""

    @property
    def of_counts(self) -> Measure:
        """What is counted of the same event, not the sum of its values."""
        return self._replace(of_values=False)

    def row(self, clicks: str) -> str:
        """Returns the stored key of its row, given that of the row of clicks."""
        return self.prefix + clicks


CLICKS = Measure()


def is_event_name(text: object) -> bool:
    """Tells whether a text keeps to EVENT_RULE."""
    return isinstance(text, str) and text != "click" and _EVENT.match(text) is not None


def measures_of(event: str) -> tuple[Measure, Measure]:
    """Returns what is counted of an event: how many there were, and the sum of their values."""
    return Measure(event), Measure(event, of_values=True)


def rows_with_events(clicks: str, events: Iterable[str]) -> list[str]:
    """Returns the stored key of a row of clicks, and those of the rows of these events beside it."""
    return [clicks, *(measure.row(clicks) for event in events for measure in measures_of(event))]


def measured(stored: str) -> tuple[Measure, str]:
    """Returns what a row of counts counts, and the stored key of the row of clicks beside it."""
    if not stored.startswith((_OF_EVENTS, _OF_VALUES)):
        return CLICKS, stored
    event, _, clicks = stored[len(_OF_EVENTS) :].partition(":")
    return Measure(event, stored.startswith(_OF_VALUES)), clicks


def clicks_row(stored: str) -> str:
    """Returns the stored key of the row of clicks beside a row of counts: itself, if it counts clicks."""
    return measured(stored)[1]
