"""The backend on Redis: one call of one script for each decision, however many rules and rates it has.

The script reads, decides and charges in one step, so that any number of processes are decided as if one after the
other; and where nobody gives a time it takes Redis' own clock, which all of them share. `scripted` has what
is said to the scripts; here are the connections.

**A question is sent once.** One that failed may have been charged all the same, so it is never repeated: the answer is
BackendUnavailable, and the next one asks on another connection. Only where Redis says that it does not know the script,
and has done nothing, is the same question put with the whole script.

**Bounds.** Threads have so many connections, each with one question under way; an event loop has one, with so many. So
many seconds to connect, to wait for a place, and for an answer.

One server, or the primary of a replicated one. A Redis Cluster is refused: the keys of one decision may lie on several
of its nodes, which no script can decide together.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha1
from threading import BoundedSemaphore
from typing import Any, Final, TypeAlias

from redis import connection as sync_connection
from redis.asyncio import connection as async_connection
from redis.exceptions import NoPermissionError, NoScriptError, RedisError, ResponseError

from clickcurve.buckets.errors import BackendUnavailable, SettingInvalid
from clickcurve.limiter.backend import Question, Settled
from clickcurve.limiter.backends.redis_scripts import PREFIX, SETTLED, ScriptCodec, source
from clickcurve.limiter.quota import Quota

TIMEOUT_S = 0.1
MAX_CONNECTIONS = 32
MAX_ASKED = 1_000
ADDRESS_RULE = "redis://host:6379/0, rediss://host:6379/0 or unix:///path?db=0"

Answer: TypeAlias = Any  # of Redis: bytes, an integer, a list
Arguments: TypeAlias = tuple[list[bytes], list[bytes]]


class Script:
    """A script as Redis is told to run it: by its digest, or, where it does not know that, whole."""

    def __init__(self, name: str) -> None:
        self._text = source(name)
        self._digest = sha1(self._text, usedforsecurity=False).hexdigest().encode()

    def by_digest(self, arguments: Arguments) -> bytes:
        keys, values = arguments
        return command(b"EVALSHA", self._digest, b"%d" % len(keys), *keys, *values)

    def whole(self, arguments: Arguments) -> bytes:
        keys, values = arguments
        return command(b"EVAL", self._text, b"%d" % len(keys), *keys, *values)


def command(*words: bytes) -> bytes:
    """A command in the protocol of Redis."""
    return b"*%d\r\n" % len(words) + b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


DECIDE: Final = Script("decide")
SETTLE: Final = Script("settle")
_ASK_KIND: Final = command(b"INFO", b"cluster")
_IS_CLUSTER: Final = b"cluster_enabled:1"
_CLUSTER: Final = "this is a Redis Cluster, whose nodes cannot decide together: give the limiter one server"


class _Counted:
    """What both forms count, and what they make of their settings."""

    keeps_time = True

    def __init__(self, url: str, timeout_s: float | None, prefix: str) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._codec = ScriptCodec(prefix)
        self._connected = self._failures = 0

    def _made(self, parse: Any, usual: Any, **more: Any) -> Any:
        """A connection that is not connected yet, by the parser of addresses and the class of one of the two forms."""
        try:
            settings = parse(self._url)
            kind = settings.pop("connection_class", usual)
            return kind(**{"socket_connect_timeout": self._timeout_s, **settings, **more})
        except (ValueError, TypeError) as error:
            # Only of a wrong parameter more is said: the rest may tell a part of a password.
            why = f": {error}" if isinstance(error, TypeError) else ""
            raise SettingInvalid(
                f"this is no address of a Redis{why}", field="limits_redis", rule=ADDRESS_RULE
            ) from None

    def _failed(self, error: Exception) -> BackendUnavailable:
        self._failures += 1
        if isinstance(error, BackendUnavailable):
            return error
        return BackendUnavailable(f"Redis did not answer: {error or type(error).__name__}")

    def measures(self) -> Mapping[str, float]:
        return {"redis_connections_made_total": self._connected, "redis_failures_total": self._failures}


class RedisBackend(_Counted):
    """`Backend` on Redis, for any number of threads. timeout_s: for each of waiting for a free connection, connecting,
    and the answer."""

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = TIMEOUT_S,
        max_connections: int = MAX_CONNECTIONS,
        prefix: str = PREFIX,
    ) -> None:
        super().__init__(url, timeout_s, prefix)
        self._max_connections = max_connections
        self._process = -1
        self._fresh()
        self._connection()  # a wrong address is told at once

    def decide(self, question: Question) -> list[Quota]:
        return self._codec.told(question, self._run(DECIDE, self._codec.asked(question)))

    def settle(self, reservation: str, keep: int | None, at_us: int | None) -> Settled:
        return SETTLED[self._run(SETTLE, self._codec.settling(reservation, keep, at_us))]

    def reset(self, question: Question) -> None:
        with self._lent() as connection:
            self._ask(connection, command(b"DEL", *self._codec.names(question)))

    def close(self) -> None:
        with suppress(IndexError):  # until none is left; others take some meanwhile
            while True:
                self._idle.pop().disconnect()

    def _run(self, script: Script, arguments: Arguments) -> Answer:
        with self._lent() as connection:
            try:
                return self._ask(connection, script.by_digest(arguments))
            except NoScriptError:
                return self._ask(connection, script.whole(arguments))

    @staticmethod
    def _ask(connection: Any, sent: bytes) -> Answer:
        connection.send_packed_command([sent], check_health=False)
        return connection.read_response()

    @contextmanager
    def _lent(self) -> Iterator[Any]:
        """A connection to ask one question on."""
        if self._process != os.getpid():
            self._fresh()
        if not self._free.acquire(timeout=self._timeout_s):
            raise self._failed(BackendUnavailable(f"all {self._max_connections} connections to Redis are in use"))
        connection = None
        try:
            connection = self._ready()
            yield connection
            self._idle.append(connection)
        except ResponseError as error:  # an answer, if not the one that was asked for
            if connection is not None:
                self._idle.append(connection)
            raise self._failed(error) from error
        except (RedisError, OSError, BackendUnavailable) as error:
            self.close()  # the others are as dead, most likely; who uses one finds out for itself
            raise self._failed(error) from error
        finally:
            self._free.release()

    def _ready(self) -> Any:
        """One that is connected. What arrives on one that nobody uses is its end, or an answer that came too late."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connection()
        else:
            try:
                if not connection.can_read():
                    return connection
            except (RedisError, OSError):
                pass
            connection.disconnect()
        connection.connect()
        self._connected += 1
        try:
            if _IS_CLUSTER in self._ask(connection, _ASK_KIND):
                connection.disconnect()
                raise BackendUnavailable(_CLUSTER)
        except NoPermissionError:  # it need not tell
            pass
        return connection

    def _connection(self) -> Any:
        return self._made(sync_connection.parse_url, sync_connection.Connection, socket_timeout=self._timeout_s)

    def _fresh(self) -> None:
        """Begin without connections: at first, and in a process that was forked off, since two cannot share one."""
        self._process = os.getpid()
        self._idle: list[Any] = []
        self._free = BoundedSemaphore(self._max_connections)


class _Pipe:
    """A connection on which any number of questions are under way: the answers come in the order of the questions."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._asked: deque[asyncio.Future[Answer]] = deque()
        self._reading: asyncio.Task[None] | None = None
        self._is_last = False
        self._under_way = 0
        self.answers = 0

    @property
    def is_open(self) -> bool:
        return self._reading is not None and not self._reading.done() and bool(self._connection.is_connected)

    async def open(self) -> None:
        connection = self._connection
        try:
            await connection.connect()
            await connection.send_packed_command([_ASK_KIND], check_health=False)
            with suppress(NoPermissionError):  # it need not tell
                if _IS_CLUSTER in await connection.read_response():
                    raise BackendUnavailable(_CLUSTER)
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        self._reading = asyncio.create_task(self._read())

    async def ask(self, sent: bytes) -> Answer:
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._asked.append(answer)
        self._under_way += 1
        try:
            await self._connection.send_packed_command([sent], check_health=False)
            return await answer
        finally:
            answer.cancel()
            self._under_way -= 1
            self._end_if_idle()

    def let_go(self) -> None:
        """No more questions: it is closed when those under way are answered or given up."""
        self._is_last = True
        self._end_if_idle()

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    def _end_if_idle(self) -> None:
        if self._is_last and not self._under_way and self._reading is not None:
            self._reading.cancel()

    async def _read(self) -> None:
        """Hands out answers until the connection ends."""
        why: BaseException | None = None
        try:
            while True:
                try:
                    answer, error = await self._connection.read_response(), None
                except ResponseError as refused:
                    answer, error = None, refused
                self.answers += 1
                asked = self._asked.popleft()
                if asked.done():  # given up meanwhile
                    continue
                if error is None:
                    asked.set_result(answer)
                else:
                    asked.set_exception(error)
        except (RedisError, OSError, IndexError) as ended:  # IndexError: it said something that nobody asked
            why = ended
        finally:
            await self._connection.disconnect(nowait=True)
            for asked in self._asked:
                if not asked.done():
                    asked.set_exception(BackendUnavailable(f"the connection to Redis ended: {why}"))


class AsyncRedisBackend(_Counted):
    """`AsyncBackend` on Redis, for the tasks of one event loop, over one connection. timeout_s: for all of a question,
    None where somebody else sees to it, as `AsyncGuarded` does. max_asked: how many are under way; others wait."""

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float | None = TIMEOUT_S,
        max_asked: int = MAX_ASKED,
        prefix: str = PREFIX,
    ) -> None:
        super().__init__(url, timeout_s, prefix)
        self._pipe: _Pipe | None = None
        self._opening = asyncio.Lock()
        self._free = asyncio.Semaphore(max_asked)
        self._connection()  # a wrong address is told at once

    async def decide(self, question: Question) -> list[Quota]:
        return self._codec.told(question, await self._run(DECIDE, self._codec.asked(question)))

    async def settle(self, reservation: str, keep: int | None, at_us: int | None) -> Settled:
        return SETTLED[await self._run(SETTLE, self._codec.settling(reservation, keep, at_us))]

    async def reset(self, question: Question) -> None:
        await self._in_time(command(b"DEL", *self._codec.names(question)))

    async def close(self) -> None:
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            await pipe.close()

    async def _run(self, script: Script, arguments: Arguments) -> Answer:
        try:
            return await self._in_time(script.by_digest(arguments))
        except NoScriptError:
            return await self._in_time(script.whole(arguments))

    async def _in_time(self, sent: bytes) -> Answer:
        pipe, answers = None, 0
        try:
            async with asyncio.timeout(self._timeout_s), self._free:
                pipe = await self._ready()
                answers = pipe.answers
                return await pipe.ask(sent)
        except NoScriptError:
            raise
        except (RedisError, OSError, BackendUnavailable) as error:
            self._doubt(pipe, answers)
            raise self._failed(error) from error
        except asyncio.CancelledError:
            self._doubt(pipe, answers)
            raise

    def _doubt(self, pipe: _Pipe | None, answers: int) -> None:
        """Who gave up heard nothing since it asked, and nobody else did: the next one asks on another connection."""
        if pipe is not None and pipe.answers == answers:
            pipe.let_go()
            if self._pipe is pipe:
                self._pipe = None

    async def _ready(self) -> _Pipe:
        pipe = self._pipe
        if pipe is not None and pipe.is_open:
            return pipe
        async with self._opening:
            if self._pipe is None or not self._pipe.is_open:
                pipe = _Pipe(self._connection())
                await pipe.open()
                self._connected += 1
                self._pipe = pipe
            return self._pipe

    def _connection(self) -> Any:
        return self._made(async_connection.parse_url, async_connection.Connection, socket_timeout=None)
