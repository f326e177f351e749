"""The backend on Redis: one call of one script for each decision, however many rules and rates it has.

The script reads, decides and charges in one step, so that any number of processes are decided as if one after the
other; and where nobody gives a time it takes Redis' own clock, which all of them share. `ratelimit.scripted` has what
is said to the scripts; here are the connections.

**A question is sent once.** One that failed may have been charged all the same, so it is never repeated: the answer is
BackendUnavailable, and the connection is closed. Only where Redis says that it does not know the script, and has done
nothing, is the same question put with the whole script.

**Bounds.** So many connections, and so many seconds to connect, to wait for a free connection, and for an answer.

One server, or the primary of a replicated one. A Redis Cluster is refused: the keys of one decision may lie on several
of its nodes, which no script can decide together.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha1
from threading import BoundedSemaphore
from typing import Any, Final, TypeAlias

from redis import connection as sync_connection
from redis.asyncio import connection as async_connection
from redis.exceptions import NoPermissionError, NoScriptError, RedisError, ResponseError

from buckets.errors import BackendUnavailable, SettingInvalid
from ratelimit.backend import Question, Settled
from ratelimit.decision import Standing
from ratelimit.scripted import PREFIX, SETTLED, Sheets, source

TIMEOUT_S = 0.1
MAX_CONNECTIONS = 32
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
    """What both forms count, and what they make of their settings. timeout_s: for each of connecting, waiting for a
    free connection, and the answer."""

    keeps_time = True

    def __init__(self, url: str, timeout_s: float, max_connections: int, prefix: str) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._max_connections = max_connections
        self._sheets = Sheets(prefix)
        self._connected = self._failures = 0

    def _made(self, parse: Any, usual: Any, **more: Any) -> Any:
        """A connection that is not connected yet, by the parser of addresses and the class of one of the two forms."""
        try:
            settings = parse(self._url)
            kind = settings.pop("connection_class", usual)
            return kind(**{"socket_connect_timeout": self._timeout_s, **settings, **more})
        except (ValueError, TypeError) as error:
            raise SettingInvalid(
                f"this is no address of a Redis: {error}", field="limits_redis", rule=ADDRESS_RULE
            ) from None

    def _failed(self, error: Exception) -> BackendUnavailable:
        self._failures += 1
        if isinstance(error, BackendUnavailable):
            return error
        return BackendUnavailable(f"Redis did not answer: {error or type(error).__name__}")

    def measures(self) -> Mapping[str, float]:
        return {"redis_connections_made_total": self._connected, "redis_failures_total": self._failures}


class RedisBackend(_Counted):
    """`Backend` on Redis, for any number of threads."""

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = TIMEOUT_S,
        max_connections: int = MAX_CONNECTIONS,
        prefix: str = PREFIX,
    ) -> None:
        super().__init__(url, timeout_s, max_connections, prefix)
        self._process = -1
        self._fresh()
        self._connection()  # a wrong address is told at once

    def decide(self, question: Question) -> list[Standing]:
        return self._sheets.told(question, self._run(DECIDE, self._sheets.asked(question)))

    def settle(self, reservation: str, keep: int | None, at_us: int | None) -> Settled:
        return SETTLED[self._run(SETTLE, self._sheets.settling(reservation, keep, at_us))]

    def reset(self, question: Question) -> None:
        with self._lent() as connection:
            self._ask(connection, command(b"DEL", *self._sheets.names(question)))

    def close(self) -> None:
        while self._idle:
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


class AsyncRedisBackend(_Counted):
    """`AsyncBackend` on Redis, for the tasks of one event loop. timeout_s is for all of a question."""

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = TIMEOUT_S,
        max_connections: int = MAX_CONNECTIONS,
        prefix: str = PREFIX,
    ) -> None:
        super().__init__(url, timeout_s, max_connections, prefix)
        self._idle: list[Any] = []
        self._free = asyncio.Semaphore(max_connections)
        self._connection()  # a wrong address is told at once

    async def decide(self, question: Question) -> list[Standing]:
        return self._sheets.told(question, await self._run(DECIDE, self._sheets.asked(question)))

    async def settle(self, reservation: str, keep: int | None, at_us: int | None) -> Settled:
        return SETTLED[await self._run(SETTLE, self._sheets.settling(reservation, keep, at_us))]

    async def reset(self, question: Question) -> None:
        await self._in_time(command(b"DEL", *self._sheets.names(question)))

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().disconnect(nowait=True)

    async def _run(self, script: Script, arguments: Arguments) -> Answer:
        try:
            return await self._in_time(script.by_digest(arguments))
        except NoScriptError:
            return await self._in_time(script.whole(arguments))

    async def _in_time(self, sent: bytes) -> Answer:
        """The answer to one command, on a connection that nobody else uses meanwhile."""
        connection = None
        try:
            async with asyncio.timeout(self._timeout_s), self._free:
                connection = await self._ready()
                answer = await self._ask(connection, sent)
                self._idle.append(connection)
                return answer
        except NoScriptError:
            self._idle.append(connection)
            raise
        except ResponseError as error:  # an answer, if not the one that was asked for
            if connection is not None:
                self._idle.append(connection)
            raise self._failed(error) from error
        except (RedisError, OSError, BackendUnavailable) as error:
            if connection is not None:
                await connection.disconnect(nowait=True)
            await self.close()  # the others are as dead, most likely
            raise self._failed(error) from error
        except BaseException:
            if connection is not None:
                await connection.disconnect(nowait=True)
            raise

    @staticmethod
    async def _ask(connection: Any, sent: bytes) -> Answer:
        await connection.send_packed_command([sent], check_health=False)
        return await connection.read_response()

    async def _ready(self) -> Any:
        """As of `RedisBackend`."""
        while self._idle:
            connection = self._idle.pop()
            try:
                if connection.is_connected and not await connection.can_read():
                    return connection
            except (RedisError, OSError):
                pass
            await connection.disconnect(nowait=True)
        connection = self._connection()
        try:
            await connection.connect()
            self._connected += 1
            if _IS_CLUSTER in await self._ask(connection, _ASK_KIND):
                raise BackendUnavailable(_CLUSTER)
        except NoPermissionError:  # it need not tell
            pass
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection

    def _connection(self) -> Any:
        return self._made(async_connection.parse_url, async_connection.Connection, socket_timeout=None)
