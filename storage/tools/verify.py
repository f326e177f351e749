"""A check of every row, and a report with numbers of what does not add up.

Each row must keep the laws of `clickcurve.buckets.row`, and for each owner the links and the row of all links must
agree:

    what its links count + what was erased of them == what its row of all links counts

and so for each event, and for its values; a row of values counts only in buckets in which that of the event does. An
erased link is counted with what its rows still hold: an owner empties a row when it next writes it, and notes in
the row how much that was. While a flush is being written the sums differ by design (the row of all links is saved
last), so an owner in the middle of a flush is named, not compared. Breakdowns are held against their rows of counts
(`against_counts.py`). What a store keeps to rank links must agree with the rows: candidates have the
upper bounds of their rows, and no other row passes a cutoff.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import ge
from typing import TypeAlias

from clickcurve.buckets.candidates import Cutoffs
from clickcurve.buckets.codec import decode
from clickcurve.buckets.corrected_bounds import corrected_bounds_in
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.measures import CLICKS, Measure, measured
from clickcurve.buckets.prefixes import Prefixes
from clickcurve.buckets.quarantine import decode_quarantined, quarantined_hits
from clickcurve.buckets.row import Row, check
from clickcurve.buckets.upper_bounds import UpperBounds, upper_bounds_of
from clickcurve.keys import (
    ALL_LINKS,
    QUARANTINE,
    breakdown_of,
    corrected_key,
    counts_a_link,
    group_of,
    link_of,
    moved_key,
)
from clickcurve.row_kinds.counts import CORRECTION
from clickcurve.row_kinds.names import row_name
from clickcurve.row_kinds.table import checked_against, kind_of
from storage.contract import Store, StoredLink
from storage.joined_rows import joining_owners
from storage.rankings import JOINED
from storage.tools.against_counts import NO_LINK, Breakdowns, Values, check_disavowed
from storage.view import View

# Called with how many rows are done, and how many there are, None: not known.
OnProgress: TypeAlias = Callable[[int, int | None], object]

LINKS_PER_PAGE = 1_000
SENTENCES = 1_000  # of each kind in a report; the rest is only counted


@dataclass(slots=True)
class Report:
    """The result. people and bots: hits of all links that are not erased; erased: hits of those that are.

    broken: one sentence for each fault of broken_rows rows and sums, at most SENTENCES. under_way: owners in the middle
    of a flush, whose sums were not compared.
    """

    rows: int = 0
    links: int = 0
    groups: int = 0
    people: int = 0
    bots: int = 0
    erased: int = 0
    broken_rows: int = 0
    broken: list[str] = field(default_factory=list)
    under_way: list[int] = field(default_factory=list)

    def add_broken(self, where: str, sentences: list[str]) -> None:
        if sentences:
            self.broken_rows += 1
            room = max(0, SENTENCES - len(self.broken))
            self.broken += [f"{where}: {sentence}" for sentence in sentences[:room]]


@dataclass(slots=True)
class _Sums:
    """What the links of one owner count of one measure together, and its row of all links."""

    people: int = 0
    bots: int = 0
    corrupt: int = 0
    all_links: Row | None = None


@dataclass(slots=True)
class _OwnerSums:
    """The sums of one owner. mark: the highest of its links' rows, and of its rows of events of all links."""

    mark: int = 0
    of: dict[Measure, _Sums] = field(default_factory=lambda: {CLICKS: _Sums()})

    @property
    def is_whole(self) -> bool:
        """Whether no flush of the owner is under way, as far as its rows say."""
        all_links = self.of[CLICKS].all_links
        return all_links is not None and self.mark <= all_links.mark


def verify(store: Store, ladder: Ladder, on_progress: OnProgress = lambda done, total: None) -> Report:
    """Reads all rows and reports what is wrong with them. Raises StoreUnavailable."""
    report = Report()
    sums: dict[int, _OwnerSums] = {}
    breakdowns, values = Breakdowns(ladder), Values(ladder)
    with store.view() as view:
        ranks = _Ranks(view, ladder)
        owner_numbers = {record.owner for record in view.owners()}
        joining = joining_owners(view.notes())
        done, total = 0, view.count_rows(breakdowns=True)
        for page in pages(view):
            bounding = {key: other for key, _ in page if (other := checked_against(key)) is not None}
            counts = view.links([*bounding.values()])
            values.read(view, [key for key, _ in page])
            ranks.read({key: link for key, link in page if counts_a_link(key)})
            for key, link in page:
                report.links += link_of(key) is not None
                report.groups += group_of(key) is not None
                report.add_broken(row_name(key), [*ranks.broken_together(key)])
                if key == QUARANTINE:
                    _report_quarantine(report, link)
                    continue
                kind, beside = kind_of(key), counts.get(bounding.get(key, key), NO_LINK)
                if kind is CORRECTION:
                    report.add_broken(row_name(key), check_disavowed(link, beside, ladder))
                checked = breakdowns.checked(key, link, beside) if kind.beside_counts else _checked_rows(link, ladder)
                for owner, row, sentences in checked:
                    report.rows += 1
                    if isinstance(row, Row) and counts_a_link(key):
                        sentences = [*sentences, *ranks.broken(key, owner, row)]
                    if owner not in owner_numbers:
                        sentences = [*sentences, "the store knows no such owner"]
                    report.add_broken(row_name(key, owner), sentences)
                    if not kind.beside_counts:
                        _add_up(report, sums.setdefault(owner, _OwnerSums()), key, row, link.erased_at)
                        values.check(key, owner, row, link.erased_at)
            done += rows_in(page)
            on_progress(done, total)
    report.under_way += sorted(joining & sums.keys())
    whole = {owner: sums[owner] for owner in sorted(sums.keys() - joining)}
    _compare_all(report, whole, breakdowns, values)
    return report


def _compare_all(report: Report, sums: Mapping[int, _OwnerSums], breakdowns: Breakdowns, values: Values) -> None:
    for owner, summed in sums.items():
        if summed.is_whole:
            _report_whole(report, owner, summed, breakdowns, values)
    for owner, summed in sums.items():
        _compare_sums(report, owner, summed)


def _report_whole(report: Report, owner: int, sums: _OwnerSums, breakdowns: Breakdowns, values: Values) -> None:
    for key, sentences in values.broken(owner):
        report.add_broken(row_name(key, owner), sentences)
    for measure in sorted(sums.of):
        all_links = breakdown_of(measure.row(ALL_LINKS))
        report.add_broken(row_name(all_links, owner), breakdowns.too_few_in_all_links(owner, measure))


def pages(view: View | Store) -> Iterator[list[tuple[str, StoredLink]]]:
    """Yields all keys of a view or store in pages."""
    after: str | None = None
    while page := view.walk(after, LINKS_PER_PAGE):
        yield page
        after = page[-1][0]


def rows_in(page: Sequence[tuple[str, StoredLink]]) -> int:
    """Returns how many rows a page of keys has."""
    return sum(len(link.rows) for _, link in page)


def _checked_rows(link: StoredLink, ladder: Ladder) -> Iterator[tuple[int, Row | None, list[str]]]:
    for stored in link.rows:
        try:
            row = decode(stored.data)
            yield stored.owner, row, check(row, ladder)
        except RowCorrupt as error:
            yield stored.owner, None, [error.detail]


_SEE = "see `clickcurve repair --ranking`"


class _Ranks:
    """What a store keeps to rank links, held against rows."""

    def __init__(self, view: View, ladder: Ladder) -> None:
        self._view = view
        self._ladder = ladder
        self._prefixes = view.ranked_prefixes()
        self._known = Prefixes(self._prefixes)
        self._bounds: dict[str, Mapping[tuple[str, int], UpperBounds]] = {}
        self._corrected: dict[str, UpperBounds] = {}
        self._erased: set[str] = set()
        self._cutoffs: dict[tuple[int, str], Cutoffs | None] = {}

    def read(self, links: Mapping[str, StoredLink]) -> None:
        """Reads the upper bounds of the candidates among these links, and what is called of them."""
        for prefix in self._prefixes:
            within = [key for key in links if prefix in self._prefixes_of(key)]
            self._bounds[prefix] = self._view.upper_bounds(within, prefix) if within else {}
        called = self._view.links([moved_key(key) for key in links]) if self._prefixes else {}
        moved = {corrected_key(key): link for key, link in called.items() if link.rows}
        self._corrected = {key: corrected_bounds_in(links[key], link, self._ladder) for key, link in moved.items()}
        # Until a row of an erased link is saved again its bounds are those from before: it may count less.
        self._erased = {key for key in moved if links[key].erased_at or moved[key].erased_at}

    def _prefixes_of(self, key: str) -> list[str]:
        return self._known.of(key) if self._prefixes else []

    def broken(self, key: str, owner: int, row: Row) -> Iterator[str]:
        """Yields what is wrong with a row's ranks: bounds that are not its own, or a cutoff that it passes."""
        if key not in self._corrected:
            yield from self._each_broken(key, owner, upper_bounds_of(row, self._ladder) if self._prefixes else ())
        elif any((key, owner) in bounds for bounds in self._bounds.values()):
            yield f"it is ranked by itself, but hits of its link are called bots; {_SEE}"

    def broken_together(self, key: str) -> Iterator[str]:
        """Yields what is wrong with the ranks of a link some hits of which are called bots."""
        if key in self._corrected:
            yield from self._each_broken(key, JOINED, self._corrected[key])

    def _each_broken(self, key: str, owner: int, expected: UpperBounds) -> Iterator[str]:
        for prefix in self._prefixes_of(key):
            within = measured(prefix)[1]
            where = f" within the prefix {within!r}" if within else ""
            yield from self._broken(key, owner, expected, prefix, where)

    def _broken(self, key: str, owner: int, expected: UpperBounds, prefix: str, where: str) -> Iterator[str]:
        bounds = self._bounds[prefix].get((key, owner))
        if bounds is not None:
            may_be_more = owner == JOINED and key in self._erased
            if bounds != expected and not (may_be_more and all(map(ge, bounds, expected))):
                yield f"it is ranked{where} by {bounds}, but its buckets say {expected}; {_SEE}"
            return
        if (owner, prefix) not in self._cutoffs:
            try:
                self._cutoffs[owner, prefix] = self._view.ranked_cutoffs(owner, prefix)
            except RowCorrupt as error:
                self._cutoffs[owner, prefix] = None
                yield f"{error.detail}; {_SEE}"
        cutoffs = self._cutoffs[owner, prefix]
        if cutoffs is not None and cutoffs.passed_by(expected, key):
            yield f"it is not ranked{where}, but its buckets say {expected}; {_SEE}"


def _report_quarantine(report: Report, link: StoredLink) -> None:
    for stored in link.rows:
        report.rows += 1
        try:
            rows = decode_quarantined(stored.data)
        except RowCorrupt as error:
            report.add_broken(row_name(QUARANTINE, stored.owner), [error.detail])
            continue
        for key, row in rows.items():
            hits = sum(quarantined_hits(row))
            report.add_broken(row_name(key, stored.owner), [f"{hits} hits are quarantined until the row can be read"])


def _add_up(report: Report, sums: _OwnerSums, key: str, row: Row | None, erased_at: int) -> None:
    measure, clicks = measured(key)
    of_measure = sums.of.setdefault(measure, _Sums())
    if row is None:
        of_measure.corrupt += 1
    elif clicks == ALL_LINKS:
        of_measure.all_links = row
        sums.mark = max(sums.mark, row.mark if measure.event else 0)
    elif link_of(clicks) is not None:
        of_measure.people += row.lifetime + row.erased
        of_measure.bots += row.bots + row.erased_bots
        sums.mark = max(sums.mark, row.mark)
        if not measure.event:
            _add_clicks(report, row, erased_at)


def _add_clicks(report: Report, row: Row, erased_at: int) -> None:
    report.erased += row.erased + row.erased_bots
    if row.erased_at < erased_at:
        report.erased += row.lifetime + row.bots
    else:
        report.people += row.lifetime
        report.bots += row.bots


def _compare_sums(report: Report, owner: int, sums: _OwnerSums) -> None:
    all_links = sums.of[CLICKS].all_links
    if sums.mark > (all_links.mark if all_links is not None else 0) and not sums.of[CLICKS].corrupt:
        report.under_way.append(owner)
        return
    for measure, of_measure in sorted(sums.of.items()):
        where = row_name(measure.row(ALL_LINKS), owner)
        if of_measure.corrupt:
            report.add_broken(where, [f"{of_measure.corrupt} rows cannot be read, so the sums cannot be compared"])
        elif not sums.of[CLICKS].corrupt:
            report.add_broken(where, _differing(of_measure))


def _differing(sums: _Sums) -> list[str]:
    row = sums.all_links
    people, bots = (row.lifetime + row.erased, row.bots + row.erased_bots) if row is not None else (0, 0)
    return [
        f"this row counts {all_links} {series}, the links' rows together {links} (erased ones included)"
        for series, all_links, links in (("people", people, sums.people), ("bots", bots, sums.bots))
        if all_links != links
    ]
