"""`Client` and `AsyncClient`: what a shortener calls.

`hit` encodes one hit, puts it into a buffer, and returns: it does no I/O, starts nothing and raises nothing, whatever a
visitor sent. Threads of the client do the rest. After a fork the child begins with an empty buffer and threads of its
own; what the parent holds is the parent's to send.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.client.outbox import CLOSED, MOST_COUNTS, Outbox
from clickcurve.client.post import HitsPost
from clickcurve.client.sender import BatchSender
from clickcurve.client.spool import Spool, SpoolUnusable

MINUTE_S = 60
MAX_BYTES = 32 * 1024 * 1024
GATHER_S = 1.0
TIMEOUT_S = 10.0
FLUSH_S = 10.0
CLOSE_S = 5.0
HIT_BYTES = 16 * 1024  # the longest fields that the server takes are 1 and 2 KiB

UNENCODABLE = "no hit: its fields are not what JSON can say"
TOO_LONG = f"a hit of more than {HIT_BYTES // 1024} KiB"
WRONG_COUNT = f"count is not a whole number from 1 to {MOST_COUNTS:,}"
WRONG_TIME = "ts is not a number of epoch seconds"

log = logging.getLogger("clickcurve.client")
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class _HitClient:
    """What both clients share.

    url: the server's address. token: one with scope `write`. spool: a file that keeps hits until they are confirmed, so
    that a kill of this process loses none that is written; several processes may name the same. gather_s: so long a
    hit waits for others to travel with. timeout_s: of one try. max_bytes: memory for hits that are not confirmed;
    beyond it new ones are dropped.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        spool: str | os.PathLike[str] | None = None,
        gather_s: float = GATHER_S,
        timeout_s: float = TIMEOUT_S,
        max_bytes: int = MAX_BYTES,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        for name, value in (("timeout_s", timeout_s), ("max_bytes", max_bytes)):
            if not value > 0:
                raise ParameterInvalid(f"{name} {value!r} is not above 0", field=name, value=value, rule="above 0")
        self._new_post: Callable[[], HitsPost] = lambda: HitsPost(url, token, timeout_s, clock)
        self._path = None if spool is None else Path(spool).absolute()
        self._gather_s = gather_s
        self._max_bytes = max_bytes
        self._clock = clock
        self._timer = timer
        self._beginning = threading.Lock()
        self._begin(self._opened())
        _clients.add(self)
        atexit.register(self._close, CLOSE_S)

    # --- what a shortener calls -----------------------------------------------------------------------------------
    def hit(
        self,
        key: str,
        *,
        count: int = 1,
        ts: float | None = None,
        id: str | None = None,  # noqa: A002  # the name that it has in the interface
        bot: bool | None = None,
        ua: str | None = None,
        ref: str | None = None,
        ip: str | None = None,
        country: str | None = None,
        lang: str | None = None,
        source: str | None = None,
        utm: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
        visitor: str | None = None,
        groups: Sequence[str] | None = None,
        event: str | None = None,
        value: int | None = None,
    ) -> None:
        """Reports hits of a link; returns at once, and never raises for what it is given.

        ts: epoch seconds, now if left out. id: counts once in 48 hours. event: what came of a click, such as "sale";
        value: its amount, in the smallest unit. The other fields are those of POST /v1/hits; None is left out.
        """
        if self._is_forked:
            self._begin_in_child()
        if type(count) is not int or not 0 < count <= MOST_COUNTS:
            self._outbox.drop(WRONG_COUNT, 1)
            return
        try:
            moment = int(self._clock() if ts is None else ts)
        except (TypeError, ValueError, OverflowError):
            self._outbox.drop(WRONG_TIME, count)
            return
        try:
            text = b'"key":%s%s' % (
                _encode(key).encode(),
                _members(id=id, bot=bot, ua=ua, ref=ref, country=country, lang=lang, source=source)
                + _members(utm=utm, tags=tags, groups=groups, event=event, value=value),
            )
            # A person's address, and what names a person, never reach a spool file.
            private = _members(ip=ip, visitor=visitor)
        except (TypeError, ValueError, RecursionError):
            self._outbox.drop(UNENCODABLE, count)
            return
        if len(text) + len(private) > HIT_BYTES:
            self._outbox.drop(TOO_LONG, count)
            return
        self._outbox.add(moment - moment % MINUTE_S, text, private, count, single=id is not None)

    @property
    def delivered(self) -> int:
        """Hits that the server has confirmed: it counted them, or had done so by an earlier try."""
        return self._outbox.delivered

    @property
    def adjusted(self) -> int:
        """Hits among the delivered ones of which a word was lost: it was cut or left out, as the log says."""
        return self._outbox.adjusted

    @property
    def dropped(self) -> int:
        """Hits that will not be counted, or are not known to be: no room, refused, given up, left over at the end."""
        return sum(self._outbox.dropped.values())

    @property
    def dropped_by_reason(self) -> dict[str, int]:
        return dict(self._outbox.dropped)

    @property
    def waiting(self) -> int:
        """Hits that are neither delivered nor dropped yet."""
        return self._outbox.waiting

    # --- beginnings and ends --------------------------------------------------------------------------------------
    def _opened(self) -> Spool | None:
        return None if self._path is None else Spool(self._path)

    def _begin(self, spool: Spool | None) -> None:
        self._spool = spool
        self._outbox = Outbox(self._max_bytes, self._timer, with_records=spool is not None)
        if spool is not None:
            self._outbox.take_over(spool.recovered)
        self._post = self._new_post()
        self._sender = BatchSender(self._outbox, self._post, spool, self._gather_s, self._clock, self._timer)
        self._is_forked = False
        self._sender.start()

    def _forked(self) -> None:
        """Lets go of what belongs to the parent; the locks may be held by threads that are not here."""
        self._beginning = threading.Lock()
        self._is_forked = True
        was_closed = self._outbox.ending
        self._outbox = Outbox(self._max_bytes, self._timer, with_records=False)
        if was_closed:
            self._outbox.end()
        if self._spool is not None:
            self._spool.forget()
            self._spool = None
        self._post.close()  # here alone: the server hears nothing

    def _begin_in_child(self) -> None:
        with self._beginning:
            if self._is_forked and not self._outbox.ending:
                try:
                    spool = self._opened()
                except SpoolUnusable as error:
                    log.error("hits of this process are in memory only: %s", error)
                    spool = None
                self._begin(spool)

    def _close(self, timeout_s: float) -> bool:
        """Sends what is left, for so long; what a spool file has stays there, all else is dropped and logged."""
        atexit.unregister(self._close)
        if self._outbox.ending:
            return not self._outbox.waiting
        if self._is_forked:
            self._outbox.end()  # it has nothing, and no threads
            return True
        is_sent = self._sender.end(timeout_s)
        left = self._outbox.waiting
        if self._spool is not None:
            self._spool.close(is_sent)
            if left:
                log.warning("%d hits could not be reported; they stay in %s", left, self._spool.path)
        elif left:
            self._outbox.abandon(CLOSED)
            log.error("%d hits could not be reported", left)
        return is_sent


class Client(_HitClient):
    """Reports hits from threads."""

    def flush(self, timeout_s: float = FLUSH_S) -> bool:
        """Waits until all that was reported before is delivered or dropped; False if that took longer."""
        return self._outbox.flush(timeout_s)

    def close(self, timeout_s: float = CLOSE_S) -> bool:
        """Sends what is left, for so long at most, and ends. Returns whether nothing was left over."""
        return self._close(timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(_HitClient):
    """Reports hits from an event loop. `hit` is no coroutine: there is nothing to wait for."""

    async def flush(self, timeout_s: float = FLUSH_S) -> bool:
        """Waits until all that was reported before is delivered or dropped; False if that took longer."""
        return await asyncio.to_thread(self._outbox.flush, timeout_s)

    async def close(self, timeout_s: float = CLOSE_S) -> bool:
        """Sends what is left, for so long at most, and ends. Returns whether nothing was left over."""
        return await asyncio.to_thread(self._close, timeout_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _members(**fields: object) -> bytes:
    """Encodes the members of an object that are not None, with a comma before each."""
    members = [f',"{name}":{_encode(value)}' for name, value in fields.items() if value is not None]
    return "".join(members).encode() if members else b""


def _forget_parent() -> None:
    for client in list(_clients):
        client._forked()


_clients: weakref.WeakSet[_HitClient] = weakref.WeakSet()
os.register_at_fork(after_in_child=_forget_parent)
