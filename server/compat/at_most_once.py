"""What listens for hits whose senders get no answer, as a setting says: StatsD and syslog. They count at most once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Protocol

from clickcurve.buckets.errors import SettingInvalid
from server.job import Job
from server.logs import log
from server.metrics import Sample
from server.settings.values import is_loopback

HAND_OVER_S = 1


class Receiver(Protocol):
    """Takes what comes, and hands its hits over. lines: how many were what."""

    lines: Counter[str]

    async def listen(self, host: str, port: int) -> None:
        """Opens its sockets; raises OSError."""

    async def hand_over(self) -> None:
        """Passes on what has come."""

    def close(self) -> None:
        """Takes nothing more."""


class Listening:
    """A receiver at the address that the setting `name` has; idle without one."""

    def __init__(self, name: str, address: tuple[str, int] | None, receiver: Receiver, *, insecure: bool) -> None:
        self._name, self._address, self._receiver, self._insecure = name, address, receiver, insecure

    async def begin(self, patience_s: float) -> None:
        """Listens where the setting says; raises SettingInvalid."""
        if not self._address:
            return
        name, (host, port) = self._name, self._address
        if not is_loopback(host) and not self._insecure:
            raise SettingInvalid(
                f"{name} {host} can be reached by others, and its packets have no tokens: listen on 127.0.0.1, or give "
                "--insecure",
                field=name,
                value=host,
            )
        try:
            await self._receiver.listen(host, port)
        except OSError as error:
            reason = f"{name} cannot listen on {host}:{port}: {error.strerror or error}"
            raise SettingInvalid(reason, field=name, value=host) from error
        log.info(name, extra={"host": host, "port": port, "then": "hits of its packets count at most once"})

    def jobs(self) -> Iterator[Job]:
        """Yields what hands over, if it listens."""
        if self._address:
            yield Job(self._name, self._receiver.hand_over, HAND_OVER_S, at_start=False)

    def samples(self) -> Iterator[Sample]:
        """Yields what there is to say on /metrics."""
        for outcome, many in self._receiver.lines.items():
            yield Sample(f"clickcurve_{self._name}_lines_total", many, (outcome,))

    async def close(self) -> None:
        """Stops listening and hands over what has come."""
        self._receiver.close()
        await self._receiver.hand_over()
