"""Where the hits come from that made an alert fire: a value that certainly brought most of the change."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from clickcurve.buckets.errors import ClickcurveError
from clickcurve.buckets.ladder import DAY_S, HOUR_S
from clickcurve.keys import ALL, ALL_LINKS, Subject
from query.breakdowns.queries import BreakdownQueries
from query.breakdowns.why import ChangeQueries
from server.logs import log
from server.settings.alerts import Alert

_NOTABLE = 0.5  # the part of the change from which on a dimension explains it, as on the page


class AlertCause(msgspec.Struct, frozen=True):
    """A value, and the bounds of its hits in the alert's span."""

    dimension: str
    value: str
    at_least: int
    at_most: int


@dataclass(frozen=True, slots=True)
class CauseFinder:
    """Finds causes. breakdowns: with the names that strangers may see; least: no fewer hits are named."""

    changes: ChangeQueries
    breakdowns: BreakdownQueries
    least: int

    async def find(self, alert: Alert, start: int, end: int) -> AlertCause | None:
        """Returns the value that brought most of the rise in [start, end); None where none stands out.

        The alert is said without it where the store does not tell.
        """
        subject = ALL if alert.stored == ALL_LINKS else Subject(alert.stored, alert.subject)
        try:
            return await self._find(subject, start, end)
        except ClickcurveError as error:
            log.warning("alert without its cause", extra={"alert": alert.name, "reason": error.detail})
            return None

    async def _find(self, subject: Subject, start: int, end: int) -> AlertCause | None:
        why = await self.changes.why(subject, _query(start, end))
        most = max(why.dimensions, key=lambda each: each.explains, default=None)
        if most is None or most.explains < _NOTABLE or not most.causes or most.causes[0].at_least <= 0:
            return None
        value = most.causes[0].value
        (bounds,) = await self.breakdowns.bounds_in(subject, most.dimension, [value], (start, end))
        if bounds.at_least < max(1, self.least):
            return None
        return AlertCause(most.dimension, value, *bounds)


def _query(start: int, end: int) -> bytes:
    """Asks about the whole hours or days around a span, beside as many before: values are known by these.

    Widened each by itself, the two would have the hour in common in which a span of an hour begins.
    """
    width_s = HOUR_S if end - start <= DAY_S else DAY_S
    first, last = start - start % width_s, end + -end % width_s
    before = max(0, 2 * first - last)
    return f"from={first}&to={last}&before_from={before}&before_to={first}".encode()
