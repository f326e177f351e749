"""`clickcurve erase-word DIMENSION -`: has a running server forget a value of a dimension."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click

from server.cli.client.api import NamedServer, segment_of, with_server
from server.cli.main import USAGE, Failed
from server.cli.output import Result, ShorthandGroup

_ADD = "add"
_PATH = "/v1/words/erase"
_VALUE_BYTES = 4_096


@click.group("erase-word", cls=ShorthandGroup, left_out=_ADD)
def erase_word_command() -> None:
    """Forget a value of a dimension: its hits become `other`, and totals stay.

    `clickcurve erase-word utm_campaign -` reads the value from standard input, so that no list of processes and no
    history of a shell has it. If the server has tokens, the token needs the scope admin.

    \b
    Examples:
      clickcurve erase-word utm_campaign - < value.txt
      clickcurve erase-word show 1f2e3d4c5b6a7988
    """


@erase_word_command.command(_ADD)
@click.argument("dimension")
@click.argument("source", metavar="-")
@click.option("--key", help="In this link only.")
@click.option("--group", help="In this group only.")
@with_server
def add_erasure(server: NamedServer, dimension: str, source: str, key: str | None, group: str | None) -> Result:
    """Forget the value of DIMENSION that standard input holds, in one line; it cannot be undone.

    Every server of the store erases it in its own rows. Without --key and --group it goes everywhere, from rules that
    call hits bots too. Sent again it is carried out again.

    \b
    Examples:
      clickcurve erase-word utm_campaign - < value.txt
      clickcurve erase-word add ref - --key launch < value.txt
    """
    if source != "-":
        raise Failed("the value is read from standard input, so that no list of processes has it: write -", USAGE)
    meant = {"dimension": dimension, "value": _value(), "key": key, "group": group}
    erasure = server.call(_PATH, {}, {name: value for name, value in meant.items() if value is not None})
    return Result(_lines(erasure), [erasure])


def _value() -> str:
    """Reads the value; the end of its line is no part of it."""
    data = sys.stdin.buffer.read(_VALUE_BYTES + 1)
    try:
        value = data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise Failed("standard input is not UTF-8", USAGE) from None
    if not value or "\n" in value or len(data) > _VALUE_BYTES:
        raise Failed(f"standard input holds no value: one line of 1 to {_VALUE_BYTES:,} bytes", USAGE)
    return value


@erase_word_command.command("show")
@click.argument("erasure_id", metavar="ID")
@with_server
def show_erasure(server: NamedServer, erasure_id: str) -> Result:
    """Show how far an erasure is, and which owners have not confirmed it; until 8 days after it is done.

    \b
    Examples:
      clickcurve erase-word show 1f2e3d4c5b6a7988
    """
    erasure = server.ask(f"{_PATH}/{segment_of(erasure_id)}", {})
    return Result(_lines(erasure), [erasure])


def _lines(erasure: Any) -> Iterator[str]:
    found = f"{erasure['hits']:,} stored hits in {erasure['rows']:,} rows"
    if erasure["state"] == "done":
        yield f"done: {found} had the value of the erasure {erasure['id']}"
        return
    yield f"running: {found} had the value so far; `clickcurve erase-word show {erasure['id']}` says when it is done"
    for owner in erasure["waiting"]:
        reason = erasure["reasons"].get(str(owner), "at its next flush, when it is closed, or when it is retired")
        yield f"owner {owner} has not confirmed it: {reason}"
