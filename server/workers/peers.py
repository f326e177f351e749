"""Workers of one machine ask each other for hits that are not stored yet, so that each answers for all.

Each worker listens on a Unix socket in the data folder. One that is asked for a row asks all others first, for the
row's key, and reads the row when they have answered. An answer is what the worker holds of the row, each part with the
least number that the flush which moves it can get. The row's marks then decide, as for own pending hits: whatever is
flushed meanwhile counts once.

A worker that takes longer than WAIT_S, or is not there, is named as unreachable. Its last answer for the row still
counts, for the marks decide about that too; only what a worker says that has adopted its journal counts in its place.
It is not waited for again until it has answered.

One question to a worker is under way at a time. Keys that come meanwhile go together into the next one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import cast

from clickcurve.buckets.errors import RowCorrupt, StoreUnavailable
from clickcurve.keys import breakdown_of, counts_key, group_of, link_of
from clickcurve.pending import Pending, PendingBreakdown
from query.lists.listed_rows import WorkerPending
from server.data_folder import journal_folder, peers_folder
from server.workers.messages import (
    ALL_GROUPS,
    ANSWERS,
    ENCODER,
    QUESTIONS,
    AnyPending,
    KeyAnswer,
    PendingGroups,
    PendingRows,
    Wanted,
    answer_of,
    links_within,
)
from server.workers.pending import PendingHits
from server.workers.unreachable import note_unreachable

WAIT_S = 0.5
KNOWN_MOST = 10_000  # keys of which it is remembered what a worker said last
LENGTH_BYTES = 4


async def read_message(reader: asyncio.StreamReader) -> bytes:
    """Returns the next message: four bytes of length, then MessagePack. Raises OSError or EOFError at the end."""
    return await reader.readexactly(int.from_bytes(await reader.readexactly(LENGTH_BYTES)))


def write_message(writer: asyncio.StreamWriter, message: object) -> None:
    """Sends a message of MessagePack with its length in front."""
    packed = ENCODER.encode(message)
    writer.write(len(packed).to_bytes(LENGTH_BYTES) + packed)


async def answer_questions(asked: PendingHits, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers the questions of a connection in their order, until it ends."""
    try:
        while True:
            question = QUESTIONS.decode(await read_message(reader))
            await asked.hide_erased(*question.erased)
            write_message(writer, answer_of(asked, question.keys))
    except (OSError, EOFError):
        return  # the other worker has ended, or has been killed
    finally:
        writer.close()


def _owners_in(pending: Iterable[AnyPending]) -> set[int]:
    """Returns the owners whose hits these are."""
    return {part.owner for each in pending for part in _parts(each)}


def _parts(pending: AnyPending) -> Iterable[Pending | PendingBreakdown]:
    return chain.from_iterable(pending.pending.values()) if isinstance(pending, WorkerPending) else (pending,)


def _without(pending: Iterable[AnyPending], owners: Collection[int]) -> Iterator[AnyPending]:
    """Yields what is not of these owners."""
    for each in pending:
        if isinstance(each, WorkerPending):
            rows = each.pending.items()
            yield each._replace(pending={key: [part for part in row if part.owner not in owners] for key, row in rows})
        elif each.owner not in owners:
            yield each


class Waiter:
    """The answers of several workers for one key. It is done when each has answered, or is given up.

    adopted: the owners that the asking worker has adopted.
    """

    def __init__(self, workers: int, adopted: Collection[int] = ()) -> None:
        self._adopted = adopted
        self._last_answers: list[AnyPending] = []  # of workers that were not reached
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.pending: list[AnyPending] = []
        self.unreachable: list[str] = []
        self.damaged: str | None = None
        self._left = workers

    def answered(self, pending: Sequence[AnyPending]) -> None:
        self.pending += pending
        self._left -= 1
        if not self._left and not self.done.done():
            if self._last_answers:
                held = _owners_in(self.pending).union(self._adopted)
                self.pending += _without(self._last_answers, held)
            self.done.set_result(None)

    def missed(self, name: str, last_answer: Sequence[AnyPending]) -> None:
        """Takes what the worker said before in place of an answer."""
        self.unreachable.append(name)
        self._last_answers += last_answer
        self.answered(())


class Peer:
    """Another worker, and the questions to it. `name` is its journal's, `path` that of its socket."""

    def __init__(self, name: str, path: str) -> None:
        self._name = name
        self._path = path
        self._wanted: dict[str, list[Waiter]] = {}  # for the next question
        self._erased: dict[str, list[Waiter]] = {}
        self._asked: tuple[dict[str, list[Waiter]], dict[str, list[Waiter]]] = {}, {}  # the question under way
        self._known: dict[str, list[AnyPending]] = {}  # its last answers, where they held something
        self._late = False
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._connection = 0  # its number: a worker that is started again has another
        self._exchange: asyncio.Task[None] | None = None

    def ask(self, key: str, waiter: Waiter) -> None:
        if self._late:
            waiter.missed(self._name, self._known.get(key, ()))
            return
        self._wanted.setdefault(key, []).append(waiter)
        self._begin()

    def tell_erased(self, key: str, waiter: Waiter) -> None:
        """Tells the worker that a stored key was erased; a late one is told when it answers again."""
        for stored_key in (key, breakdown_of(key), *([ALL_GROUPS] if group_of(key) is not None else [])):
            self._known.pop(stored_key, None)
        waiters = self._erased.setdefault(key, [])
        if self._late:
            waiter.missed(self._name, ())
        else:
            waiters.append(waiter)
        self._begin()

    def _begin(self) -> None:
        """Begins to ask in the next turn of the loop, so that the keys of one turn go together."""
        if self._exchange is None:
            self._exchange = asyncio.create_task(self._ask_all())

    async def _ask_all(self) -> None:
        """Asks one question after the other while there is something to ask."""
        try:
            while self._wanted or self._erased:
                streams = await self._connected()
                if streams is None:  # not there: it was not started yet, or has died
                    self._miss_wanted()
                    self._erased = {}  # the flush that its start begins with hears of it from the store
                    return
                self._asked, self._wanted, self._erased = (self._wanted, self._erased), {}, {}
                await self._ask_once(*streams)
        finally:
            self._exchange = None

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        if self._streams is not None and not (self._streams[0].at_eof() or self._streams[1].is_closing()):
            return self._streams
        self._disconnect()
        try:
            self._streams = await asyncio.open_unix_connection(self._path)
        except OSError:
            return None
        self._connection += 1
        return self._streams

    async def _ask_once(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Asks the question under way and hands its answer on. One that is late is given up, but still awaited."""
        wanted, erased = self._asked
        timer = asyncio.get_running_loop().call_later(WAIT_S, self._give_up)
        try:
            write_message(writer, Wanted(list(wanted), list(erased)))
            answers = ANSWERS.decode(await read_message(reader))
        except (OSError, EOFError):
            self._disconnect()
            self._miss_asked()
            return
        finally:
            timer.cancel()
            self._late = False
        wanted, erased = self._asked
        for (key, waiters), answer in zip(wanted.items(), answers, strict=True):
            self._answer(key, waiters, answer)
        for waiters in erased.values():
            for waiter in waiters:
                waiter.answered(())

    def _answer(self, key: str, waiters: list[Waiter], answer: KeyAnswer) -> None:
        last_answer = self._known.pop(key, [])
        if answer is None:
            self._remember(key, last_answer)
            for waiter in waiters:
                waiter.missed(self._name, last_answer)
            return
        pending = self._pending_of(answer)
        self._remember(key, pending)
        for waiter in waiters:
            if isinstance(answer, str):
                waiter.damaged = answer
            waiter.answered(pending)

    def _pending_of(self, answer: list[PendingRows] | PendingGroups | str) -> list[AnyPending]:
        if isinstance(answer, PendingGroups):
            return [answer.worker_pending(self._name, self._connection)]
        return [] if isinstance(answer, str) else [part.pending() for part in answer]

    def _remember(self, key: str, pending: list[AnyPending]) -> None:
        if pending and not key.startswith(links_within("")):  # what is asked once, and can be much
            self._known[key] = pending
            if len(self._known) > KNOWN_MOST:
                del self._known[next(iter(self._known))]

    def _give_up(self) -> None:
        """Answers all that wait without this worker, until its own answer comes."""
        self._late = True
        wanted, erased = self._asked
        self._miss_asked()
        self._asked = {key: [] for key in wanted}, {key: [] for key in erased}
        self._miss_wanted()

    def _miss_asked(self) -> None:
        self._miss(*self._asked)

    def _miss_wanted(self) -> None:
        """Gives up what was not asked yet, but tells of the erasures all the same."""
        wanted, self._wanted = self._wanted, {}
        self._miss(wanted, self._erased)
        self._erased = {key: [] for key in self._erased}

    def _miss(self, wanted: dict[str, list[Waiter]], erased: dict[str, list[Waiter]]) -> None:
        for key, waiters in wanted.items():
            for waiter in waiters:
                waiter.missed(self._name, self._known.get(key, ()))
        for waiters in erased.values():
            for waiter in waiters:
                waiter.missed(self._name, ())

    def close(self) -> list[asyncio.Task[None]]:
        """Asks nothing any more and closes the connection; returns what ends by that."""
        self._disconnect()
        if self._exchange is None:
            return []
        self._exchange.cancel()
        return [self._exchange]

    def _disconnect(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class Peers:
    """The workers of a server, as the one with journal `number` sees them. A single worker neither asks nor answers."""

    def __init__(self, data: Path, number: int, workers: int) -> None:
        self._folder = peers_folder(data)
        self._number = number
        self._workers = workers
        self._others: list[Peer] = []
        self._answering: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._server: asyncio.Server | None = None
        self._asked_here: PendingHits | None = None  # the questions of other workers
        self._handle = -1  # of the folder, while it listens
        self.incomplete_answers = 0  # questions for which some worker was not reached

    async def listen(self, asked: PendingHits) -> None:
        """Answers the other workers from now on, and can ask them."""
        if self._workers == 1:
            return
        self._asked_here = asked
        self._folder.mkdir(mode=0o700, exist_ok=True)
        # The path of a socket has 107 bytes at most, which that of a data folder may pass.
        self._handle = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for number in range(1, self._workers + 1):
            if number != self._number:
                name = journal_folder(self._folder.parent, number).name
                self._others.append(Peer(name, self._path(number)))
        own = Path(self._path(self._number))
        own.unlink(missing_ok=True)  # of a worker that was killed: the journal's lock lets one live at a time

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = cast(asyncio.Task[None], asyncio.current_task())
            self._answering[task] = writer
            try:
                await answer_questions(asked, reader, writer)
            finally:
                del self._answering[task]

        self._server = await asyncio.start_unix_server(answer, str(own))
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

    async def links_within(self, prefix: str) -> list[WorkerPending]:
        """Returns what the other workers hold of links whose keys begin with a prefix.

        Raises StoreUnavailable if one is not heard, or holds too many, until its next flush; RowCorrupt as `groups`.
        """
        waiter = await self._asked(links_within(prefix))
        if waiter.unreachable:
            names = ", ".join(waiter.unreachable)
            raise StoreUnavailable(f"links of the worker {names} are not known before its next flush; try again")
        return cast(list[WorkerPending], waiter.pending)

    async def _ask_all(self, key: str) -> list[AnyPending]:
        waiter = await self._asked(key)
        if waiter.unreachable:
            self.incomplete_answers += 1
            for name in waiter.unreachable:
                note_unreachable(name)
        return waiter.pending

    async def _asked(self, key: str) -> Waiter:
        waiter = Waiter(len(self._others), self._asked_here.adopted if self._asked_here else ())
        for peer in self._others:
            peer.ask(key, waiter)
        await waiter.done
        if waiter.damaged is not None:
            raise RowCorrupt(waiter.damaged, field="key", value=link_of(counts_key(key)))
        return waiter

    async def tell_erased(self, *keys: str) -> None:
        """Tells the other workers that these stored keys were erased, so that they show what comes from now on only."""
        waiter = Waiter(len(self._others) * len(keys))
        for peer in self._others:
            for key in keys:
                peer.tell_erased(key, waiter)
        await waiter.done

    async def close(self) -> None:
        """Answers nobody any more."""
        if self._server is None:
            return
        self._server.close()
        for writer in self._answering.values():
            writer.close()
        ending = [*self._answering, *chain.from_iterable(each.close() for each in self._others)]
        await asyncio.gather(*ending, return_exceptions=True)
        Path(self._path(self._number)).unlink(missing_ok=True)
        os.close(self._handle)
