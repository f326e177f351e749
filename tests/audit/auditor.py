"""The auditor of all suites: what was sent, what was answered, and so how often each hit may count.

Each hit of a key has a weight of its own, a power of four. So a key's total, written in base four, says of every single
hit how often it was counted: 0 times is lost, 2 or 3 times is doubled. A wrong total names the hit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, Literal, TypeVar

BASE = 4
JOURNAL_HITS_A_KEY = 31  # a count in a journal is a number of 64 bits, so 4 ** 31 is the largest weight


def digit_of(count: int) -> int:
    """Returns which digit of its key's total a hit with this count is."""
    return count.bit_length() // 2


class Outcome(Enum):
    """What is known of a request, or of one try to deliver it."""

    acknowledged = "answered with success: its hits count once"
    unknown = "without an answer, or under way: its hits count once or not at all"
    refused = "answered with an error that says so, or never sent: its hits do not count"


@dataclass(frozen=True, slots=True)
class Hit:
    """One hit: its key, and which digit of the key's total it is."""

    key: str
    digit: int

    @property
    def count(self) -> int:
        return int(BASE**self.digit)


@dataclass(slots=True, eq=False)
class Try:
    """One attempt to deliver a request to one node; without an outcome it is under way."""

    node: int = 0
    outcome: Outcome | None = None


@dataclass(slots=True, eq=False)
class Sent:
    """One request with all its hits, which share their fate. repeatable: it has ids, so any number of tries count once.

    stored: known to be in the store, so it stays there. erased: keys that were erased after it, or perhaps after it.
    """

    hits: Sequence[Hit]
    repeatable: bool = False
    tries: list[Try] = field(default_factory=list)
    stored: bool = False
    erased: dict[str, Literal["perhaps", "gone"]] = field(default_factory=dict)

    @property
    def weight(self) -> int:
        return sum(hit.count for hit in self.hits)

    @property
    def counts(self) -> dict[str, int]:
        """What it adds to each key."""
        added: Counter[str] = Counter()
        for hit in self.hits:
            added[hit.key] += hit.count
        return dict(added)

    @property
    def acknowledged(self) -> bool:
        return any(one.outcome is Outcome.acknowledged for one in self.tries)

    @property
    def refused(self) -> bool:
        """Certainly counted nowhere."""
        return all(one.outcome is Outcome.refused for one in self.tries)

    @property
    def under_way(self) -> bool:
        return any(one.outcome is None for one in self.tries)

    @property
    def outcome(self) -> Outcome:
        """What is known of it now."""
        if self.acknowledged:
            return Outcome.acknowledged
        return Outcome.refused if self.refused else Outcome.unknown

    def must_count(self, key: str) -> bool:
        return self.acknowledged and key not in self.erased


@dataclass(frozen=True, slots=True)
class Misfit:
    """A hit that a total has more or less often than it may. sent None: the total is more than all that was sent."""

    key: str
    digit: int
    sent: Sent | None
    times: int
    lost: bool  # else it was counted too often
    total: int

    def __str__(self) -> str:
        if self.sent is None:
            return f"{self.key}: the total {self.total} is more than was ever sent"
        was = "erased" if self.sent.erased.get(self.key) == "gone" else self.sent.outcome.name
        return f"{self.key}: hit {self.digit} was {was} and counted {self.times} times (total {self.total})"


S = TypeVar("S", bound=Sent)


class Auditor(Generic[S]):
    """Writes down every request and what became of it, and judges totals."""

    def __init__(self) -> None:
        self.sent: list[S] = []
        self.by_key: defaultdict[str, list[S]] = defaultdict(list)

    # --- writing down -------------------------------------------------------------------------------------------
    def next_hits(self, keys: Iterable[str]) -> list[Hit]:
        """The next hit of each of these keys."""
        return [Hit(key, len(self.by_key[key])) for key in keys]

    def has_room(self, key: str) -> bool:
        """Whether a journal can hold the count of the key's next hit."""
        return len(self.by_key[key]) < JOURNAL_HITS_A_KEY

    def enter(self, sent: S) -> S:
        """Enters a new request, before its first try. Its hits are the next ones of their keys."""
        self.sent.append(sent)
        for hit in sent.hits:
            assert len(self.by_key[hit.key]) == hit.digit, "hits are entered in the order in which they were given out"
            self.by_key[hit.key].append(sent)
        return sent

    def begin(self, sent: S, node: int = 0) -> Try:
        begun = Try(node)
        sent.tries.append(begun)
        return begun

    def end(self, one: Try, outcome: Outcome) -> None:
        one.outcome = outcome

    def tried(self, sent: S, outcome: Outcome) -> None:
        """Enters a try and how it ended."""
        self.end(self.begin(sent), outcome)

    def erased(self, key: str) -> None:
        """Nothing that the key was sent until now counts any more."""
        for sent in self.by_key[key]:
            sent.erased[key] = "gone"

    # --- judging ------------------------------------------------------------------------------------------------
    def misfits(
        self,
        key: str,
        total: int,
        *,
        must: Collection[S] | None = None,
        most: int = 1,
        erased_may_show: bool = False,
    ) -> list[Misfit]:
        """Returns the hits that the total has less or more often than what is known of them allows.

        must: requests whose hits must count; None = all that were acknowledged. most: how often a hit may count.
        """
        wrong = []
        rest = total
        for digit, sent in enumerate(self.by_key.get(key, ())):
            rest, times = divmod(rest, BASE)
            least = sent.must_count(key) and (must is None or sent in must)
            gone = sent.erased.get(key) == "gone" and not erased_may_show
            if not least <= times <= (0 if gone or sent.refused else most):
                wrong.append(Misfit(key, digit, sent, times, times < least, total))
        if rest:
            wrong.append(Misfit(key, len(self.by_key.get(key, ())), None, rest, False, total))
        return wrong

    def all_misfits(self, totals: Mapping[str, int], keys: Iterable[str] | None = None) -> list[Misfit]:
        """Returns the misfits of these keys, or of all; a key without a total has no hits."""
        checked = list(self.by_key) if keys is None else keys
        return [misfit for key in checked for misfit in self.misfits(key, totals.get(key, 0))]

    def judge(self, totals: Mapping[str, int], keys: Iterable[str] | None = None) -> list[str]:
        """Returns a sentence for each of the misfits."""
        return [str(misfit) for misfit in self.all_misfits(totals, keys)]

    def check(self, key: str, total: int, what: str, *, may_be_missing: bool = False) -> None:
        """Raises AssertionError that says what was wrong at this point if the total has a misfit."""
        wrong = [misfit for misfit in self.misfits(key, total) if not (may_be_missing and misfit.lost)]
        assert not wrong, "\n".join(f"{what}: {misfit}" for misfit in wrong)

    def judge_whole(self, totals: Mapping[str, int]) -> list[str]:
        """Returns a sentence for each request without an answer that counted in part."""
        return [
            f"a batch of {len(sent.hits)} hits without an answer counted in part, at {hit.key} hit {hit.digit}"
            for sent in self.sent
            if sent.outcome is Outcome.unknown
            for hit in sent.hits[:1]
            if len({totals.get(hit.key, 0) // hit.count % BASE for hit in sent.hits}) > 1
        ]

    def sums(self) -> dict[Outcome, int]:
        """Returns how many hits had which outcome."""
        found = dict.fromkeys(Outcome, 0)
        for sent in self.sent:
            found[sent.outcome] += len(sent.hits)
        return found
