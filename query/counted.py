"""Which row a question asks: that of the clicks of its subject, or of an event in their place."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.buckets.measures import Measure
from clickcurve.keys import Subject


def no_events() -> Collection[str]:
    """Returns the names of events where none are counted."""
    return ()


@dataclass(frozen=True, slots=True)
class KnownEvents:
    """The events that can be asked for. names: of those that are counted, and of those that were and are stored."""

    names: Callable[[], Collection[str]] = no_events

    def subject(self, subject: Subject, measure: Measure) -> Subject:
        """Returns the subject whose row is that of the measure; raises ParameterInvalid for an unknown event."""
        return subject._replace(stored=self.checked(measure).row(subject.stored)) if measure.event else subject

    def checked(self, measure: Measure) -> Measure:
        """Returns the measure; raises ParameterInvalid if its event is not known."""
        known = self.names()
        if measure.event and measure.event not in known:
            names = ", ".join(sorted(known)) or "none"
            detail = f"the event {measure.event!r} is not counted here; events: {names}"
            raise ParameterInvalid(detail, field="event", value=measure.event, rule=names)
        return measure


NO_EVENTS = KnownEvents()
