"""Every limit of the server, by name, with what happens at it.

Each number stands once, in the part that enforces it; this table reads it from there. `clickcurve settings --limits`
prints the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clickcurve import keys
from clickcurve.limiter.backends import memory
from clickcurve.limiter.http import json_shapes
from ingest import hit, owner
from ingest.reading import body, body_budget, json_hit, receipt, request_sums
from query import grid, parameters
from server.app import run, shutdown, startup
from server.corrections import rules
from server.http import connection, health_routes
from server.settings import table
from server.tokens import token_book


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound: `value` in `unit`, and what happens to what goes over it."""

    value: int
    unit: str
    over: str


_HIT_REFUSED = "the hit is refused with its reason, the rest of its batch counts"
_REQUEST_REFUSED = "the request is refused with 413, nothing of it counts"
_SHARED = "new ones share one limit for each rule"

LIMITS: Mapping[str, Limit] = {
    "key_bytes": Limit(keys.KEY_BYTES, "bytes of UTF-8", _HIT_REFUSED),
    "count": Limit(hit.COUNT_MAX, "per hit", _HIT_REFUSED),
    "id_bytes": Limit(
        hit.ID_CHARACTERS, "visible ASCII characters", "a hit is refused; an Idempotency-Key is refused with 422"
    ),
    "hit_bytes": Limit(
        json_hit.HIT_BYTES,
        "bytes, all fields",
        "the hit is refused unread, the rest of its batch counts; far longer, with white space, the request is: 413",
    ),
    "identified_hits": Limit(request_sums.IDENTIFIED_HITS, "hits with an id in a request", _REQUEST_REFUSED),
    "future_s": Limit(hit.FUTURE_S, "seconds ahead of now", _HIT_REFUSED),
    "body_bytes": Limit(body_budget.BODY_BYTES, "bytes, decompressed", _REQUEST_REFUSED),
    "waiting_bytes": Limit(
        body_budget.WAITING_BYTES,
        "bytes of bodies at once, beyond the first 16 KiB of each",
        "slow ones are answered 429, or the newest if none is slow",
    ),
    "body_values": Limit(request_sums.BODY_VALUES, "hits or lines of a request", _REQUEST_REFUSED),
    "different_counts": Limit(
        request_sums.DIFFERENT_COUNTS, "minutes, sets of attributes and visitors of a request", _REQUEST_REFUSED
    ),
    "refused_hits": Limit(request_sums.REFUSED_HITS, "refused hits in a request", _REQUEST_REFUSED),
    "walked_tokens": Limit(
        body.WALKED_TOKENS, "strings, brackets and commas of values that are nested or no hits", _REQUEST_REFUSED
    ),
    "blank_bytes": Limit(body.BLANK_BYTES, "bytes of white space before or after what a body holds", _REQUEST_REFUSED),
    "receipt_items": Limit(receipt.RECEIPT_ITEMS, "items in a receipt", "the rest is only counted, in items_omitted"),
    "ids_window_s": Limit(owner.ID_WINDOW_S, "seconds that an id is remembered", "a repeat counts again"),
    "points": Limit(
        grid.MAX_POINTS, "points in a curve", "the question is refused with 422, which names a step that fits"
    ),
    "top_links": Limit(
        parameters.MAX_TOP,
        "links in a list",
        f"the question is refused with 422; without limit there are {parameters.DEFAULT_TOP}",
    ),
    "journal_mib": Limit(
        table.JOURNAL_MIB,
        "MiB in a journal (setting journal_mib)",
        "hits are refused with 503 until a flush frees it",
    ),
    "buffer_mib": Limit(
        table.BUFFER_MIB,
        "MiB of memory for what is not in the store yet (setting buffer_mib)",
        "hits are refused with 429 until a flush frees it",
    ),
    "header_bytes": Limit(
        connection.HEADER_BYTES, "bytes of request line and headers", "the request is refused with 431"
    ),
    "backlog": Limit(run.BACKLOG, "connections that wait to be accepted", "the kernel refuses further ones"),
    "connections": Limit(
        connection.CONNECTIONS, "connections of a worker at once", "further ones are answered 503 and closed"
    ),
    "address_connections": Limit(
        table.ADDRESS_CONNECTIONS,
        "connections of an address to a worker (setting address_connections)",
        "further ones are answered 429 and closed",
    ),
    "head_s": Limit(table.HEAD_S, "seconds for the head of a request (setting head_s)", "the connection is closed"),
    "slowest_bytes_s": Limit(
        table.SLOWEST_BYTES_S,
        f"bytes a second of a body, and of an answer, over {connection.PACE_S} s (setting slowest_bytes_s)",
        "a slower one is cut off; nothing of its body counts",
    ),
    "drained_bytes": Limit(
        connection.DRAINED_BYTES, "bytes of a body whose request is answered already", "the connection is closed"
    ),
    "drained_s": Limit(
        connection.DRAINED_S, "seconds for the rest of a body whose request is answered", "the connection is closed"
    ),
    "ended_s": Limit(
        connection.ENDED_S,
        "seconds for a client to end its side after the last answer of a connection",
        "the connection is closed",
    ),
    "keep_alive_s": Limit(connection.KEEP_ALIVE_S, "seconds without a request", "the connection is closed"),
    "last_answers_s": Limit(
        connection.LAST_ANSWERS_S,
        "seconds for requests under way at a stop",
        "they are cut off; what was not answered may not count",
    ),
    "first_flush_s": Limit(
        startup.FIRST_FLUSH_S,
        "seconds for the flush at a start",
        "requests are answered; the flush goes on meanwhile",
    ),
    "last_flush_s": Limit(
        shutdown.LAST_FLUSH_S,
        "seconds for the flush at a stop",
        "the hits stay in the journal; the next start flushes them",
    ),
    "probe_s": Limit(health_routes.PROBE_S, "seconds for the store to answer /readyz?for=read", "the answer is 503"),
    "question_bytes": Limit(json_shapes.BODY_BYTES, "bytes of a question to the limiter", "it is refused with 413"),
    "limit_keys": Limit(memory.MAX_KEYS, "callers that the limiter counts in memory", _SHARED),
    "limit_bytes": Limit(memory.MAX_BYTES, "bytes that they take, roughly", _SHARED),
    "limit_reservations": Limit(
        memory.MAX_RESERVATIONS,
        "reservations that are remembered",
        "the oldest stay counted and cannot be ended",
    ),
    "disavow_rules": Limit(rules.MAX_RULES, "rules that call hits bots", "another one is refused with 422"),
    "tokens": Limit(token_book.MAX_TOKENS, "tokens", "token create is refused"),
    "workers": Limit(table.MAX_WORKERS, "worker processes", "the start is refused"),
}
