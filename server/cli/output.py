"""All that a command prints goes through here: for people line by line, with `--json` as JSON.

A command returns a `Result`, or calls `show` for each part that is ready. Either way strangers' text (keys, agents,
lines of logs) is made visible on its way out, so that no command has to remember it: see `clickcurve.visible`.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import click

from clickcurve.visible import json_line, visible
from server import clock

JSON_FLAG = "--json"
EVERY_S = 0.1
NOTE_EVERY_S = 10.0
BAR = 25  # characters
NO_SCREEN = os.terminal_size((100, 50))  # what is drawn for when the output goes into a file or another program
_HELP: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())  # click 8.2 or newer: the message is the whole help
_AS_JSON = "clickcurve.as_json"  # where a context, and those of its subcommands, keep whether the flag was given


@dataclass(frozen=True, slots=True)
class Result:
    """What a command found: `lines` for people, `objects` for programs, of which each is a line of JSON.

    Both are read only if they are wanted. `code`: what the process ends with.
    """

    lines: Iterable[str]
    objects: Iterable[object]
    code: int = 0


class ReportingCommand(click.Command):
    """A command with `--json` that prints the Result that its function returns."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        text = "Print JSON, one object a line; an error as a problem document."
        self.params.append(click.Option([JSON_FLAG], is_flag=True, expose_value=False, help=text))

    def invoke(self, ctx: click.Context) -> None:
        result = super().invoke(ctx)
        if result is not None:
            show(result)
            if result.code:
                raise SystemExit(result.code)


class ReportingGroup(click.Group):
    """A group whose commands print Results."""

    command_class = ReportingCommand


class ShorthandGroup(ReportingGroup):
    """A group whose command left_out may be left out: `share KEY` is `share create KEY`.

    even_alone: also where nothing follows the name of the group; else that prints the help.
    """

    def __init__(self, *given: Any, left_out: str, even_alone: bool = False, **more: Any) -> None:
        super().__init__(*given, **more)
        self._left_out, self._even_alone = left_out, even_alone

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = args[0] if args else ""
        own = first in self.commands or first in ctx.help_option_names or not (args or self._even_alone)
        return super().parse_args(ctx, args if own else [self._left_out, *args])


def write_message(message: bytes) -> None:
    """Writes one line for a program that speaks a protocol over standard output, as it is."""
    sys.stdout.buffer.write(message + b"\n")
    sys.stdout.buffer.flush()


def reports(name: str) -> Callable[[Callable[..., Result | None]], ReportingCommand]:
    """Makes a command of a function that returns a Result, or None if it has shown everything already."""
    return click.command(name, cls=ReportingCommand)


def show(result: Result) -> None:
    """Prints a result, or a part of one, as it was asked for."""
    if wants_json():
        for object_ in result.objects:
            click.echo(json_line(object_, ascii_only=lacks_unicode()))
    else:
        for line in result.lines:
            click.echo(_printable(line))


def _printable(line: str) -> str:
    """Returns a line as standard output can print it; where that lacks letters, they are shown by their numbers."""
    shown = visible(line)
    return shown.encode("ascii", "backslashreplace").decode() if lacks_unicode() else shown


def number_of(count: int, one: str, many: str | None = None) -> str:
    """Returns a number with its noun: `1 line`, `2 lines`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def note(sentence: str) -> None:
    """Prints a sentence on standard error, beside the result; with `--json` as `{"note": ...}`."""
    click.echo(json_line({"note": sentence}) if wants_json() else visible(sentence), err=True)


def on_screen() -> bool:
    """Returns whether somebody watches standard error, and waits for no JSON."""
    return sys.stderr.isatty() and not wants_json()


def progress(sentence: str) -> None:
    """Shows how far a command is, in one line that the next call replaces; "" removes it. Only on a screen."""
    if not on_screen():
        return
    columns = shutil.get_terminal_size().columns
    click.echo("\r\033[K" + visible(sentence)[: columns - 1], err=True, nl=False)


class ProgressLine:
    """Shows how far a command is, on a terminal at most every EVERY_S. It is removed when its block is left.

    name: what is worked on. unit: what is counted, in the plural. notes: elsewhere it is a line every NOTE_EVERY_S.
    """

    def __init__(self, name: str, unit: str, *, notes: bool = False) -> None:
        self._name, self._unit = name, unit
        self._begun_at = clock.monotonic()
        self._on_screen = on_screen()
        self._every_s = EVERY_S if self._on_screen else NOTE_EVERY_S
        self._shown_at = self._begun_at - EVERY_S if self._on_screen else self._begun_at
        self._first: int | None = None  # what was done before: an import goes on where it stopped
        self._is_shown = self._on_screen or notes

    def show(self, done: int, total: int | None, count: int | None = None) -> None:
        """Shows that `done` of `total` (None: nobody knows it) is done. count: of the unit, if that is not `done`."""
        if not self._is_shown:
            return
        if self._first is None:
            self._first = done
        now = clock.monotonic()
        if now - self._shown_at >= self._every_s:
            self._shown_at = now
            units = done if count is None else count
            far = self._name, self._unit, done, total, units, now - self._begun_at, self._first
            progress(progress_text(*far)) if self._on_screen else note(progress_text(*far, bar=0))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        progress("")


def progress_text(
    name: str, unit: str, done: int, total: int | None, count: int, passed_s: float, first: int = 0, *, bar: int = BAR
) -> str:
    """Returns the line: of a known total the part and the time that is left, and always how many and how fast.

    bar: the characters in which the part is drawn; 0: it is not.
    """
    parts = [name]
    part = min(1.0, done / total) if total else None
    if part is not None:
        parts.append((f"{'█' * int(part * bar):░<{bar}} " if bar else "") + f"{int(part * 100):3} %")
    parts.append(f" {count:,} {unit}")
    if passed_s >= 1:
        parts.append(f" {count / passed_s:,.0f}/s")
        if part is not None and total and done > first:
            left_s = int((total - done) * passed_s / (done - first))
            parts.append(f" {left_s // 60}:{left_s % 60:02} left")
    return " ".join(parts)


@contextmanager
def live_screen() -> Iterator[Callable[[list[str]], None] | None]:
    """Gives what draws lines in place, on a screen of its own; None where there is no terminal."""
    if not sys.stdout.isatty() or wants_json():
        yield None
        return
    click.echo("\033[?1049h\033[?25l", nl=False)
    try:
        yield _draw_in_place
    finally:
        click.echo("\033[?25h\033[?1049l", nl=False)


def _draw_in_place(lines: list[str]) -> None:
    """Draws over what was there, as many lines and columns as there is room for."""
    size = screen()
    drawn = [_printable(line)[: size.columns] + "\033[K" for line in lines[: size.lines - 1]]
    click.echo("\033[H" + "\n".join(drawn) + "\033[J", nl=False)


def give_up_output() -> None:
    """Leads standard output nowhere: whatever read it has ended.

    The interpreter flushes it once more as it ends, and would print a traceback.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def screen() -> os.terminal_size:
    """Returns the size of the terminal, or the same size always where there is none."""
    return shutil.get_terminal_size(NO_SCREEN)


def lacks_unicode() -> bool:
    """Returns whether standard output lacks block characters and most letters."""
    return "utf" not in (getattr(sys.stdout, "encoding", None) or "utf-8").lower()


def asks_for_json(arguments: list[str]) -> bool:
    """Returns whether a command line holds `--json`; it need not be one that can be parsed."""
    return JSON_FLAG in (arguments[: arguments.index("--")] if "--" in arguments else arguments)


def keep_json_flag(context: click.Context, as_json: bool) -> None:
    """Keeps for a context and its subcommands whether JSON is printed."""
    context.meta[_AS_JSON] = as_json


def wants_json() -> bool:
    """Returns whether the command that runs was given `--json`."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_AS_JSON))


def _with_rule(sentence: str, rule: object) -> str:
    """Returns a sentence with the rule that was broken, unless it says that already."""
    return sentence if not rule or str(rule) in sentence else f"{sentence} (rule: {rule})"


def show_error(error: click.ClickException, problem: dict[str, object], as_json: bool) -> None:
    """Prints why a command ended, on standard error: a sentence, or the problem document."""
    if as_json:
        click.echo(json_line(problem), err=True)
        return
    if isinstance(error, _HELP):
        error.show()
        return
    if isinstance(error, click.UsageError) and error.ctx is not None:
        click.echo(f"{error.ctx.get_usage()}\nTry '{error.ctx.command_path} --help' for help.\n", err=True)
        # The library's own sentences may have several lines, such as a list of choices.
        lines = error.format_message().splitlines() or [""]
    else:
        lines = [_with_rule(error.format_message(), problem.get("rule"))]
    click.echo("\n".join(visible(line.expandtabs(4)) for line in ("Error: " + lines[0], *lines[1:])), err=True)
