"""The answer to a batch: what was counted, and item by item what was not; and the same as numbers of the server.

    {"counted", "duplicate", "late", "refused", "items": [{"index", "status", "field", "value", "reason"}]}

The numbers are sums of counts. `counted` is what was accepted, `late` the part of it that came too late to be kept by
the minute; a refused hit without a valid count sums as 1. `adjusted`, where it is not 0, are hits that count without a
word of theirs. `items` holds refused and duplicate hits, and each word that was lost, in the order of the body, at most
1,000, those that did not count first; then `items_omitted` says how many more there were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from clickcurve.buckets.errors import HitRejected, shown
from ingest.hit import ATTRIBUTE_FIELDS, FUTURE, FUTURE_RULE

RECEIPT_ITEMS = 1000
# Why a hit is refused: the field to blame. A time that is only too far ahead (a wrong clock) has a class of its own.
REFUSAL_CLASSES = (
    "key",
    "ts",
    "future",
    "count",
    "id",
    "ua",
    "bot",
    "hit",
    "event",
    "value",
    "line",
    *ATTRIBUTE_FIELDS,
)

Shown = str | int | float | bool | None


class Item(msgspec.Struct, frozen=True):
    """One hit that was not counted, or one word of a hit that was lost."""

    index: Annotated[int, Meta(description="Place in the body, from 0.")]
    status: Literal["duplicate", "refused", "adjusted"]
    field: str | None
    value: Shown
    reason: str

    @classmethod
    def of(cls, index: int, status: Literal["refused", "adjusted"], error: HitRejected) -> Item:
        rule = f" (rule: {error.rule})" if error.rule else ""
        return cls(index, status, error.field, error.value, error.detail + rule)

    @classmethod
    def duplicate(cls, index: int, field: str, value: str) -> Item:
        return cls(index, "duplicate", field, shown(value), f"this {field} was counted before")


class Receipt(msgspec.Struct, frozen=True):
    """The answer as it is sent."""

    counted: Annotated[int, Meta(description="Hits accepted; each id counts at most once.")]
    duplicate: Annotated[int, Meta(description="Hits whose id was counted before.")]
    late: Annotated[int, Meta(description="Those of counted whose minute is no longer kept as a minute.")]
    refused: Annotated[int, Meta(description="Hits that break a rule.")]
    items: Annotated[
        tuple[Item, ...],
        Meta(description=f"The refused and the duplicate hits, and words that were lost, {RECEIPT_ITEMS:,} at most."),
    ]
    items_omitted: Annotated[int | UnsetType, Meta(description="How many more there were.")] = UNSET
    adjusted: Annotated[int | UnsetType, Meta(description="Hits that count and of which a word was lost.")] = UNSET

    @property
    def status(self) -> int:
        """422 if not one hit of a body with hits was good; a repeat of counted hits is good."""
        return 422 if self.refused and not self.counted and not self.duplicate else 200

    def encode(self) -> bytes:
        """Returns the JSON body."""
        return msgspec.json.encode(self)


ONE_COUNTED = Receipt(counted=1, duplicate=0, late=0, refused=0, items=()).encode()


def refusal_class(error: HitRejected) -> str:
    """Returns the class that a refused hit counts in: its field, of a part of an object that of the object."""
    whole = FUTURE if error.rule == FUTURE_RULE else (error.field or "").partition(".")[0]
    return whole if whole in REFUSAL_CLASSES else "event"


class Refusals:
    """The refused hits of a request: the first ones explained, all of them summed by class."""

    def __init__(self, explained: int = RECEIPT_ITEMS) -> None:
        self.items: list[Item] = []
        self.hits = 0
        self.sums: dict[str, int] = {}  # of counts, by class
        self._explained = explained

    def are_explained(self) -> bool:
        """Tells whether the receipt holds all the explanations that it can."""
        return len(self.items) >= self._explained

    def first(self) -> str:
        """Returns the reason of the first refused hit for a sentence; "" if none is explained."""
        return f", hit {self.items[0].index} because {self.items[0].reason}" if self.items else ""

    def note(self, error: HitRejected, count: int, index: int, reason: str | None = None) -> None:
        """Notes a hit that breaks a rule; `reason`: its class in the counters, if not the field's."""
        if not self.are_explained():
            self.items.append(Item.of(index, "refused", error))
        self.count(reason or refusal_class(error), count)

    def count(self, reason: str, count: int, hits: int = 1) -> None:
        """Counts hits of one class that get no explanation."""
        self.hits += hits
        self.sums[reason] = self.sums.get(reason, 0) + count


class Adjusted:
    """The hits of one request of which words were lost, and the first of these words as items."""

    def __init__(self, explained: int = RECEIPT_ITEMS) -> None:
        self._explained = explained
        self.items: list[Item] = []
        self.words = 0
        self.sum = 0  # of the counts of the hits
        self.fields: dict[str, int] = {}  # words, by field

    def note(self, index: int, count: int, lost: Sequence[HitRejected]) -> None:
        """Notes a hit with the words that it lost."""
        if not lost:
            return
        self.sum += count
        self.words += len(lost)
        for error in lost:
            name = refusal_class(error)
            self.fields[name] = self.fields.get(name, 0) + 1
            if len(self.items) < self._explained:
                self.items.append(Item.of(index, "adjusted", error))


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
    adjusted: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ATTRIBUTE_FIELDS, 0))  # words lost, by field
    ignored: dict[str, int] = field(default_factory=dict)  # hits with a field that no dimension uses
    ignored_events: Counter[tuple[str, str]] = field(default_factory=Counter)  # no hits, by product and reason
    rejected: dict[int, int] = field(default_factory=dict)  # requests without a receipt, by status
    unanswered: int = 0  # connections closed because the outcome is unknown
    disconnected: int = 0  # clients that left in the middle of a body
