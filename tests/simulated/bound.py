"""A statement with the values bound to it: which partitions and rows it is about, and whether the values fit."""

from __future__ import annotations

from hashlib import md5
from typing import Any

from storage.cassandra.cql import Values
from tests.simulated.cells import Clustering, Partitions, sortable
from tests.simulated.cql_text import Marker, NotUnderstood, Relation, Table, Term
from tests.simulated.linear import COMPARISONS, Key


def token(key: Key) -> int:
    """Where a partition lies: a 64-bit number that says nothing."""
    return int.from_bytes(md5(repr(key).encode()).digest()[:8], "big", signed=True)


def place_of(key: Key) -> tuple[int, object]:
    return token(key), sortable(key)


class Bound:
    """The values of one execution."""

    def __init__(self, values: Values) -> None:
        self._values = values

    def of(self, term: Term) -> Any:
        return self._values[term.index] if isinstance(term, Marker) else term


class Wanted:
    """Which partitions and rows a select is about. keys None: not by key."""

    def __init__(self, table: Table, where: list[Relation], bound: Bound) -> None:
        parts: list[list[object]] = []
        self.keys: list[Key] | None = None
        self._from: int | None = None
        self._clustering: list[tuple[int, str, list[Any]]] = []
        self._after = False
        for relation in where:
            values = [bound.of(term) for term in relation.terms]
            for column, value in zip(relation.columns * len(values), values, strict=False):
                checked(table.columns[column], value)
            if relation.token:
                if relation.columns != table.partition or relation.op not in (">", ">="):
                    raise NotUnderstood(f"token{relation.columns} {relation.op}")
                self._from, self._after = token(tuple(values)), relation.op == ">"
            elif relation.columns[0] in table.partition:
                if relation.op not in ("=", "in") or table.partition.index(relation.columns[0]) != len(parts):
                    raise NotUnderstood(f"{relation.columns[0]} {relation.op} for a partition of {table.name}")
                parts.append([key_part(value) for value in values])
            elif relation.columns[0] in table.clustering:
                self._clustering.append((table.clustering.index(relation.columns[0]), relation.op, values))
            else:
                raise NotUnderstood(f"a search by {relation.columns[0]}, which is no key of {table.name}")
        if parts:
            if len(parts) != len(table.partition):
                raise NotUnderstood(f"a part of a partition's key of {table.name}")
            keys: list[Key] = [()]
            for values in parts:
                keys = [(*key, value) for key in keys for value in values]
            self.keys = keys

    def has(self, key: Key) -> bool:
        if self.keys is not None:
            return key in self.keys
        return self._from is None or (token(key) > self._from if self._after else token(key) >= self._from)

    def of(self, partitions: Partitions) -> Partitions:
        keys = partitions if self.keys is None else [key for key in self.keys if key in partitions]
        return {key: partitions[key].picked(self._row) for key in keys if self.has(key)}

    def _row(self, clustering: Clustering) -> bool:
        return all(compared(clustering[at], op, values) for at, op, values in self._clustering)


def compared(value: Any, op: str, others: list[Any]) -> bool:
    if op == "in":
        return value in others
    return bool(COMPARISONS[op](value, others[0]))


def key_part(value: object) -> object:
    if value is None or value == "":
        raise NotUnderstood(f"{value!r} as a part of a key")
    return value


def checked(type_: str, value: Any) -> Any:
    """The value, if it is one of this type."""
    if type_.startswith("frozen<list<frozen<tuple<"):
        inner = type_.removeprefix("frozen<list<frozen<tuple<").rstrip(">").split(",")
        good = value is None or isinstance(value, list | tuple)
        for each in value or ():
            good = good and isinstance(each, tuple) and len(each) == len(inner)
            for part, inner_type in zip(each, inner, strict=False):
                checked(inner_type, part)
    elif type_ in ("int", "bigint"):
        limit = 1 << (31 if type_ == "int" else 63)
        good = value is None or (type(value) is int and -limit <= value < limit)
    else:
        good = value is None or type(value) is {"text": str, "blob": bytes}[type_]
    if not good:
        raise NotUnderstood(f"{value!r} for a column of type {type_}")
    return value
