"""Workers of one machine ask each other for hits that are not stored yet, so that each answers for all.

Each worker listens on a Unix socket in the data folder. One that is asked for a row asks all others first, for the
row's key, and reads the row when they have answered. An answer is what the worker holds of the row, each part with the
least number that the flush which moves it can get. The row's marks then decide, as for own pending hits: whatever is
flushed meanwhile counts once.

A worker that takes longer than WAIT_S, or is not there, is named as unheard. What it said last of the row still counts,
for the marks decide about that too. It is not waited for again until it has answered.

One question to a worker is under way at a time. Keys that come meanwhile go together into the next one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from clickcurve.buckets.breakdowns.breakdown import PendingBreakdown
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.row import Pending
from clickcurve.keys import breakdown_key, counts_key, link_key, link_of
from query.lists.other_workers import WorkerPending
from server.data_folder import journal_folder, peers_folder
from server.workers.messages import (
    ALL_GROUPS,
    ANSWERS,
    ENCODER,
    QUESTIONS,
    AnyPending,
    Asked,
    PendingGroups,
    PendingRows,
    Said,
    Wanted,
    answer_of,
)
from server.workers.unreachable import note_unreachable

WAIT_S = 0.5
KNOWN_MOST = 10_000  # keys of which it is remembered what a worker said last
LENGTH_BYTES = 4


class Framed(asyncio.Protocol):
    """One end of a connection, as messages: four bytes of length, then MessagePack."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are none of asyncio's classes
        self._received.clear()

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        while len(received) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(received[:LENGTH_BYTES])
            if len(received) < end:
                return
            message = bytes(received[LENGTH_BYTES:end])
            del received[:end]
            self.message_received(message)

    def message_received(self, message: bytes) -> None:
        raise NotImplementedError

    def send(self, message: object) -> None:
        """Sends a message, unless the connection is gone."""
        if self.transport is not None:
            packed = ENCODER.encode(message)
            self.transport.write(len(packed).to_bytes(LENGTH_BYTES) + packed)


class Answering(Framed):
    """The end that is asked. Questions are answered in their order: the other end asks one at a time."""

    def __init__(self, asked: Asked, open_ones: set[Answering]) -> None:
        super().__init__()
        self._asked = asked
        self._open_ones = open_ones
        self._erasing: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._open_ones.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._open_ones.discard(self)

    def message_received(self, message: bytes) -> None:
        question = QUESTIONS.decode(message)
        if question.erased:
            self._erasing = asyncio.ensure_future(self._erase(question))
        else:
            self.send(answer_of(self._asked, question.keys))

    async def _erase(self, question: Wanted) -> None:
        for link in question.erased:
            await self._asked.erased_elsewhere(link)
        self.send(answer_of(self._asked, question.keys))


class Waiter:
    """What several workers say of one key. It is done when each has answered, or is given up."""

    def __init__(self, workers: int) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.found: list[AnyPending] = []
        self.unheard: list[str] = []
        self.damaged: str | None = None
        self._left = workers

    def heard(self, pending: Sequence[AnyPending]) -> None:
        self.found += pending
        self._left -= 1
        if not self._left and not self.done.done():
            self.done.set_result(None)

    def missed(self, name: str, known: Sequence[AnyPending]) -> None:
        """Takes what the worker said before in place of an answer."""
        self.unheard.append(name)
        self.heard(known)


class Peer(Framed):
    """Another worker, and the end that asks it. `name` is its journal's, `path` that of its socket."""

    def __init__(self, name: str, path: str) -> None:
        super().__init__()
        self._name = name
        self._path = path
        self._wanted: dict[str, list[Waiter]] = {}  # for the next question
        self._erased: dict[str, list[Waiter]] = {}
        self._asked: tuple[dict[str, list[Waiter]], list[Waiter]] | None = None  # the question under way
        self._known: dict[str, list[AnyPending]] = {}  # what it said last, where that was something
        self._late = False
        self._connection = 0  # its number: a worker that is started again has another
        self._timer: asyncio.TimerHandle | None = None
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connection += 1

    def ask(self, key: str, waiter: Waiter) -> None:
        if self._late:
            waiter.missed(self._name, self._known.get(key, ()))
            return
        if not self._wanted and not self._erased:
            asyncio.get_running_loop().call_soon(self._ask)  # the keys of one turn of the loop go together
        self._wanted.setdefault(key, []).append(waiter)

    def tell_erased(self, link: str, waiter: Waiter) -> None:
        """Tells the worker that a link was erased; a late one hears it when it is back."""
        self._known.pop(link_key(link), None)
        self._known.pop(breakdown_key(link), None)
        if not self._wanted and not self._erased:
            asyncio.get_running_loop().call_soon(self._ask)
        waiters = self._erased.setdefault(link, [])
        if self._late:
            waiter.missed(self._name, ())
        else:
            waiters.append(waiter)

    def _ask(self) -> None:
        if self._asked is not None or not (self._wanted or self._erased):
            return
        if self.transport is None:
            if self._connecting is None:
                self._connecting = asyncio.ensure_future(self._connect())
            return
        question = Wanted(list(self._wanted), list(self._erased))
        self._asked = self._wanted, [each for waiters in self._erased.values() for each in waiters]
        self._wanted, self._erased = {}, {}
        self.send(question)
        self._timer = asyncio.get_running_loop().call_later(WAIT_S, self._give_up)

    async def _connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: self, self._path)
        except OSError:  # not there: it was not started yet, or has died
            self._miss_wanted()
            self._erased = {}  # the flush that its start begins with hears of it from the store
        finally:
            self._connecting = None
        self._ask()

    def message_received(self, message: bytes) -> None:
        assert self._asked is not None
        wanted, erased = self._asked
        self._end_question()
        for (key, waiters), said in zip(wanted.items(), ANSWERS.decode(message), strict=True):
            self._said(key, waiters, said)
        for waiter in erased:
            waiter.heard(())
        self._ask()

    def _said(self, key: str, waiters: list[Waiter], said: Said) -> None:
        known = self._known.pop(key, [])
        if said is None:
            self._keep(key, known)
            for waiter in waiters:
                waiter.missed(self._name, known)
            return
        pending = self._pending_of(said)
        self._keep(key, pending)
        for waiter in waiters:
            if isinstance(said, str):
                waiter.damaged = said
            waiter.heard(pending)

    def _pending_of(self, said: list[PendingRows] | PendingGroups | str) -> list[AnyPending]:
        if isinstance(said, PendingGroups):
            return [said.held(self._name, self._connection)]
        return [] if isinstance(said, str) else [part.pending() for part in said]

    def _keep(self, key: str, pending: list[AnyPending]) -> None:
        if pending:
            self._known[key] = pending
            if len(self._known) > KNOWN_MOST:
                del self._known[next(iter(self._known))]

    def _end_question(self) -> None:
        self._asked = None
        self._late = False
        if self._timer is not None:
            self._timer.cancel()

    def _give_up(self) -> None:
        """Answers all that wait without this worker. Its own answer is still awaited, and ends that."""
        assert self._asked is not None
        self._late = True
        wanted = self._asked[0]
        self._miss_asked()
        self._asked = {key: [] for key in wanted}, []
        self._miss_wanted()

    def _miss_asked(self) -> None:
        if self._asked is not None:
            wanted, erased = self._asked
            self._miss(wanted)
            for waiter in erased:
                waiter.missed(self._name, ())

    def _miss_wanted(self) -> None:
        """Gives up what was not asked yet, but tells of the erasures all the same."""
        wanted, self._wanted = self._wanted, {}
        self._miss(wanted)
        for waiters in self._erased.values():
            for waiter in waiters:
                waiter.missed(self._name, ())
            waiters.clear()

    def _miss(self, wanted: dict[str, list[Waiter]]) -> None:
        for key, waiters in wanted.items():
            for waiter in waiters:
                waiter.missed(self._name, self._known.get(key, ()))

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._miss_asked()
        self._end_question()
        self._ask()


class Peers:
    """The workers of a server, as the one with journal `number` sees them. A single worker neither asks nor answers."""

    def __init__(self, data: Path, number: int, workers: int) -> None:
        self._folder = peers_folder(data)
        self._number = number
        self._workers = workers
        self._others: list[Peer] = []
        self._answering: set[Answering] = set()
        self._server: asyncio.Server | None = None
        self._handle = -1  # of the folder, while it listens
        self.incomplete_answers = 0  # questions for which some worker was not reached

    async def listen(self, asked: Asked) -> None:
        """Answers the other workers from now on, and can ask them."""
        if self._workers == 1:
            return
        self._folder.mkdir(mode=0o700, exist_ok=True)
        # The path of a socket has 107 bytes at most, which that of a data folder may pass.
        self._handle = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for number in range(1, self._workers + 1):
            if number != self._number:
                name = journal_folder(self._folder.parent, number).name
                self._others.append(Peer(name, self._path(number)))
        own = Path(self._path(self._number))
        own.unlink(missing_ok=True)  # of a worker that was killed: the journal's lock lets one live at a time
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(lambda: Answering(asked, self._answering), str(own))
        own.chmod(0o600)

    def _path(self, number: int) -> str:
        return f"/proc/self/fd/{self._handle}/{number}"

    async def pending(self, key: str) -> list[Pending]:
        """Returns what the other workers hold of a stored key. Raises RowCorrupt where one has hits quarantined."""
        return cast(list[Pending], await self._ask_all(key))

    async def pending_breakdowns(self, key: str) -> list[PendingBreakdown]:
        """Returns the same of a breakdown."""
        return cast(list[PendingBreakdown], await self._ask_all(key))

    async def groups(self) -> list[WorkerPending]:
        """Returns what the other workers hold of all groups. Raises RowCorrupt if one has quarantined hits."""
        return cast(list[WorkerPending], await self._ask_all(ALL_GROUPS))

    async def _ask_all(self, key: str) -> list[AnyPending]:
        waiter = Waiter(len(self._others))
        for each in self._others:
            each.ask(key, waiter)
        await waiter.done
        if waiter.damaged is not None:
            raise RowCorrupt(waiter.damaged, field="key", value=link_of(counts_key(key)))
        if waiter.unheard:
            self.incomplete_answers += 1
            for name in waiter.unheard:
                note_unreachable(name)
        return waiter.found

    async def tell_erased(self, link: str) -> None:
        """Tells the other workers that a link was erased, so that they show what comes from now on only."""
        waiter = Waiter(len(self._others))
        for each in self._others:
            each.tell_erased(link, waiter)
        await waiter.done

    def close(self) -> None:
        """Answers nobody any more."""
        if self._server is None:
            return
        self._server.close()
        for each in (*self._answering, *self._others):
            if each.transport is not None:
                each.transport.close()
        Path(self._path(self._number)).unlink(missing_ok=True)
        os.close(self._handle)
