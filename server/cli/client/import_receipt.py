"""What an import has done with one source, in lines for people."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ingest.imports.importer import ImportSummary, SourceKind
from ingest.imports.logs.clicks import TO_HTTPS
from ingest.imports.logs.line_reader import WITH_NAMES
from server.cli.output import number_of

LABEL_HINT = (
    "  it was read before, and its lines were judged then: with --label NAME it is another source, and all of it counts"
    " again by these options"
)


def receipt_lines(name: str, summary: ImportSummary, hint: bool, client: str = "") -> list[str]:
    """Reports for people what came of one source; with `hint` how to count again what was read before.

    client: the name of the field in which the client was to be found.
    """
    label = [LABEL_HINT] if hint and (summary.is_part or (summary.from_byte and not summary.lines)) else []
    if summary.is_part:
        return [f"{name}: a part of a source that was counted further already; nothing new", *label]
    again = f" (bytes up to {summary.from_byte:,} were counted before)" if summary.from_byte else ""
    read = f"{name}: {number_of(summary.lines, 'line')} read{again}"
    if summary.kind is SourceKind.log:
        read += f", {number_of(summary.people_hits, 'hit')} of people, {summary.bot_hits:,} of bots"
    if summary.bad or summary.kind is SourceKind.log:
        read += f", {summary.bad:,} bad"
    lines = [read, *label, *_reading_lines(summary)]
    if client and (nameless := [name for name in summary.formats if name not in WITH_NAMES]):
        lines.append(
            f"  fields of {', '.join(nameless)} have no names: give the number of the field, or last, for {client}"
        )
    lines.append(f"  counted {summary.counted:,}, late {summary.late:,}, refused {summary.refused:,}")
    if summary.late:
        lines.append("  late: hits from before today (UTC); they count, in wider buckets than minutes")
    lines += [f"  refused: {reason}" for reason in summary.reasons]
    if summary.adjusted:
        lines.append(f"  {number_of(summary.adjusted, 'hit')} counted without a word that could not be kept whole")
    if summary.unanswered:
        lines.append(f"  {number_of(summary.unanswered, 'chunk')} counted without an answer: the connection broke")
    if summary.left_bytes:
        left = number_of(summary.left_bytes, "byte")
        lines.append(f"  {left} of a last line without an end left for the next import")
    if summary.damage is not None:
        lines.append(f"  read as far as it goes: {summary.damage}")
    return lines


def _reading_lines(summary: ImportSummary) -> Iterator[str]:
    """Yields how lines of a log were read, and what would read them better."""
    if summary.formats:
        yield "  read as " + ", ".join(f"{name} ({n:,})" for name, n in summary.formats.most_common())
    if summary.skipped:
        yield "  skipped: " + ", ".join(f"{n:,} {why}" for why, n in summary.skipped.most_common())
    yield from (f"  bad line {bad.line}: {bad.reason}: {bad.text}" for bad in summary.first_bad)
    if summary.looks_like is not None:
        yield f"  no line could be read; the first one looks like {summary.looks_like}"
    if summary.proposed:
        flags = " ".join(f"--exclude {shlex.quote(pattern)}" for pattern in summary.proposed)
        yield f"  nobody shortens some of these; leave them out by {flags}"
    if summary.skipped[TO_HTTPS] and not summary.people_hits + summary.bot_hits:
        yield "  all lines are of http: if a proxy before this server takes https, leave out --once-per-click"
