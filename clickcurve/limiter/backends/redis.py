"""The backend on Redis: one call of one script for each decision, however many rules and rates it has.

The script reads, decides and charges in one step, so that any number of processes are decided as if one after the
other; and where no time is given it takes Redis' own clock, which all of them share. `redis_scripts` encodes questions
and decodes answers; here are the connections.

**A question is sent once.** One that failed may have been charged all the same, so it is never repeated: it raises
BackendUnavailable, and the next question goes over another connection. Only where Redis answers that it does not know
the script, and so has done nothing, is the same question sent with the whole script.

**Bounds.** Threads share a bounded number of connections, each with one question under way; an event loop has one, with
a bounded number. There is a time limit to connect, to wait for a free connection, and for an answer.

**An error ends its connection.** After a failover the old primary may live on as a replica behind open connections; it
then answers every hit with an error, as one that is loading does. The next question connects anew, to where the address
leads by then.

One server, or the primary of a replicated one. `redis_cluster` has such a backend for each node of a Redis Cluster. A
node that is given as a single server is refused, since the keys of one decision may lie on several nodes.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final

from redis.exceptions import NoPermissionError, NoScriptError, RedisError, ResponseError

from clickcurve.buckets.errors import BackendUnavailable
from clickcurve.limiter.backend import Question, Settled
from clickcurve.limiter.backends.connections.redis_address import RedisAddress
from clickcurve.limiter.backends.connections.redis_socket import Answer, RedisSocket
from clickcurve.limiter.backends.redis_scripts import PREFIX, SETTLE, SETTLED, Script, ScriptCodec, command
from clickcurve.limiter.quota import Quota

TIMEOUT_S = 0.1
MAX_CONNECTIONS = 32
MAX_ASKED = 1_000


_ASK_KIND: Final = command(b"INFO", b"cluster")
_IS_CLUSTER: Final = b"cluster_enabled:1"
_CLUSTER: Final = "this is a node of a Redis Cluster: give its address as redis+cluster://host:port"
_NO_CLUSTER: Final = "this is no node of a Redis Cluster: give its address as redis://host:port"


class _Counted:
    """What both forms count, and where they connect to."""

    keeps_time = True
    server_of = None

    def __init__(self, url: str, timeout_s: float | None, discover_s: float, prefix: str, in_cluster: bool) -> None:
        self._timeout_s = timeout_s
        self._in_cluster = in_cluster
        self._address = RedisAddress(url, timeout_s, discover_s)
        self._codec = ScriptCodec(prefix)
        self._connected = self._failures = 0

    def _failed(self, error: Exception) -> BackendUnavailable:
        self._failures += 1
        if isinstance(error, BackendUnavailable):
            return error
        return BackendUnavailable(f"Redis did not answer: {error or type(error).__name__}")

    def _check_kind(self, info: bytes) -> None:
        """Raises BackendUnavailable for a node of a cluster where one server is expected, and the other way round."""
        if (_IS_CLUSTER in info) != self._in_cluster:
            raise BackendUnavailable(_NO_CLUSTER if self._in_cluster else _CLUSTER)

    def measures(self) -> Mapping[str, float]:
        return {"redis_connections_made_total": self._connected, "redis_failures_total": self._failures}


class RedisBackend(_Counted):
    """`Backend` on Redis, for any number of threads.

    url: of a server, or of the sentinels that name it (`redis_address`). timeout_s: for each of waiting for a free
    connection, asking the sentinels, connecting, and the answer. in_cluster: the server is a node of a Redis Cluster.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = TIMEOUT_S,
        max_connections: int = MAX_CONNECTIONS,
        prefix: str = PREFIX,
        in_cluster: bool = False,
    ) -> None:
        super().__init__(url, timeout_s, timeout_s, prefix, in_cluster)
        self._max_connections = max_connections
        self._process = -1
        self._start()

    def decide(self, question: Question) -> list[Quota]:
        codec = self._codec
        answer = self._run(codec.encode_question(question), codec.plan(question.rules).script)
        return codec.decode_quotas(question, answer)

    def settle(self, reservation: str, keep: int | None, at_us: int | None) -> Settled:
        return SETTLED[self._run(self._codec.encode_settlement(reservation, keep, at_us), SETTLE)]

    def reset(self, question: Question) -> None:
        self._run(command(b"DEL", *self._codec.redis_keys(question)))

    def ask(self, sent: bytes) -> Answer:
        """Sends an encoded command (`redis_scripts.command`), and returns its answer."""
        return self._run(sent)

    def close(self) -> None:
        with suppress(IndexError):  # until none is left; other threads take some meanwhile
            while True:
                self._idle.pop().close()

    def _run(self, called: bytes, script: Script | None = None) -> Answer:
        """Asks over a connection of its own; where Redis does not know the script, once more with its text."""
        if self._process != os.getpid():
            self._start()
        try:
            self._free.get(timeout=self._timeout_s)
        except Empty:
            busy = f"all {self._max_connections} connections to Redis are in use"
            raise self._failed(BackendUnavailable(busy)) from None
        connection = None
        try:
            connection = self._ready()
            try:
                answer = connection.ask(called)
            except NoScriptError:
                if script is None:
                    raise
                answer = connection.ask(script.with_text(called))
            self._idle.append(connection)
            return answer
        except (RedisError, OSError, BackendUnavailable) as error:
            # The idle ones are most likely dead too; those in use will show it themselves. An answer that is an error
            # ends it as well: a replica, or a server that is loading, may be the primary no longer.
            if connection is not None:
                connection.close()
            self.close()
            raise self._failed(error) from error
        finally:
            self._free.put(None)

    def _ready(self) -> RedisSocket:
        """Returns a connection that is connected.

        Bytes that arrive on an idle one are its end, or an answer that came too late: it is connected anew.
        """
        with suppress(IndexError):
            idle = self._idle.pop()
            if idle.is_silent():
                return idle
            idle.close()
        connection = self._address.connection()
        connection.connect()
        self._connected += 1
        connection.send_packed_command([_ASK_KIND], check_health=False)
        ready = RedisSocket(connection)
        try:
            with suppress(NoPermissionError):  # the user may not read this, and need not
                self._check_kind(connection.read_response())
        except BackendUnavailable:
            ready.close()
            raise
        return ready

    def _start(self) -> None:
        """Starts without connections: at first, and in a forked process, since two cannot share one."""
        self._process = os.getpid()
        self._idle: list[RedisSocket] = []
        # As many as may be in use; a queue of C takes a tenth of the time of a semaphore.
        self._free: SimpleQueue[None] = SimpleQueue()
        for _ in range(self._max_connections):
            self._free.put(None)


class _Pipe:
    """A connection with any number of questions under way: the answers come in the order of the questions.

    check: raises BackendUnavailable if the server's `INFO cluster` is not that of the kind of server expected.
    """

    def __init__(self, connection: Any, check: Callable[[bytes], None]) -> None:
        self._connection = connection
        self._check = check
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
            with suppress(NoPermissionError):  # the user may not read this, and need not
                self._check(await connection.read_response(disconnect_on_error=False))
        except BaseException:
            await self._hang_up()
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
        """Takes no more questions: closes when those under way are answered or given up."""
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
                    answer, error = await self._connection.read_response(disconnect_on_error=False), None
                except ResponseError as refused:
                    answer, error = None, refused
                self.answers += 1
                future = self._asked.popleft()
                if future.done():  # given up meanwhile
                    continue
                if error is None:
                    future.set_result(answer)
                else:
                    future.set_exception(error)
        except (RedisError, OSError, IndexError) as ended:  # IndexError: an answer without a question
            why = ended
        finally:
            await self._hang_up()
            for future in self._asked:
                if not future.done():
                    future.set_exception(BackendUnavailable(f"the connection to Redis ended: {why}"))

    async def _hang_up(self) -> None:
        """Closes the socket at once: over TLS a polite close waits for the server, and may outlive the event loop."""
        if self._connection.is_connected:
            self._connection._writer.transport.abort()
        await self._connection.disconnect(nowait=True)


class AsyncRedisBackend(_Counted):
    """`AsyncBackend` on Redis, for the tasks of one event loop, over one connection.

    url: as of `RedisBackend`. timeout_s: for all of a question; None where the caller limits it, as `AsyncGuarded`
    does. discover_s: of that, for asking the sentinels. max_asked: how many questions are under way; others wait.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float | None = TIMEOUT_S,
        discover_s: float = TIMEOUT_S / 2,
        max_asked: int = MAX_ASKED,
        prefix: str = PREFIX,
        in_cluster: bool = False,
    ) -> None:
        super().__init__(url, timeout_s, discover_s, prefix, in_cluster)
        self._pipe: _Pipe | None = None
        self._opening = asyncio.Lock()
        self._free = asyncio.Semaphore(max_asked)

    async def decide(self, question: Question) -> list[Quota]:
        codec = self._codec
        answer = await self._run(codec.encode_question(question), codec.plan(question.rules).script)
        return codec.decode_quotas(question, answer)

    async def settle(self, reservation: str, keep: int | None, at_us: int | None) -> Settled:
        return SETTLED[await self._run(self._codec.encode_settlement(reservation, keep, at_us), SETTLE)]

    async def reset(self, question: Question) -> None:
        await self._in_time(command(b"DEL", *self._codec.redis_keys(question)))

    async def ask(self, sent: bytes) -> Answer:
        """Sends an encoded command (`redis_scripts.command`), and returns its answer."""
        return await self._in_time(sent)

    async def close(self) -> None:
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            await pipe.close()

    async def _run(self, called: bytes, script: Script) -> Answer:
        try:
            return await self._in_time(called)
        except NoScriptError:
            return await self._in_time(script.with_text(called))

    async def _in_time(self, sent: bytes) -> Answer:
        pipe, answers = None, 0
        try:
            async with asyncio.timeout(self._timeout_s), self._free:
                pipe = await self._ready()
                answers = pipe.answers
                return await pipe.ask(sent)
        except NoScriptError:
            raise
        except ResponseError as error:  # of a replica, or a server that is loading: it may be the primary no longer
            self._leave(pipe)
            raise self._failed(error) from error
        except (RedisError, OSError, BackendUnavailable) as error:
            self._leave_if_silent(pipe, answers)
            raise self._failed(error) from error
        except asyncio.CancelledError:
            self._leave_if_silent(pipe, answers)
            raise

    def _leave_if_silent(self, pipe: _Pipe | None, answers: int) -> None:
        """Leaves a connection on which no answer has come since the question that was given up."""
        if pipe is not None and pipe.answers == answers:
            self._leave(pipe)

    def _leave(self, pipe: _Pipe | None) -> None:
        """Lets a connection end when those that were asked before are answered; the next question gets another."""
        if pipe is not None:
            pipe.let_go()
            if self._pipe is pipe:
                self._pipe = None

    async def _ready(self) -> _Pipe:
        pipe = self._pipe
        if pipe is not None and pipe.is_open:
            return pipe
        async with self._opening:
            if self._pipe is None or not self._pipe.is_open:
                pipe = _Pipe(await self._address.awaited_connection(), self._check_kind)
                await pipe.open()
                self._connected += 1
                self._pipe = pipe
            return self._pipe
