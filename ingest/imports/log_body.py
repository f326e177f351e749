"""Log lines in the body of a request: hits, lines that are skipped, and lines that cannot be read.

A body is read by itself: of the bodies before nothing is known here, so a body that is sent again counts the same, at
whatever worker. `#Fields:` of a W3C log names the columns of the lines below it in its own body.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from clickcurve.buckets.errors import BodyTooLarge, HitRejected
from ingest.hit import Judge, RawHits
from ingest.imports.access_log import AccessLog
from ingest.imports.importer import dated_hits
from ingest.imports.log_sums import LogHit, LogSums
from ingest.imports.logs.line_reader import NOT_OURS
from ingest.imports.logs.logged_request import LineBad
from ingest.reading.json_hit import STEP_HITS
from ingest.reading.receipt import RECEIPT_ITEMS, Receipt
from ingest.reading.request_sums import BODY_VALUES, REFUSED_HITS, RequestSums

LINE_RULE = "a line of an access log that docs/import.md lists, or of the given format"
# Of each kind of text. Fewer than an import keeps: 64 bodies that are read at once would else take gigabytes.
BODY_TEXTS_KEPT = 2_048
# A longer one is refused unread: to try all formats on it would hold up others. Of an import it may have 256 KiB.
LONGEST_LINE = 64 * 1024
_PIECE_BYTES = 32 * 1024  # of a step, some 3 ms where all agents are new
_PIECE_LINES = 500  # of a step: what cannot be read takes 7 us a line
_LINE = "line"
_NO_REQUESTS = ("blank line", "comment", "not a request")  # of some bytes, and 3 us each


class LogReceipt(Receipt, frozen=True, kw_only=True):
    """The answer to log lines. An item's index is the place of its line in the body, from 0."""

    skipped: Annotated[int, Meta(description="Lines that are no clicks.")]
    skipped_because: Annotated[dict[str, int], Meta(description="The same by reason, such as `status 404`.")]


class LogBody:
    """Reads one body into the sums of its request. log: is used for nothing else meanwhile.

    is_bot: judges agents, as of all hits of this process. columns: of W3C lines above any `#Fields:`, as it is kept.
    """

    def __init__(self, log: AccessLog, sums: RequestSums, is_bot: Judge, columns: str = "") -> None:
        self._log, self.sums, self._is_bot = log, sums, is_bot
        self._lines = 0
        self._named = {"refused": 0, "adjusted": 0}  # so many items have the places of lines
        self.skipped: Counter[str] = Counter()
        log.begin(columns)

    def steps(self, body: bytes) -> Iterator[None]:
        """Adds all lines; yields between steps of some milliseconds, for others to run. Raises BodyTooLarge."""
        for piece in pieces(body):
            if piece is None:
                self._refuse(self._lines, "the line is too long", "")
                self._lines += 1
            else:
                yield from self._read(piece)
            yield
            self._check_lines()

    def _check_lines(self) -> None:
        if self._lines > BODY_VALUES:
            raise BodyTooLarge("too many lines; send them in several requests", rule=f"at most {BODY_VALUES:,} lines")
        if sum(map(self.skipped.__getitem__, _NO_REQUESTS)) > REFUSED_HITS:
            rule = f"at most {REFUSED_HITS:,} blank lines, comments and messages"
            raise BodyTooLarge("too many lines tell of no request; nothing of it was counted", rule=rule)

    def receipt(self, counted_before: frozenset[str]) -> LogReceipt:
        """Returns the receipt. Hits that were counted before are summed and have no items: they are sums of lines."""
        receipt = self.sums.receipt(counted_before)
        refusals, adjusted = self.sums.refusals, self.sums.judge.adjusted
        shown = refusals.items + adjusted.items[: max(0, RECEIPT_ITEMS - len(refusals.items))]
        items = sorted(shown, key=lambda item: item.index)
        omitted: int | UnsetType = refusals.hits + adjusted.words - len(items) or UNSET
        return LogReceipt(
            receipt.counted,
            receipt.duplicate,
            receipt.late,
            receipt.refused,
            tuple(items),
            omitted,
            receipt.adjusted,
            skipped=self.skipped.total(),
            skipped_because=dict(self.skipped.most_common()),
        )

    def _read(self, piece: bytes) -> Iterator[None]:
        kept = self._log.kept
        read = self._log.read(piece)
        for bad in read.first_bad:
            self._refuse(self._lines + bad.line - 1, bad.reason, bad.text)
        self.sums.refuse_unexplained(_LINE, read.bad - len(read.first_bad))
        self.skipped.update(read.skipped)
        hits, first = dated_hits(read), self.sums.hits
        for start in range(0, len(hits), STEP_HITS):
            yield from self.sums.add_steps(RawHits(json=hits[start : start + STEP_HITS]), self._is_bot)
        self._name_lines(piece, kept, read, first)
        self._lines += read.lines

    def _refuse(self, line: int, reason: str, text: str) -> None:
        rule = LINE_RULE if reason == NOT_OURS else None
        self.sums.refuse(HitRejected(reason, field=_LINE, value=text, rule=rule), index=line)
        self._named["refused"] = len(self.sums.refusals.items)

    def _name_lines(self, piece: bytes, kept: str, read: LogSums, first: int) -> None:
        """Gives new items the place of their line, in place of that of a hit, which sums lines.

        Only where a hit was refused are lines read twice.
        """
        hits, places = list(read.hits), None
        for name, items in (("refused", self.sums.refusals.items), ("adjusted", self.sums.judge.adjusted.items)):
            for number in range(self._named[name], len(items)):
                places = self._places(piece, kept) if places is None else places
                line = self._lines + places.get(LogHit(*hits[items[number].index - first]), 0)
                items[number] = replace(items[number], index=line)
            self._named[name] = len(items)

    def _places(self, piece: bytes, kept: str) -> dict[LogHit, int]:
        """Returns the first line of each hit."""
        self._log.begin(kept)
        places: dict[LogHit, int] = {}
        for number, line in enumerate(piece.decode("utf-8", "surrogateescape").split("\n")):
            try:
                parsed = self._log.parse(line)
            except LineBad:
                continue
            if isinstance(parsed, LogHit):
                places.setdefault(parsed, number)
        return places


def pieces(body: bytes) -> Iterator[bytes | None]:
    """Yields whole lines, each ended by a newline, some together; None for a line that is far too long."""
    start = 0
    while start < len(body):
        end = body.find(b"\n", start + _PIECE_BYTES) + 1 or len(body)
        last = body.rfind(b"\n", start, end - 1) + 1 or start
        whole = end if end - last <= LONGEST_LINE else last
        lines = body[start:whole].removesuffix(b"\n").split(b"\n") if whole > start else []
        for at in range(0, len(lines), _PIECE_LINES):
            yield b"\n".join(lines[at : at + _PIECE_LINES]) + b"\n"
        if whole < end:
            yield None
        start = end
