"""The expressions of PromQL that are understood: `clicks{...}`, `increase(clicks{...}[1h])`, `sum`, `topk`, numbers.

Labels are `key` and at most one dimension in an expression: a row keeps each dimension by itself. In place of `clicks`
stand `events` and `event_values`, with the one event named that they are of: counts of two are of different things.

Anything else is refused with a sentence that lists these. Hits are counted by the minute: there is no rate at an
instant and nothing to extrapolate, so `rate` and arithmetic on series would give wrong numbers.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from clickcurve.buckets.errors import ParameterInvalid, shown
from clickcurve.buckets.measures import CLICKS, Measure
from clickcurve.times import UNITS_S, parse_length

METRIC = "clicks"
EVENTS, EVENT_VALUES = "events", "event_values"
METRICS = {METRIC: "clicks", EVENTS: "events", EVENT_VALUES: "the sums of their values"}
EVENT = "event"  # the label that names the event
UNDERSTOOD = (
    f'{METRIC}{{key="..."}}, which is all that was counted, and increase({METRIC}{{key="..."}}[1h]), with =, !=, =~ '
    "and !~, sum(...) and sum by (...) of these, topk(10, ...) of any, with the label key and at most one dimension; "
    f'{EVENTS}{{{EVENT}="sale"}} and {EVENT_VALUES}{{{EVENT}="sale"}} in place of {METRIC}, with one event named by =; '
    "and numbers with + - * /"
)
MOST_CHARACTERS = 65_536
MOST_TOKENS = 2_000
_MOST_LENGTH = 60  # characters of a length of time: each unit once
# What has been read of a token is not given back, so each sign is looked at once.
_TOKEN = re.compile(
    r"\s*+(?:(?P<number>(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]{1,3})?(?![\w.]))"
    r"|(?P<length>(?:[0-9]{1,9}(?:ms|[smhdwy]))++(?!\w))"
    r"|(?P<word>[A-Za-z_:][\w:.]*+)"
    r"|(?P<text>\"(?:[^\"\\]++|\\.)*+\"|'(?:[^'\\]++|\\.)*+'|`[^`]*+`)"
    r"|(?P<sign>=~|!~|!=|[-+*/(){}\[\],=]))",
    re.DOTALL,
)
_LENGTH = re.compile("[0-9]+[a-z]")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}


@dataclass(frozen=True, slots=True)
class Matcher:
    """What a label must be. `sign` is one of = != =~ !~."""

    label: str
    sign: str
    text: str


@dataclass(frozen=True, slots=True)
class Increase:
    """The hits of a length of time before each moment. over_s: None for all hits before it, which is the counter."""

    matchers: tuple[Matcher, ...]
    over_s: int | None
    measure: Measure = CLICKS


@dataclass(frozen=True, slots=True)
class SumBy:
    """Series added up, apart by these labels."""

    of: Vector
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopK:
    """The k greatest series at each moment."""

    of: Vector
    k: int


Vector: TypeAlias = Increase | SumBy | TopK


class Selector(NamedTuple):
    """What `match[]` selects. matchers: those of an event by its name are among them."""

    metric: str
    matchers: tuple[Matcher, ...]


ALL_CLICKS = Selector(METRIC, ())


class NotUnderstood(ParameterInvalid, title="expression not understood"):
    """An expression that is none of the few."""


def parse_promql(text: str) -> Vector | float:
    """Reads an expression; raises NotUnderstood, which says what is."""
    return _PromReader(text).whole()


def parse_selector(text: str) -> Selector:
    """Reads `clicks{...}`, as `match[]` has it; raises as `parse_promql`."""
    reader = _PromReader(text)
    selector = reader.selector()
    reader.require_end()
    return selector


def metric_of(measure: Measure) -> str:
    """Returns the metric that counts this."""
    return (EVENT_VALUES if measure.of_values else EVENTS) if measure.event else METRIC


class _PromReader:
    """Reads an expression token by token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str]] = []
        if len(text) > MOST_CHARACTERS:
            raise self._refused(f"it has {len(text):,} characters, {MOST_CHARACTERS:,} at most")
        at, text = 0, text.rstrip()
        while at < len(text):
            if len(self._tokens) == MOST_TOKENS:
                raise self._refused(f"it has more than {MOST_TOKENS:,} words and signs")
            match = _TOKEN.match(text, at)
            if match is None:
                raise self._refused(f"at {text[at : at + 20]!r}")
            kind = str(match.lastgroup)
            self._tokens.append((kind, match[kind]))
            at = match.end()
        self._at = 0

    def _refused(self, why: str) -> NotUnderstood:
        detail = f"this expression is not understood ({why}); understood are: {UNDERSTOOD}"
        return NotUnderstood(detail, field="query", value=self._text, rule=UNDERSTOOD)

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", "")

    def _next(self, kind: str, value: str | None = None) -> str:
        """Returns the next token, which must be this one."""
        next_kind, text = self._peek()
        if next_kind != kind or (value is not None and text != value):
            raise self._refused(f"at {shown(text)!r}" if text else "it ends too early")
        self._at += 1
        return text

    def _has(self, value: str) -> bool:
        kind, text = self._peek()
        if kind in ("sign", "word") and text == value:
            self._at += 1
            return True
        return False

    def require_end(self) -> None:
        if self._peek()[0] != "end":
            raise self._refused(f"at {shown(self._peek()[1])!r}")

    def whole(self) -> Vector | float:
        kind, text = self._peek()
        expression: Vector | float
        expression = self._numbers() if kind == "number" or text in ("-", "+") else self._vector(0)
        self.require_end()
        return expression

    # --- numbers ------------------------------------------------------------------------------------------------------
    def _numbers(self) -> float:
        """Reads a sum of products of numbers."""
        number = self._product()
        while (sign := self._peek()[1]) in ("+", "-"):
            self._at += 1
            number = number + self._product() if sign == "+" else number - self._product()
        if not math.isfinite(number):
            raise self._refused("the number is too large")
        return number

    def _product(self) -> float:
        number = self._number()
        while (sign := self._peek()[1]) in ("*", "/"):
            self._at += 1
            by = self._number()
            if sign == "/" and by == 0:
                raise self._refused("a division by 0")
            number = number * by if sign == "*" else number / by
        return number

    def _number(self) -> float:
        sign = 1
        while self._peek()[1] in ("-", "+"):
            sign = -sign if self._next("sign") == "-" else sign
        return sign * float(self._next("number"))

    # --- series -------------------------------------------------------------------------------------------------------
    def _vector(self, depth: int) -> Vector:
        if depth > 10:
            raise self._refused("too deep")
        if self._has("("):
            vector = self._vector(depth + 1)
            self._next("sign", ")")
            return vector
        if self._peek()[1] in (*METRICS, "{"):
            return self._counted(self.selector(), None)
        function = self._next("word")
        if function == "increase":
            return self._increase()
        if function == "sum":
            return self._sum(depth)
        if function == "topk":
            self._next("sign", "(")
            k = float(self._next("number"))
            self._next("sign", ",")
            vector = self._vector(depth + 1)
            self._next("sign", ")")
            if not (1 <= k <= 1_000 and k == int(k)):
                raise self._refused("topk takes a whole number from 1 to 1000")
            return TopK(vector, int(k))
        raise self._refused(f"at {shown(function)!r}")

    def _increase(self) -> Increase:
        self._next("sign", "(")
        selector = self.selector()
        self._next("sign", "[")
        over_s = self._length()
        self._next("sign", "]")
        self._next("sign", ")")
        return self._counted(selector, over_s)

    def _counted(self, selector: Selector, over_s: int | None) -> Increase:
        """Returns what a selector counts, whose event must be named."""
        metric, matchers = selector
        if metric == METRIC:
            return Increase(matchers, over_s)
        named = [each for each in matchers if each.label == EVENT]
        if len(named) != 1 or named[0].sign != "=" or not named[0].text:
            raise self._refused(f'{metric} is of one event, named so: {metric}{{{EVENT}="sale"}}')
        beside = tuple(each for each in matchers if each.label != EVENT)
        return Increase(beside, over_s, Measure(named[0].text, metric == EVENT_VALUES))

    def _sum(self, depth: int) -> SumBy:
        labels = self._by() if self._has("by") else None
        self._next("sign", "(")
        of = self._vector(depth + 1)
        self._next("sign", ")")
        if labels is None and self._has("by"):
            labels = self._by()
        return SumBy(of, labels or ())

    def _by(self) -> tuple[str, ...]:
        self._next("sign", "(")
        labels = []
        while not self._has(")"):
            labels.append(self._next("word"))
            if self._peek()[1] != ")":
                self._next("sign", ",")
        return tuple(dict.fromkeys(labels))

    def _length(self) -> int:
        text = self._next("length")
        parts = [parse_length(part, UNITS_S) for part in _LENGTH.findall(text)]
        if "ms" in text or len(text) > _MOST_LENGTH:
            raise self._refused(f"at {shown(text)!r}: a length is whole seconds, such as 1h30m")
        return sum(n * unit_s for n, unit_s in filter(None, parts))

    def selector(self) -> Selector:
        matchers: list[Matcher] = []
        if self._peek()[0] == "word":
            matchers.append(Matcher("__name__", "=", self._next("word")))
        if self._has("{"):
            while not self._has("}"):
                label, sign = self._next("word"), self._next("sign")
                if sign not in ("=", "!=", "=~", "!~"):
                    raise self._refused(f"at {sign!r}")
                matchers.append(Matcher(label, sign, _unquoted_text(self._next("text"))))
                if self._peek()[1] != "}":
                    self._next("sign", ",")
        named = [(each.sign, each.text) for each in matchers if each.label == "__name__"]
        if len(named) != 1 or named[0][0] != "=" or named[0][1] not in METRICS:
            raise self._refused(f"the metrics are {', '.join(METRICS)}")
        return Selector(named[0][1], tuple(each for each in matchers if each.label != "__name__"))


def _unquoted_text(text: str) -> str:
    if text.startswith("`"):
        return text[1:-1]
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), text[1:-1], flags=re.DOTALL)
