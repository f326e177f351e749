"""`clickcurve mcp`: passes what an assistant says on standard input on to a server, and the answers back."""

from __future__ import annotations

import sys
from typing import Any

import click
import msgspec

from server.cli.client.api import NamedServer, problem_sentence, with_server
from server.cli.main import Failed
from server.cli.output import write_message
from server.mcp.mcp_routes import PATH
from server.mcp.protocol import FAILED, error_message, fields_of

HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


@click.command("mcp")
@with_server
def mcp_command(server: NamedServer) -> None:
    """Let an assistant on this machine ask a server, by the Model Context Protocol over standard input and output.

    For programs that start a command and cannot send a token themselves. The token of the server's customer, with a
    prefix, lets an assistant see these keys alone.

    \b
    Examples:
      clickcurve mcp --url https://clicks.example --token TOKEN
    """
    for line in sys.stdin.buffer:
        if not line.isspace():
            answer = _answer(server, line)
            if answer:
                write_message(answer)


def _answer(server: NamedServer, line: bytes) -> bytes:
    """Returns what the server answers to a message, or an error; b"" where no answer is due."""
    message = _read(line)
    try:
        answered = server.pass_on(PATH, line, {**HEADERS, **fields_of(message)})
    except Failed as error:
        return error_message(message, FAILED, error.format_message())
    if answered.headers.get("content-type", "").startswith("application/json"):
        return answered.content
    return b"" if answered.is_success else error_message(message, FAILED, problem_sentence(answered))


def _read(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # the server says what is wrong with it
