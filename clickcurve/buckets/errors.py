"""One family of errors, split by fault. Each says what is wrong in a sentence and carries its data.

`status` is the HTTP status it suggests, so that the parts below the server need not know a web framework; `field`,
`value` and `rule` are filled where one input is to blame. `clickcurve.problem` makes answers of them.
"""

from __future__ import annotations


class ClickcurveError(Exception):
    """Parent of all errors that Clickcurve raises on purpose."""

    status = 500
    title = "internal error"
    retry_after_s = 5  # where the status is 429 or 503: after this time the same request may work

    def __init__(self, detail: str, *, field: str | None = None, value: object = None, rule: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        self.value = value
        self.rule = rule


# --- the caller's fault ---------------------------------------------------------------------------------------------
class HitRejected(ClickcurveError):
    """One hit breaks a rule; the other hits of its batch still count."""

    status = 422
    title = "hit refused"


class BodyUnreadable(ClickcurveError):
    """The body as a whole cannot be read: not JSON, null, a number, a truncated gzip stream."""

    status = 400
    title = "unreadable body"


class BodyTooLarge(ClickcurveError):
    status = 413
    title = "body too large"


class MediaTypeUnsupported(ClickcurveError):
    status = 415
    title = "unsupported media type or encoding"


class ParameterInvalid(ClickcurveError):
    """A query parameter, header or path breaks a rule."""

    status = 422
    title = "invalid parameter"


class NotAuthenticated(ClickcurveError):
    status = 401
    title = "token missing or unknown"


class NotAllowed(ClickcurveError):
    status = 403
    title = "token lacks the scope"


class MethodNotAllowed(ClickcurveError):
    """The path does not allow this method; `rule` names the methods that it allows."""

    status = 405
    title = "method not allowed"


class EventUnknown(ClickcurveError):
    """The limiter has no rule for this event."""

    status = 404
    title = "unknown event"


class DimensionUnknown(ClickcurveError):
    """Hits are not broken down by this dimension; `rule` names the dimensions that exist."""

    status = 404
    title = "unknown dimension"


class SwitchedOff(ClickcurveError):
    """What is asked for is switched off in the settings; `rule` says which setting switches it on."""

    status = 404
    title = "switched off"


class ReservationUnknown(ClickcurveError):
    """There is no such reservation, or its windows are over."""

    status = 404
    title = "unknown reservation"


class ReservationEnded(ClickcurveError):
    """It was committed or cancelled before."""

    status = 409
    title = "reservation ended"


class ImportOutOfStep(ClickcurveError):
    """An imported piece does not begin at the offset of its source; `value` is that offset."""

    status = 409
    title = "import out of step"


class ImportElsewhere(ClickcurveError):
    """Another owner keeps the offset of this source; ask again over a new connection."""

    status = 421
    title = "import belongs to another worker"


class CountTooLarge(ClickcurveError):
    """A row's sum would pass the largest count that a row can hold; `value` is that sum."""

    status = 422
    title = "count too large"


# --- the store's fault ----------------------------------------------------------------------------------------------
class StoreUnavailable(ClickcurveError):
    """The store cannot answer now; asking again later may work."""

    status = 503
    title = "store unavailable"


class RowCorrupt(ClickcurveError):
    """Stored bytes are not a row of a known version. Its counts are unknown until it is repaired."""

    status = 503
    title = "damaged row"
    retry_after_s = 60


class StoreMismatch(ClickcurveError):
    """The program cannot use this store: another schema or ladder, or not its store. The start is refused."""

    title = "wrong store"


# --- the journal's fault --------------------------------------------------------------------------------------------
class JournalError(ClickcurveError):
    """Parent of what a journal raises."""

    status = 503
    title = "journal error"


class JournalBehind(JournalError):
    """More hits arrive than can be written or flushed: certainly not counted."""

    status = 429
    title = "journal behind"
    retry_after_s = 1


class JournalFull(JournalError):
    """The journal or the disk is full: certainly not counted."""

    title = "journal full"


class JournalBroken(JournalError):
    """A write failed and was cancelled: certainly not counted."""

    title = "journal write failed"


class JournalUnknown(JournalError):
    """A write failed and could not be cancelled: it may count or not. Close the connection, answer nothing."""

    title = "journal outcome unknown"


class JournalDamaged(JournalError):
    """A record in the middle of the journal is damaged. The start stops, naming file and offset."""

    title = "journal damaged"


class JournalHeld(JournalError):
    """Another process holds this journal."""

    title = "journal held"


class JournalSuperseded(JournalError):
    """The store is ahead of this journal: its hits may be counted already. It must be quarantined."""

    title = "journal superseded"


class OwnerFenced(JournalError):
    """The store says that another process has taken this owner over; nothing more is accepted here."""

    title = "owner fenced"


# --- the limiter's fault --------------------------------------------------------------------------------------------
class BackendUnavailable(ClickcurveError):
    """A limiter's backend does not answer, or not in time; the rule's failure policy decides."""

    status = 503
    title = "limiter backend unavailable"


# --- the configuration's fault --------------------------------------------------------------------------------------
class LadderInvalid(ClickcurveError):
    title = "invalid ladder"


class ExtraMissing(ClickcurveError):
    """A library is needed that comes with an extra of the package, and the extra is not installed."""

    status = 501
    title = "not installed"


class SettingInvalid(ClickcurveError):
    title = "invalid setting"


class RuleInvalid(ClickcurveError):
    title = "invalid limiter rule"
