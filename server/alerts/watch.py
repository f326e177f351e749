"""The job that judges alerts, notes what changed, says it, and says it again until it arrives.

A change is noted in the store before it is said. So a kill in between repeats a message, with the same id, and never
makes two of one change; and no change is lost. One message of an alert is under way at a time, in the order of the
changes. The process that has the duty of alerts does all that. One that was suspended and has lost the duty since can
do no more than repeat a message: the state that it read is no longer the one that is stored.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from clickcurve.buckets.errors import ClickcurveError
from clickcurve.buckets.ranges import Span
from query.queries import Queries
from server.alerts.cause import AlertCause, CauseFinder
from server.alerts.condition import Counted, is_met
from server.alerts.ledger import ChangedElsewhere, Ledger, LedgerEntry, Noted
from server.alerts.message import FIRED, OVER, AlertMessage, Ways, span_end
from server.alerts.webhook import NotDelivered
from server.logs import log
from server.settings.alerts import Alert

# After each failure, as the Standard Webhooks specification has it; a restart begins again with the first.
PAUSES_S = (5, 60, 300, 1_800, 7_200, 18_000, 36_000)
GIVE_UP_S = 3 * 86_400
SKEW_S = 600  # by which clocks of servers may differ and make no change of an alert that is none
AT_ONCE = 10  # alerts that are judged side by side
_NOTHING = Span(0, 0, 0)


@dataclass(slots=True)
class _Retry:
    """How often a message failed, and when it is tried again. arrived: it is only to be noted that it was sent."""

    failures: int = 0
    at: float = 0.0
    arrived: bool = False


@dataclass(eq=False)
class AlertWatch:
    """Runs all alerts. `new_id` makes ids of messages. `messages`: how many were said, by outcome; for /metrics.

    causes None: hits are not broken down, so no message says where they come from.
    """

    alerts: Sequence[Alert]
    queries: Queries
    ledger: Ledger
    ways: Ways
    causes: CauseFinder | None
    clock: Callable[[], float]
    new_id: Callable[[], str]
    careful: Callable[[], float] | None = None  # the time that giving up goes by; None: `clock`
    running: Callable[[], float] | None = None  # seconds that nobody can set; None: `clock`
    mark: Callable[[Alert, Noted], Awaitable[None]] | None = None  # notes beside its hits that an alert fires

    def __post_init__(self) -> None:
        self._careful, self._running = self.careful or self.clock, self.running or self.clock
        self._retries: dict[str, _Retry] = {}
        self._few = asyncio.Semaphore(AT_ONCE)
        self._under_way: dict[str, asyncio.Task[None]] = {}  # alert -> what says its last change
        self.messages: Counter[str] = Counter()
        self.firing: dict[str, bool] = {}

    async def visit(self) -> None:
        """Judges each alert once; raises the first error, when all were tried.

        What there is to say is said by a task of each alert, so that one receiver that hangs holds up no other alert.
        """
        results = await asyncio.gather(*map(self._visit_one, self.alerts), return_exceptions=True)
        errors = [each for each in results if isinstance(each, BaseException)]
        if errors:
            raise errors[0]

    async def close(self) -> None:
        """Ends what is under way; the next process that has the duty says it again."""
        under_way = list(self._under_way.values())
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        self.firing.clear()
        self._retries.clear()

    async def _visit_one(self, alert: Alert) -> None:
        if alert.name in self._under_way:
            return
        async with self._few:
            try:
                entry = await self.ledger.read(alert.source)
                if not entry.noted.due:
                    entry = await self._judge(alert, entry)
                self.firing[alert.name] = entry.noted.firing
                if entry.noted.due:
                    self._under_way[alert.name] = asyncio.create_task(self._say_last(alert, entry))
            except ChangedElsewhere:
                self.firing.pop(alert.name, None)

    async def _judge(self, alert: Alert, entry: LedgerEntry) -> LedgerEntry:
        """Returns the state after a look at the counts, noted if it is another one."""
        now = int(self.clock())
        if now < entry.noted.at <= now + SKEW_S:  # noted by a clock that is ahead: the hits that it saw count here, too
            now = entry.noted.at
        counted = await self._counted(alert, now)
        met = is_met(alert.condition, counted, now)
        if met is None or met == entry.noted.firing:
            return entry
        bounds = (counted.last.at_least, counted.last.at_most)
        if alert.condition.compares:
            bounds = (*bounds, counted.before.at_least, counted.before.at_most)  # type: ignore[assignment]
        cause = await self._cause(alert, now) if met else None
        noted = Noted(met, now, self.new_id(), alert.ways, tuple(bounds), cause)
        entry = await self.ledger.write(alert.source, entry, noted)
        log.info("alert", extra={"alert": alert.name, "firing": met, "at_least": bounds[0], "at_most": bounds[1]})
        return entry

    async def _cause(self, alert: Alert, now: int) -> AlertCause | None:
        if self.causes is None or not alert.condition.rises:
            return None
        end = span_end(now)
        return await self.causes.find(alert, max(0, end - alert.condition.length_s), end)

    async def _counted(self, alert: Alert, now: int) -> Counted:
        length_s = alert.condition.length_s
        end = span_end(now)
        last = await self.queries.total_in(alert.stored, max(0, end - length_s), end)
        before = _NOTHING
        if alert.condition.compares and end > length_s:
            span = max(0, end - 2 * length_s), end - length_s
            before = await self.queries.total_in(alert.stored, *span)
        return Counted(last, before, await self.queries.first_hit(alert.stored))

    # --- saying -------------------------------------------------------------------------------------------------------
    async def _say_last(self, alert: Alert, entry: LedgerEntry) -> None:
        """Says the last change of an alert. What fails here, the next visit tries again."""
        try:
            await self._say(alert, entry)
        except ChangedElsewhere:
            self.firing.pop(alert.name, None)
        except ClickcurveError as error:
            log.warning("alert not noted as delivered", extra={"alert": alert.name, "reason": error.detail})
        except Exception:
            log.exception("alert failed", extra={"alert": alert.name})
        finally:
            del self._under_way[alert.name]

    async def _say(self, alert: Alert, entry: LedgerEntry) -> None:
        """Says the last change where it was not said yet, unless it failed a short while ago."""
        noted = entry.noted
        if noted.firing and self.mark is not None:
            await self.mark(alert, noted)  # before anything is sent: after a kill it is done again, once
        message = AlertMessage(noted.id, FIRED if noted.firing else OVER, noted.at, alert, noted.counted, noted.cause)
        for way in noted.due:
            retry = self._retries.setdefault(f"{noted.id} {way}", _Retry())
            if self._running() < retry.at:
                continue
            try:
                if way in alert.ways and not retry.arrived:  # the settings may have changed since
                    await self.ways.send(message, way)
                    retry.arrived = True
                    self.messages["delivered"] += 1
            except NotDelivered as error:
                if not self._gives_up(alert, way, noted, retry, error):
                    continue
            entry = await self.ledger.note_sent(alert.source, entry, way)
            del self._retries[f"{noted.id} {way}"]

    def _gives_up(self, alert: Alert, way: str, noted: Noted, retry: _Retry, error: ClickcurveError) -> bool:
        """Notes a failure; returns whether it was the last one."""
        now = self._running()
        given_up = self._careful() - noted.at > GIVE_UP_S
        self.messages["given up" if given_up else "failed"] += 1
        retry.at = now + PAUSES_S[min(retry.failures, len(PAUSES_S) - 1)]
        retry.failures += 1
        fields = {"alert": alert.name, "way": way, "reason": error.detail, "id": noted.id}
        if given_up:
            log.error("alert not delivered", extra={**fields, "then": "given up"})
        else:
            log.warning("alert not delivered", extra={**fields, "again_in_s": int(retry.at - now)})
        return given_up
