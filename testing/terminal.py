"""A command on a pseudo-terminal, as a person would see it."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import termios
from collections.abc import Callable
from pathlib import Path
from typing import IO

from testing.server import command, plain_environment, spawn


def on_terminal(
    *arguments: str,
    columns: int = 80,
    lines: int = 24,
    stdin: IO[bytes] | None = None,
    interrupt_when: Callable[[str], bool] | None = None,
    typed: str = "",
    code: int | None = None,
) -> str:
    """Run a command to its end; all that it wrote on the terminal, with the line ends of a terminal made plain.

    As soon as `interrupt_when` holds for what was written so far, the command gets a Ctrl-C. typed: what a person
    types, for whom the terminal is standard input as well; else it is `stdin`, or empty. code: what the command must
    end with.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    environment = plain_environment({"TERM": "xterm"})
    for name in ("COLUMNS", "LINES"):
        environment.pop(name, None)
    os.write(ours, typed.encode())
    with Path(os.devnull).open("rb") as nothing:
        given = theirs if typed else (stdin or nothing).fileno()
        program = spawn(command(*arguments), environment, Path.cwd(), (given, theirs, theirs))
    os.close(theirs)
    written = b""
    try:
        while data := _read(ours):
            written += data
            if interrupt_when is not None and interrupt_when(_text(written)):
                os.kill(program.pid, signal.SIGINT)
                interrupt_when = None
        ended_with = program.wait(60)
    finally:
        os.close(ours)
        if program.poll() is None:
            os.kill(program.pid, signal.SIGKILL)
            program.wait()
    assert code is None or ended_with == code, (ended_with, _text(written))
    return _text(written)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # the other end is closed: the program has ended
        return b""


def _text(written: bytes) -> str:
    return written.decode("utf-8", "replace").replace("\r\n", "\n")
