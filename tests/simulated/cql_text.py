"""The part of CQL that the simulated cluster understands, as data. Whatever else a statement says is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_TOKEN = re.compile(r"\s*(?:('(?:[^']|'')*')|(-?\d+)|([A-Za-z_]\w*)|(<=|>=|!=|[(),.=<>?;]))")
NOW_MS = "tounixtimestamp(now())"  # the one function of time that can be selected


class NotUnderstood(AssertionError):
    """A statement or a value that this cluster does not know."""


@dataclass(frozen=True, slots=True)
class Table:
    """columns: name -> type. partition, clustering: the primary key's columns. ttl_s: of writes that say nothing."""

    name: str
    columns: Mapping[str, str]
    partition: tuple[str, ...]
    clustering: tuple[str, ...]
    ttl_s: int | None


@dataclass(frozen=True, slots=True)
class Marker:
    """A question mark: the n-th value that is bound."""

    index: int


Term = Marker | int | str | None


@dataclass(frozen=True, slots=True)
class Relation:
    """column op term; for IN a list of terms. `token`: the relation is on the token of these columns."""

    columns: tuple[str, ...]
    op: str
    terms: tuple[Term, ...]
    token: bool = False


@dataclass(slots=True)
class Plan:
    """A statement. verb: select, insert, update or delete. conditions None: no IF at all; []: IF [NOT] EXISTS.

    columns: what is selected: names of columns, `token` for that of the partition, NOW_MS.
    """

    verb: str
    table: str
    columns: list[str] = field(default_factory=list)
    assigned: dict[str, Term] = field(default_factory=dict)
    where: list[Relation] = field(default_factory=list)
    conditions: list[Relation] | None = None
    exists: bool | None = None  # IF EXISTS: True, IF NOT EXISTS: False
    ttl: Term = None
    timestamp: Term = None
    limit: Term = None
    distinct: bool = False  # one row a partition
    markers: int = 0


def parse_table(text: str) -> Table:
    """A CREATE TABLE statement. Of what stands after WITH only the time to live matters here."""
    text, _, options = text.partition(" WITH ")
    ttl = re.search(r"default_time_to_live = (\d+)", options)
    words = _Words(text)
    words.expect("create", "table")
    if words.take("if"):
        words.expect("not", "exists")
    name = words.name()
    columns: dict[str, str] = {}
    partition: tuple[str, ...] = ()
    clustering: tuple[str, ...] = ()
    words.expect("(")
    while True:
        if words.take("primary"):
            words.expect("key", "(")
            partition = words.names_in_brackets() if words.take("(") else (words.word(),)
            clustering = tuple(words.names_in_brackets()) if words.take(",") else ()
            if not clustering:
                words.expect(")")
        else:
            column = words.word()
            columns[column] = words.type()
            if words.take("primary"):
                words.expect("key")
                partition = (column,)
        if not words.take(","):
            break
    words.expect(")")
    return Table(name, columns, tuple(partition), clustering, int(ttl[1]) or None if ttl else None)


def parse(text: str) -> Plan:
    words = _Words(text)
    verb = words.word()
    if verb not in _VERBS:
        raise NotUnderstood(f"{verb}: {text}")
    plan = _VERBS[verb](words)
    words.take(";")
    if not words.at_end():
        raise NotUnderstood(f"what begins at {words.rest()!r} in {text!r}")
    plan.markers = words.markers
    return plan


def _select(words: _Words) -> Plan:
    distinct = words.take("distinct")
    plan = Plan("select", "", [words.selected()], distinct=distinct)
    while words.take(","):
        plan.columns.append(words.selected())
    words.expect("from")
    plan.table = words.name()
    if words.take("where"):
        plan.where = words.relations()
    if words.take("limit"):
        plan.limit = words.term()
    return plan


def _insert(words: _Words) -> Plan:
    words.expect("into")
    plan = Plan("insert", words.name())
    words.expect("(")
    names = words.names_in_brackets()
    words.expect("values", "(")
    terms = [words.term()]
    while words.take(","):
        terms.append(words.term())
    words.expect(")")
    if len(names) != len(terms):
        raise NotUnderstood(f"{len(names)} columns, {len(terms)} values")
    plan.assigned = dict(zip(names, terms, strict=True))
    if words.take("if"):
        words.expect("not", "exists")
        plan.conditions, plan.exists = [], False
    words.using(plan)
    return plan


def _update(words: _Words) -> Plan:
    plan = Plan("update", words.name())
    words.using(plan)
    words.expect("set")
    while True:
        column = words.word()
        words.expect("=")
        plan.assigned[column] = words.term()
        if not words.take(","):
            break
    words.expect("where")
    plan.where = words.relations()
    _if(words, plan)
    return plan


def _delete(words: _Words) -> Plan:
    words.expect("from")
    plan = Plan("delete", words.name())
    words.using(plan)
    words.expect("where")
    plan.where = words.relations()
    _if(words, plan)
    return plan


def _if(words: _Words, plan: Plan) -> None:
    if words.take("if"):
        if words.take("exists"):
            plan.conditions, plan.exists = [], True
        else:
            plan.conditions = words.relations()


_VERBS = {"select": _select, "insert": _insert, "update": _update, "delete": _delete}


class _Words:
    """The tokens of a statement, read from left to right. Names and keywords are lower case."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str]] = []
        self._at = 0
        self.markers = 0
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                raise NotUnderstood(f"{text[at:]!r} in {text!r}")
            at = match.end()
            kind = ("string", "number", "word", "sign")[(match.lastindex or 0) - 1]
            value = match[match.lastindex or 0]
            self._tokens.append((kind, value.lower() if kind == "word" else value))

    def at_end(self) -> bool:
        return self._at == len(self._tokens)

    def rest(self) -> str:
        return " ".join(value for _, value in self._tokens[self._at :])

    def _next(self) -> tuple[str, str]:
        if self.at_end():
            raise NotUnderstood(f"the end of {self._text!r} comes too soon")
        self._at += 1
        return self._tokens[self._at - 1]

    def take(self, value: str) -> bool:
        if not self.at_end() and self._tokens[self._at][1] == value and self._tokens[self._at][0] != "string":
            self._at += 1
            return True
        return False

    def expect(self, *values: str) -> None:
        for value in values:
            if not self.take(value):
                raise NotUnderstood(f"{value} expected at {self.rest()!r} in {self._text!r}")

    def word(self) -> str:
        kind, value = self._next()
        if kind != "word":
            raise NotUnderstood(f"a name expected, not {value!r}, in {self._text!r}")
        return value

    def name(self) -> str:
        """A table's name, without its keyspace."""
        name = self.word()
        return self.word() if self.take(".") else name

    def type(self) -> str:
        name = self.word()
        if self.take("<"):
            inner = [self.type()]
            while self.take(","):
                inner.append(self.type())
            self.expect(">")
            name += f"<{','.join(inner)}>"
        return name

    def list_of_names(self) -> list[str]:
        names = [self.word()]
        while self.take(","):
            names.append(self.word())
        return names

    def selected(self) -> str:
        name = self.word()
        if name == "tounixtimestamp":
            self.expect("(", "now", "(", ")", ")")
            return NOW_MS
        if name == "token":
            self.expect("(")
            self.names_in_brackets()
        return name

    def names_in_brackets(self) -> tuple[str, ...]:
        names = self.list_of_names()
        self.expect(")")
        return tuple(names)

    def term(self) -> Term:
        kind, value = self._next()
        if value == "?":
            self.markers += 1
            return Marker(self.markers - 1)
        if kind == "number":
            return int(value)
        if kind == "string":
            return value[1:-1].replace("''", "'")
        if value == "null":
            return None
        raise NotUnderstood(f"a value expected, not {value!r}, in {self._text!r}")

    def relations(self) -> list[Relation]:
        found = [self._relation()]
        while self.take("and"):
            found.append(self._relation())
        return found

    def _relation(self) -> Relation:
        name = self.word()
        if name == "token":
            self.expect("(")
            columns = self.names_in_brackets()
            op = self._op()
            self.expect("token", "(")
            return Relation(columns, op, self._terms(), token=True)
        if self.take("in"):
            self.expect("(")
            return Relation((name,), "in", self._terms())
        return Relation((name,), self._op(), (self.term(),))

    def _terms(self) -> tuple[Term, ...]:
        terms = [self.term()]
        while self.take(","):
            terms.append(self.term())
        self.expect(")")
        return tuple(terms)

    def _op(self) -> str:
        _, op = self._next()
        if op not in ("=", "<", ">", "<=", ">=", "!="):
            raise NotUnderstood(f"{op!r} is no comparison, in {self._text!r}")
        return op

    def using(self, plan: Plan) -> None:
        if not self.take("using"):
            return
        while True:
            what = self.word()
            if what == "ttl":
                plan.ttl = self.term()
            elif what == "timestamp":
                plan.timestamp = self.term()
            else:
                raise NotUnderstood(f"USING {what}")
            if not self.take("and"):
                return
