"""Connections to a memcached server, a bounded number, and the commands of its protocol that the limiter uses.

A request is any number of commands, sent at once; the answers to all of them come back together. The commands are those
of memcached 1.6.10 and later: `ma` adds to a number, makes it with its time to live where there is none, and returns
the sum, in one step. The usual clients do not know it; they send an `incr` and wait for its answer before the next.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from threading import BoundedSemaphore
from typing import TypeVar

from clickcurve.buckets.errors import BackendUnavailable, SettingInvalid

CONNECTIONS = 16
TIMEOUT_S = 0.1
# memcached takes a larger number for a date, and 0 for no end at all.
MAX_RELATIVE_S = 30 * 86_400
# Not all names in one line: a server may refuse one that is very long.
_NAMES_EACH = 100
_RECEIVE_BYTES = 65_536
# The command that does nothing; its answer says that all others have been answered.
_LAST = "mn\r\n"
_END = b"\r\nMN\r\n"
# Its answers: done; there is no such name; it was there, or had another value, so nothing was set.
DONE, NOT_THERE, NOT_SET = "HD", "NF", ("NS", "EX", "NF")

Parsed = TypeVar("Parsed")


def parse_address(text: str) -> tuple[str, int]:
    """Parses `host:port` or `[::1]:port`. SettingInvalid for anything else."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
        raise SettingInvalid(
            f"a memcached server is host:port, not {text!r}", field="limits_memcached", value=text, rule="host:port"
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


class Server:
    """One memcached server, for any number of threads.

    connections: how many are open at most; a thread that finds all of them busy waits for one. timeout_s: for
    connecting, for each piece of an answer, and for a connection to become free. BackendUnavailable when that passes,
    the connection breaks or the server refuses; nothing is sent twice.
    """

    def __init__(self, address: str, connections: int = CONNECTIONS, timeout_s: float = TIMEOUT_S) -> None:
        self.address = address = address.strip()
        self._to = parse_address(address)
        self._timeout_s = timeout_s
        self._connections = connections
        self._begin()

    def _begin(self) -> None:
        """Starts without connections. A forked process has its parent's, and leaves those alone."""
        self._process = os.getpid()
        self._free = BoundedSemaphore(self._connections)
        self._idle: deque[socket.socket] = deque()

    def ask(self, request: str) -> str:
        """Sends a request; returns the answers to all of its commands, each with its line end."""
        if self._process != os.getpid():
            self._begin()
        if not self._free.acquire(timeout=self._timeout_s):
            raise BackendUnavailable(f"memcached at {self.address}: every connection is busy")
        try:
            try:
                talking = self._idle.pop()
            except IndexError:
                talking = self._connect()
            try:
                talking.sendall((request + _LAST).encode("ascii"))
                answer = _read(talking)
            except BaseException:
                # The idle ones were opened before this: if the server is gone, each of them would fail another request.
                talking.close()
                self.close()
                raise
            self._idle.append(talking)
        except OSError as error:
            raise BackendUnavailable(f"memcached at {self.address}: {error or type(error).__name__}") from error
        finally:
            self._free.release()
        return answer

    def ask_three(self, first: str, second: str, third: str) -> tuple[str, str, str]:
        """Sends one `get`, a second one, and the rest of them; returns the three answers apart."""
        answer = self.ask(first + second + third)
        pieces = answer.split("END\r\n", 2)
        if len(pieces) != 3:
            raise self.unexpected(answer)
        return pieces[0], pieces[1], pieces[2]

    def parse(self, read: Callable[[str], Parsed], answer: str) -> Parsed:
        """Parses an answer with one of the functions below. BackendUnavailable if that cannot read it."""
        try:
            return read(answer)
        except (ValueError, IndexError):
            raise self.unexpected(answer) from None

    def unexpected(self, answer: str) -> BackendUnavailable:
        """Returns the error to raise when the server gives an unexpected answer."""
        return BackendUnavailable(f"memcached at {self.address} answered {answer[:100]!r}")

    @property
    def idle(self) -> int:
        return len(self._idle)

    def close(self) -> None:
        """Closes the idle connections. The next request opens another."""
        while self._idle:
            try:
                self._idle.pop().close()
            except IndexError:
                return

    def _connect(self) -> socket.socket:
        talking = socket.create_connection(self._to, self._timeout_s)
        talking.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return talking


def _read(talking: socket.socket) -> str:
    answer = talking.recv(_RECEIVE_BYTES)
    while answer[-len(_END) :] != _END and answer != _END[2:]:
        more = talking.recv(_RECEIVE_BYTES)
        if not more:
            raise ConnectionResetError("it closed the connection")
        answer += more
    return answer[: 2 - len(_END)].decode("latin-1")


# --- commands ---------------------------------------------------------------------------------------------------------
def expiry(life_s: int, at_us: int) -> int:
    """Returns a time to live as memcached takes it: seconds up to 30 days, beyond that the date of its end."""
    return life_s if life_s <= MAX_RELATIVE_S else at_us // 1_000_000 + life_s


def get_command(names: Sequence[str]) -> str:
    """Returns what reads the values of these names, in order, in one command or, for many names, several."""
    if len(names) <= _NAMES_EACH:
        return "get " + " ".join(names) + "\r\n" if names else ""
    pieces = [names[at : at + _NAMES_EACH] for at in range(0, len(names), _NAMES_EACH)]
    return "".join("get " + " ".join(piece) + "\r\n" for piece in pieces)


def parse_numbers(answer: str) -> dict[str, int]:
    """Parses the answer to `get` into the numbers that exist, by name. ValueError for anything else."""
    # VALUE <name> <flags> <length>, and in the next line the number; an END after each command.
    words = answer.replace("END\r\n", "").split()
    if words[::5].count("VALUE") * 5 != len(words):
        raise ValueError("no numbers")
    return dict(zip(words[1::5], map(int, words[4::5]), strict=True))


def gets_command(names: Sequence[str]) -> str:
    """Returns what reads the values of these names, each with the CAS number by which it can be replaced."""
    return "gets " + " ".join(names) + "\r\n"


def parse_numbers_and_cas(answer: str) -> dict[str, tuple[int, int]]:
    """Parses the answer to `gets`: (number, CAS number) by name."""
    words = answer.replace("END\r\n", "").split()
    if words[::6].count("VALUE") * 6 != len(words):
        raise ValueError("no numbers")
    return dict(zip(words[1::6], zip(map(int, words[5::6]), map(int, words[4::6]), strict=True), strict=True))


def add_command(name: str, number: int, ttl: int) -> str:
    """Returns what adds to a number; where there is none, it makes one that lives so long."""
    return f"ma {name} N{ttl} J{number} D{number}\r\n"


def add_and_get_command(name: str, number: int, ttl: int) -> str:
    """Returns what adds to a number and answers the sum; it lives so long from now on in any case."""
    return f"ma {name} N{ttl} T{ttl} J{number} D{number} v\r\n"


def subtract_command(names: Iterable[str], number: int) -> str:
    """Returns what subtracts from those numbers that exist, down to 0."""
    return "".join([f"ma {name} MD D{number}\r\n" for name in names])


def put_command(name: str, value: str, ttl: int, cas: int | None) -> str:
    """Returns what replaces the value that had this CAS number when it was read; None: sets it if there is none."""
    condition = "ME" if cas is None else f"C{cas}"
    return f"ms {name} {len(value)} T{ttl} {condition}\r\n{value}\r\n"


def value_command(name: str) -> str:
    """Returns what reads one value."""
    return f"mg {name} v\r\n"


def parse_value(answer: str) -> str | None:
    """Parses the answer to `value_command`: a value of one line, or None if there is none."""
    if answer == "EN\r\n":
        return None
    head, found, end = answer.split("\r\n")
    if not head.startswith("VA ") or end:
        raise ValueError("no value")
    return found
