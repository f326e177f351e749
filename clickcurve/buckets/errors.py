"""One family of errors, split by fault. Each says what is wrong in a sentence and carries its data.

`status` is the HTTP status it suggests, so that the parts below the server need not know a web framework; `field`,
`value` (short, as `shown` makes it) and `rule` are filled where one input is to blame. `clickcurve.problem` makes
answers of them.
"""

from __future__ import annotations

import math
from typing import TypeAlias

Plain: TypeAlias = str | int | float | bool | None

_SHOWN_CHARACTERS = 200


def shown(value: object) -> Plain:
    """Returns the value as an answer may hold it: short, and valid in UTF-8 and JSON."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else shown(str(value))
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        value = value[: 4 * _SHOWN_CHARACTERS].decode("utf-8", "replace")
    text = str(value)
    cut = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
    return cut.encode("utf-8", "backslashreplace").decode()


class ClickcurveError(Exception):
    """Parent of all errors that Clickcurve raises on purpose."""

    status = 500
    title = "internal error"
    retry_after_s = 5  # where the status is 429 or 503: after this time the same request may work

    def __init_subclass__(
        cls, *, status: int | None = None, title: str | None = None, retry_after_s: int | None = None
    ) -> None:
        """Sets what a kind of error says of itself; what it leaves out is its parent's."""
        super().__init_subclass__()
        cls.status = cls.status if status is None else status
        cls.title = cls.title if title is None else title
        cls.retry_after_s = cls.retry_after_s if retry_after_s is None else retry_after_s

    def __init__(self, detail: str, *, field: str | None = None, value: object = None, rule: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        self.value = shown(value)
        self.rule = rule


# --- the caller's fault ---------------------------------------------------------------------------------------------
class HitRejected(ClickcurveError, status=422, title="hit refused"):
    """One hit breaks a rule; the other hits of its batch still count."""


class BodyUnreadable(ClickcurveError, status=400, title="unreadable body"):
    """The body as a whole cannot be read: not JSON, null, a number, a truncated gzip stream."""


class BodyTooLarge(ClickcurveError, status=413, title="body too large"):
    """A body, or what it holds, is more than one request may bring."""


class MediaTypeUnsupported(ClickcurveError, status=415, title="unsupported media type or encoding"):
    """The body is of a type or an encoding that is not read."""


class ParameterInvalid(ClickcurveError, status=422, title="invalid parameter"):
    """A query parameter, header or path breaks a rule."""


class NotAuthenticated(ClickcurveError, status=401, title="token missing or unknown"):
    """The request has no token, or one that is not known."""


class NotAllowed(ClickcurveError, status=403, title="token lacks the scope"):
    """The token does not allow this; `rule` names the scope that does."""


class MethodNotAllowed(ClickcurveError, status=405, title="method not allowed"):
    """The path does not allow this method; `rule` names the methods that it allows."""


class EventUnknown(ClickcurveError, status=404, title="unknown event"):
    """The limiter has no rule for this event."""


class DimensionUnknown(ClickcurveError, status=404, title="unknown dimension"):
    """Hits are not broken down by this dimension; `rule` names the dimensions that exist."""


class SwitchedOff(ClickcurveError, status=404, title="switched off"):
    """What is asked for is switched off in the settings; `rule` says which setting switches it on."""


class ReservationUnknown(ClickcurveError, status=404, title="unknown reservation"):
    """There is no such reservation, or its windows are over."""


class ReservationEnded(ClickcurveError, status=409, title="reservation ended"):
    """It was committed or cancelled before."""


class ImportOutOfStep(ClickcurveError, status=409, title="import out of step"):
    """An imported piece does not begin at the offset of its source; `value` is that offset."""


class ImportElsewhere(ClickcurveError, status=421, title="import belongs to another worker"):
    """Another owner keeps the offset of this source; ask again over a new connection."""


class CountTooLarge(ClickcurveError, status=422, title="count too large"):
    """A row's sum would pass the largest count that a row can hold; `value` is that sum."""


# --- the store's fault ----------------------------------------------------------------------------------------------
class StoreUnavailable(ClickcurveError, status=503, title="store unavailable"):
    """The store cannot answer now; asking again later may work."""


class RowCorrupt(ClickcurveError, status=503, title="damaged row", retry_after_s=60):
    """Stored bytes are not a row of a known version. Its counts are unknown until it is repaired."""


class StoreMismatch(ClickcurveError, title="wrong store"):
    """The program cannot use this store: another schema or ladder, or not its store. The start is refused."""


# --- the journal's fault --------------------------------------------------------------------------------------------
class JournalError(ClickcurveError, status=503, title="journal error"):
    """Parent of what a journal raises."""


class JournalBehind(JournalError, status=429, title="journal behind", retry_after_s=1):
    """More hits arrive than can be written or flushed: certainly not counted."""


class JournalFull(JournalError, title="journal full"):
    """The journal or the disk is full: certainly not counted."""


class JournalBroken(JournalError, title="journal write failed"):
    """A write failed and was cancelled: certainly not counted."""


class JournalUnknown(JournalError, title="journal outcome unknown"):
    """A write failed and could not be cancelled: it may count or not. Close the connection, answer nothing."""


class JournalDamaged(JournalError, title="journal damaged"):
    """A record in the middle of the journal is damaged. The start stops, naming file and offset."""


class JournalHeld(JournalError, title="journal held"):
    """Another process holds this journal."""


class JournalSuperseded(JournalError, title="journal superseded"):
    """The store is ahead of this journal: its hits may be counted already. It must be quarantined."""


class OwnerFenced(JournalError, title="owner fenced"):
    """The store says that another process has taken this owner over; nothing more is accepted here."""


# --- the limiter's fault --------------------------------------------------------------------------------------------
class BackendUnavailable(ClickcurveError, status=503, title="limiter backend unavailable"):
    """A limiter's backend does not answer, or not in time; the rule's failure policy decides."""


# --- the configuration's fault --------------------------------------------------------------------------------------
class LadderInvalid(ClickcurveError, title="invalid ladder"):
    """Tiers that are no ladder."""


class ExtraMissing(ClickcurveError, status=501, title="not installed"):
    """A library is needed that comes with an extra of the package, and the extra is not installed."""


class SettingInvalid(ClickcurveError, title="invalid setting"):
    """A setting or a parameter of a call breaks its rule."""


class RuleInvalid(ClickcurveError, title="invalid limiter rule"):
    """A rule of the limiter breaks a rule."""
