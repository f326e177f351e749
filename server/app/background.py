"""What a server's first worker does beside answering requests: alerts, the weekly report, StatsD's packets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

from clickcurve.asgi import Application
from clickcurve.buckets.errors import SettingInvalid
from ingest.owner import Owner
from query.breakdowns.queries import BreakdownQueries
from query.queries import Queries
from server.alerts.watching import make_watch, samples_of_alerts
from server.compat.hit_sender import HitSender
from server.compat.statsd import StatsdReceiver
from server.logs import log
from server.metrics import Sample
from server.settings.table import Settings
from server.settings.values import is_loopback


class BackgroundRequests:
    """Idle where the settings ask for nothing, and in all workers but the first. hits: the write routes.

    breakdowns: with the names that strangers may see, for alerts and the weekly report.
    """

    def __init__(
        self,
        settings: Settings,
        number: int,
        owner: Owner,
        queries: Queries,
        breakdowns: BreakdownQueries | None,
        hits: Application,
    ) -> None:
        self._settings = settings
        self._is_first = number == 1
        self._watch, self._report = make_watch(settings, owner, queries, breakdowns)
        self._statsd = StatsdReceiver(HitSender(hits))

    def jobs(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Returns the jobs that are to run, by name."""
        settings = self._settings
        jobs: dict[str, tuple[bool, Callable[[], Awaitable[None]]]] = {
            "alerts": (bool(settings.alerts), self._watch.visit),
            "weekly_report": (bool(settings.weekly_report), self._report.visit),
            "statsd": (bool(settings.statsd), self._statsd.hand_over),
        }
        return {name: job for name, (wanted, job) in jobs.items() if wanted and self._is_first}

    def samples(self) -> Iterator[Sample]:
        """Yields what there is to say on /metrics."""
        yield from samples_of_alerts(self._watch)
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
