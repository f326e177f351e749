"""What the write routes count about themselves: plain numbers that the server exports when it is asked."""

from __future__ import annotations

from dataclasses import dataclass, field

from clickcurve.buckets.errors import HitRejected
from ingest.hit import ATTRIBUTE_FIELDS, FUTURE, FUTURE_RULE

# Why a hit is refused: the field to blame. A time that is only too far ahead (a wrong clock) has a class of its own.
REFUSAL_CLASSES = ("key", "ts", "future", "count", "id", "ua", "bot", "hit", "event", *ATTRIBUTE_FIELDS)


def refusal_class(error: HitRejected) -> str:
    return class_of_rule(FUTURE if error.rule == FUTURE_RULE else error.field)


def class_of_rule(broken: str | None) -> str:
    """Returns the class of a rule that `broken_rule` names; of a part of an object the object's."""
    whole = broken.partition(".")[0] if broken else ""
    return whole if whole in REFUSAL_CLASSES else "event"


@dataclass(slots=True)
class IngestCounters:
    """Numbers since the process began: sums of counts, as in receipts, unless another meaning is given."""

    singles: int = 0  # requests answered as one counted hit
    batches: int = 0  # all other requests that got a receipt
    body_bytes: int = 0  # decoded bytes of those
    counted: int = 0
    duplicate: int = 0
    late: int = 0
    refused: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REFUSAL_CLASSES, 0))
    ignored: dict[str, int] = field(default_factory=dict)  # hits with a field that no dimension uses
    rejected: dict[int, int] = field(default_factory=dict)  # requests without a receipt, by status
    unanswered: int = 0  # connections closed because the outcome is unknown
    disconnected: int = 0  # clients that left in the middle of a body
