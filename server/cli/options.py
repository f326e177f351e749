"""Flags that are settings, for any command that needs some of them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

import click

from server.cli.main import USAGE, Failed
from server.settings import reading
from server.settings.table import TABLE

Command = Callable[..., Any]
_AS_DECLARED: Mapping[str, str] = {}


def with_settings(
    *names: str, without_default: Collection[str] = (), helps: Mapping[str, str] = _AS_DECLARED
) -> Callable[[Command], Command]:
    """Gives a command flags for these settings, and hands it all settings, read and checked, as `settings`.

    without_default: those that the command does not use unless they are given; the help names no default of theirs.
    helps: what the command does with a setting, where that is not what its own help says.
    """
    table = {setting.name: setting for setting in TABLE}

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def wrapped(**given: Any) -> Any:
            flags = {name: _flag_text(given.pop(name)) for name in names}
            return command(settings=reading.read_settings(flags, os.environ), **given)

        decorated: Command = wrapped
        for name in reversed(names):
            setting = table[name]
            default = (
                f"  [default: {setting.default}]"
                if setting.default and not setting.is_bare and name not in without_default
                else ""
            )
            decorated = click.option(
                setting.flag,
                name,
                metavar=setting.shown or None,
                is_flag=setting.is_bare,
                default=None,
                help=helps.get(name, setting.help) + default,
            )(decorated)
        return decorated

    return decorate


status_option = click.option(
    "--status", "statuses", metavar="CODES", help="Statuses that count  [default: 301,302,303,307,308]"
)


def statuses_of(text: str) -> list[int]:
    """Reads the value of --status; raises Failed."""
    codes = [code.strip() for code in text.split(",")]
    if not all(len(code) == 3 and code.isascii() and code.isdigit() for code in codes):
        raise Failed(f"--status {text}: write codes of three digits with commas, like 200,206", USAGE)
    return [int(code) for code in codes]


def _flag_text(value: object) -> str | None:
    if value is None:
        return None
    return "on" if value is True else str(value)
