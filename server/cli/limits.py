"""`clickcurve limits`: rules of the rate limiter."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.limiter.replay import Replay, rules_of
from clickcurve.limiter.rule import Rule, parse_rules
from server.cli.main import FAILED, USAGE, Failed
from server.cli.output import ReportingGroup, Result, note, show

SHOWN_BAD_LINES = 20


@click.group("limits", cls=ReportingGroup)
def limits_command() -> None:
    """Try rules of the rate limiter.

    \b
    Examples:
      clickcurve limits try '5/m, 20/h' < trace
      clickcurve limits try --config clickcurve.toml login < access.log
    """


@limits_command.command("try")
@click.argument("rules", metavar="RULE...", nargs=-1, required=True)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    envvar="CLICKCURVE_CONFIG",
    help="TOML file with the rules, if RULE is the name of an event.",
)
@click.option("--summary", is_flag=True, help="Print only the sums, not each refused line.")
@click.option("--top", default=10, show_default=True, type=click.IntRange(0), help="How many callers to list.")
def try_rules(rules: tuple[str, ...], config: Path | None, summary: bool, top: int) -> Result:
    """Replay a trace from standard input and print what the rule would have refused.

    RULE is one of these: rates alone, which all lines share; the settings of a rule as in the settings file, in one
    line; or an event of the file of --config. Several rules are decided together, all or nothing. A line of the trace
    is a time, in epoch seconds or ISO 8601, and the caller, as feature=value, perhaps with cost=N; or a line of an
    access log, with the features ip, user, method and endpoint.

    \b
    Examples:
      clickcurve limits try '5/m, 20/h' < trace
      clickcurve limits try 'by=user,ip rates="5/m, 20/h"' < trace
      clickcurve limits try 'by=ip rates=2/s' 'by=ip+endpoint rates=30/m strategy=fixed' < trace
      grep '"POST ' access.log | clickcurve limits try --summary 'by=ip rates=10/m'
      clickcurve limits try --config clickcurve.toml login < trace
    """
    replay = Replay(_parse_given_rules(rules, config))
    if sys.stdin.isatty():
        raise Failed("a trace is read from standard input: clickcurve limits try RULE < trace", USAGE)
    _feed(replay, sys.stdin.buffer, summary)
    for many, what in (
        (replay.bad, "bad lines, which are in no sum"),
        (replay.back, "lines with an earlier time than a line before them: a caller's time does not step back"),
        (replay.crowded, "lines of callers without room in memory: they shared one limit"),
    ):
        if many:
            note(f"{what}: {many:,}")
    return Result(_sum_lines(replay, top), [_sums_object(replay, top)], FAILED if replay.bad else 0)


def _parse_given_rules(texts: tuple[str, ...], config: Path | None) -> tuple[Rule, ...]:
    if any("=" in text or "/" in text or " " in text for text in texts):
        return rules_of(texts)
    if config is None:
        raise Failed(f"{texts[0]!r} is neither rates nor settings; if it is an event, name its file by --config", USAGE)
    if len(texts) > 1:
        raise Failed("one event at a time: rules of one event are decided together, those of two events are not", USAGE)
    try:
        limits = tomllib.loads(config.read_text("utf-8")).get("limits", {})
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Failed(f"the settings file {config} cannot be read: {error}", USAGE) from error
    if not isinstance(limits, dict):
        raise Failed(f"limits of {config} must be tables such as [limits.login], not {limits!r}", USAGE)
    if texts[0] not in limits:
        events = ", ".join(sorted(limits)) or "none"
        raise Failed(f"{config} has no rule for the event {texts[0]!r}; known: {events}", USAGE)
    return parse_rules({texts[0]: limits[texts[0]]})


def _feed(replay: Replay, lines: Iterable[bytes], summary: bool) -> None:
    for number, raw in enumerate(lines, 1):
        text = raw.decode("utf-8", "surrogateescape").strip()
        try:
            refused = replay.line(text)
        except ParameterInvalid as error:
            if replay.bad <= SHOWN_BAD_LINES:
                note(f"line {number} is bad: {error.detail}")
            continue
        if refused is not None and not summary:
            show(Result([f"line {number}: {refused}"], [{"line": number, "refused": refused}]))


def _sum_lines(replay: Replay, top: int) -> Iterator[str]:
    asked, refused = replay.asked, replay.refused
    share = f", {refused.cost / asked.cost:.1%}" if asked.cost else ""
    yield f"asked for {asked.cost:,} in {asked.lines:,} lines"
    yield f"admitted {asked.cost - refused.cost:,} in {asked.lines - refused.lines:,} lines"
    yield f"refused {refused.cost:,} in {refused.lines:,} lines{share}"
    worst = replay.worst(top)
    if worst:
        yield ""
        yield f"{'refused':>10}{'asked':>10}  caller ({len(worst):,} of {len(replay.refused_by):,})"
    for caller, asked_for, refused_of in worst:
        yield f"{refused_of:>10,}{asked_for:>10,}  {caller}"


def _sums_object(replay: Replay, top: int) -> dict[str, object]:
    asked, refused = replay.asked, replay.refused
    return {
        "asked": {"cost": asked.cost, "lines": asked.lines},
        "admitted": {"cost": asked.cost - refused.cost, "lines": asked.lines - refused.lines},
        "refused": {"cost": refused.cost, "lines": refused.lines},
        "callers_refused": len(replay.refused_by),
        "callers": [
            {"caller": caller, "asked": asked_for, "refused": refused_of}
            for caller, asked_for, refused_of in replay.worst(top)
        ],
        "bad_lines": replay.bad,
        "lines_back_in_time": replay.back,
        "lines_without_room": replay.crowded,
    }
