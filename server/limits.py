"""Every limit of the server, by name, with what happens at it.

The parts that enforce a limit are told its value; this table is the one place that says what the limits are. The
command `clickcurve settings --limits` prints it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound: `value` in `unit`, and what happens to what goes over it."""

    value: int
    unit: str
    over: str


KEY_BYTES = Limit(1_024, "bytes of UTF-8", "the hit is refused with its reason, the rest of its batch counts")
COUNT = Limit(1_000_000_000, "per hit", "the hit is refused with its reason, the rest of its batch counts")
ID_BYTES = Limit(128, "visible ASCII characters", "a hit is refused; an Idempotency-Key is refused with 422")
HIT_BYTES = Limit(1024 * 1024, "bytes, all fields", "the hit is refused unread, the rest of its batch counts")
IDENTIFIED_HITS = Limit(
    100_000, "hits with an id in a request", "the request is refused with 413, nothing of it counts"
)
FUTURE_S = Limit(300, "seconds ahead of now", "the hit is refused with its reason, the rest of its batch counts")
BODY_BYTES = Limit(64 * 1024 * 1024, "bytes, decompressed", "the request is refused with 413, nothing of it counts")
WAITING_BYTES = Limit(256 * 1024 * 1024, "bytes of large bodies at once", "further ones are answered 429")
RECEIPT_ITEMS = Limit(1_000, "items in a receipt", "the rest is summed and told as items_omitted")
IDS_WINDOW_S = Limit(48 * 3_600, "seconds that an id is remembered", "a repeat counts again")
POINTS = Limit(10_000, "points in a curve", "the question is refused with 422, which names a step that fits")
TOP_LINKS = Limit(1_000, "links in a list", "the question is refused with 422; without limit there are 20")
JOURNAL_MIB = Limit(1_024, "MiB in a journal (setting journal_mib)", "hits are refused with 503 until a flush frees it")
HEADER_BYTES = Limit(64 * 1024, "bytes of request line and headers", "the connection is closed with 400")
BACKLOG = Limit(2_048, "connections that wait to be accepted", "the kernel refuses further ones")
CONNECTIONS = Limit(10_000, "connections of a worker at once", "further ones are answered 503 and closed")
STALL_S = Limit(60, "seconds without a byte in the middle of a request", "the connection is closed, nothing counts")
KEEP_ALIVE_S = Limit(75, "seconds without a request", "the connection is closed")
DRAIN_S = Limit(5, "seconds for requests under way at a stop", "they are cut off; what was not answered may not count")
FIRST_FLUSH_S = Limit(20, "seconds for the flush at a start", "requests are answered; the flush goes on meanwhile")
LAST_FLUSH_S = Limit(10, "seconds for the flush at a stop", "the hits stay in the journal; the next start flushes them")
PROBE_S = Limit(2, "seconds for the store to answer /readyz?for=read", "the answer is 503")
QUESTION_BYTES = Limit(64 * 1024, "bytes of a question to the limiter", "it is refused with 413")
LIMIT_KEYS = Limit(1_000_000, "callers that the limiter counts in memory", "new ones share one limit for each rule")
LIMIT_BYTES = Limit(512 * 1024 * 1024, "bytes that they take, roughly", "new ones share one limit for each rule")
LIMIT_RESERVATIONS = Limit(100_000, "reservations that are remembered", "the oldest stay counted and cannot be ended")
TOKENS = Limit(1_000, "tokens", "token create is refused")
WORKERS = Limit(64, "worker processes", "the start is refused")

LIMITS: dict[str, Limit] = {name.lower(): value for name, value in dict(globals()).items() if isinstance(value, Limit)}
