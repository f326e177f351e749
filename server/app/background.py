"""What a server does beside answering requests: alerts, the weekly report, StatsD's packets.

Alerts and the weekly report are duties (`server.process.duty`): one worker of all servers of a store does each. The
first worker of each server takes StatsD's packets.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial

from clickcurve.asgi import Application
from clickcurve.buckets.errors import SettingInvalid, StoreUnavailable
from query.breakdowns.queries import BreakdownQueries
from query.queries import Queries
from server.alerts.watching import make_watch, samples_of_alerts
from server.clock import TrustedClock, monotonic
from server.compat.hit_sender import HitSender
from server.compat.statsd import StatsdReceiver
from server.logs import log
from server.metrics import Sample
from server.process.duty import Duty
from server.settings.table import Settings
from server.settings.values import is_loopback
from storage.contract import Store


class BackgroundRequests:
    """Idle where the settings ask for nothing. hits: the write routes.

    breakdowns: with the names that strangers may see, for alerts and the weekly report.
    """

    def __init__(
        self,
        settings: Settings,
        number: int,
        store: Store,
        queries: Queries,
        breakdowns: BreakdownQueries | None,
        hits: Application,
        trusted: TrustedClock,
    ) -> None:
        self._settings = settings
        self._is_first = number == 1
        self._watch, self._report = make_watch(settings, store, queries, breakdowns, trusted)
        self._statsd = StatsdReceiver(HitSender(hits), monotonic)
        self._duties: dict[str, tuple[Duty, Callable[[], Awaitable[None]]]] = {}
        if settings.alerts:
            work = [f"{each.source} {each.url} {each.mail}" for each in settings.alerts]
            self._duties["alerts"] = Duty(store, "alerts", work, self._watch.close), self._watch.visit
        if settings.weekly_report:
            self._duties["weekly_report"] = Duty(store, "weekly_report", settings.weekly_report), self._report.visit

    def jobs(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Returns the jobs that are to run, by name."""
        jobs: dict[str, Callable[[], Awaitable[None]]] = {
            name: partial(self._visit, duty, visit) for name, (duty, visit) in self._duties.items()
        }
        if self._settings.statsd and self._is_first:
            jobs["statsd"] = self._statsd.hand_over
        return jobs

    @property
    def has_duties(self) -> bool:
        """Whether there is anything for `look` to look after."""
        return bool(self._duties)

    async def _visit(self, duty: Duty, visit: Callable[[], Awaitable[None]]) -> None:
        """Calls `visit` if this process has the duty, as the store says now."""
        if duty.is_held and await duty.look():
            await visit()

    async def look(self) -> list[str]:
        """Looks after all duties; returns the names of those that this process has just taken."""
        taken = []
        for name, (duty, _) in self._duties.items():
            was_held = duty.is_held
            with suppress(StoreUnavailable):  # the next look is soon
                if await duty.look() and not was_held:
                    taken.append(name)
        return taken

    def samples(self) -> Iterator[Sample]:
        """Yields what there is to say on /metrics."""
        yield from samples_of_alerts(self._watch)
        for name, (duty, _) in self._duties.items():
            yield Sample("clickcurve_duty_held", duty.is_held, (name,))
        for outcome, many in self._statsd.lines.items():
            yield Sample("clickcurve_statsd_lines_total", many, (outcome,))

    async def start(self) -> None:
        """Listens where the settings say; raises SettingInvalid."""
        address = self._settings.statsd
        if not address or not self._is_first:
            return
        host, port = address
        if not is_loopback(host) and not self._settings.insecure:
            raise SettingInvalid(
                f"statsd {host} can be reached by others, and its packets have no tokens: listen on 127.0.0.1, or give "
                "--insecure",
                field="statsd",
                value=host,
            )
        try:
            await self._statsd.listen(host, port)
        except OSError as error:
            reason = f"statsd cannot listen on {host}:{port}: {error.strerror or error}"
            raise SettingInvalid(reason, field="statsd", value=host) from error
        log.info("statsd", extra={"host": host, "port": port, "then": "hits of its packets count at most once"})

    async def close(self) -> None:
        """Stops listening and hands over what has come."""
        await self._watch.close()
        self._statsd.close()
        await self._statsd.hand_over()

    async def give_back(self) -> None:
        """Lets other processes take the duties at once. Raises StoreUnavailable: they take them after some looks."""
        for duty, _ in self._duties.values():
            await duty.give_back()
