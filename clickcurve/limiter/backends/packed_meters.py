"""A key's meter in a few bytes, for a store that keeps one value for each key. No input or output.

Two bytes say how it is packed and for which strategy, four tell one life of a key from the next (after a reset it has
another), and the rest is what `meters` keep. All numbers are whole, and little-endian.

    fixed, per_second       8 bytes for each rate
    single_counter, list    12 bytes, and a list's callers
    token_bucket            16 bytes and 16 for each rate, and some for each open reservation
    tiered                  32 bytes, and 8 for each bucket with hits

The largest is a `tiered` one with hits in every second of a day: 782 kB, with what is cut off later than it could be.
"""

from __future__ import annotations

import json
import sys
from array import array
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from struct import Struct, error
from typing import Any, TypeAlias

from clickcurve.buckets.errors import BackendUnavailable
from clickcurve.limiter.backends.bucket_series import Series
from clickcurve.limiter.backends.meter import UNBOUNDED, Meter
from clickcurve.limiter.backends.meters import Opened, Tokens, Windows
from clickcurve.limiter.rates import Rate
from clickcurve.limiter.rule import Rule
from clickcurve.limiter.token_bucket import drops_at
from clickcurve.times import SECOND_US

# The strategy, the edge, the rates, the burst and the life of a rule.
Form: TypeAlias = tuple[str, int, Sequence[tuple[int, int]], int, int]

# memcached takes no more than 1 MB, and of 10,000 callers each may have a name of 256 characters.
MAX_CALLERS_BYTES = 900_000
# Of so many open reservations of one bucket, those before give nothing back.
MAX_CLAIMS = 10_000

# The first byte is that of this way to pack, the second that of the strategy.
_KIND = {"tiered": b"\1t", "fixed": b"\1f", "single_counter": b"\1s", "list": b"\1l", "token_bucket": b"\1b"}
_SERIES = Struct("<2sIQQQI")
_OPENED = Struct("<2sIQI")
_SWAPPED = sys.byteorder == "big"


def pack_meter(rule: Rule, meter: Meter, life: int) -> bytes:
    return _PACKINGS[rule.strategy][1](meter, life)


def unpack_meter(rule: Rule, value: bytes) -> tuple[Meter, int]:
    """Returns the meter and its life. BackendUnavailable for bytes that are not those of a meter of this strategy."""
    kind, _, unpacked, _ = _PACKINGS[rule.strategy]
    try:
        if value[:2] == kind:
            return unpacked(rule, value)
    except (ValueError, error):
        pass
    raise BackendUnavailable(f"the bytes {value[:20]!r} are not what a limit by {rule.strategy!r} has written")


def counted_until_us(rule: Rule, meter: Meter) -> int:
    """Returns the epoch microsecond of the latest hit; of windows of the clock the start of the latest."""
    until_us: int = _PACKINGS[rule.strategy][3](rule, meter)
    return until_us


def charge_held(rule: Rule, meter: Meter, at_us: int, cost: int, caller: str, reserved: bool) -> int:
    """Counts a hit that fits. Returns the handle by which `take_out`, or if it is reserved a refund, finds it."""
    handle = meter.charge(rule, at_us, cost, caller, reserved or rule.strategy != "token_bucket")
    return meter.seen_us if isinstance(meter, Tokens) and not reserved else handle


def take_out(rule: Rule, meter: Meter, at_us: int, handle: int, cost: int, caller: str) -> None:
    """Takes out a hit that was charged a moment ago, and not reserved.

    From a bucket of tokens, which has no claim of it, less what has come in since: never more than the hit's absence
    would have left there.
    """
    if not isinstance(meter, Tokens):
        meter.refund(rule, at_us, handle, cost, caller)
    elif meter.rule.flows == rule.flows:
        for n, flow in enumerate(rule.flows):
            back = cost * flow.token - drops_at(flow, 0, min(handle, meter.seen_us), meter.seen_us)
            meter.levels[n] = min(flow.full, meter.levels[n] + max(0, back))


# --- the form of a rule -----------------------------------------------------------------------------------------------
def form_of(rule: Rule) -> Form:
    """Returns what a rule has to say about how it counts, in what JSON knows."""
    rates = tuple((rate.limit, rate.window_s) for rate in rule.rates)
    return rule.strategy, rule.edge_s, rates, rule.burst, rule.ttl_s if rule.ttl_s > rule.keep_s else 0


def rule_of(form: Form) -> Rule:
    """Returns a rule of this form: it packs and gives back as that of which the form was made."""
    strategy, edge_s, rates, burst, ttl_s = form
    return _rule_of(strategy, edge_s, tuple((limit, window_s) for limit, window_s in rates), burst, ttl_s)


@lru_cache(maxsize=1_000)
def _rule_of(strategy: str, edge_s: int, rates: Sequence[tuple[int, int]], burst: int, ttl_s: int) -> Rule:
    several = tuple(Rate(*each) for each in rates)
    return Rule("kept", "kept", (("kept",),), several, strategy, edge_s, burst=burst, ttl_s=ttl_s)


# --- windows of the clock ---------------------------------------------------------------------------------------------
def _pack_windows(meter: Windows, life: int) -> bytes:
    ends = meter.ends
    return _window_struct(len(ends)).pack(_KIND["fixed"], life, *ends, *meter.counts)


def _unpack_windows(rule: Rule, value: bytes) -> tuple[Windows, int]:
    many = len(rule.reaches)
    _, life, *numbers = _window_struct(many).unpack(value)
    return Windows.of(rule, numbers[:many], numbers[many:]), life


@lru_cache(maxsize=100)
def _window_struct(many: int) -> Struct:
    return Struct(f"<2sI{2 * many}I")


def _windows_until_us(rule: Rule, meter: Windows) -> int:
    return max([end - reach[1] for end, reach in zip(meter.ends, rule.reaches, strict=True)]) * SECOND_US


# --- windows that a hit opened ----------------------------------------------------------------------------------------
def _pack_opened(meter: Opened, life: int) -> bytes:
    head = _OPENED.pack(_KIND[meter.rule.strategy], life, meter.opened_us, meter.count)
    if not meter.callers:
        return head
    callers = json.dumps(meter.callers)
    if len(callers) > MAX_CALLERS_BYTES:  # the first are kept; JSON has ASCII only, and ", " between them
        sizes = list(accumulate(len(json.dumps(caller)) + 2 for caller in meter.callers))
        del meter.callers[bisect_right(sizes, MAX_CALLERS_BYTES) :]
        callers = json.dumps(meter.callers)
    return head + callers.encode()


def _unpack_opened(rule: Rule, value: bytes) -> tuple[Opened, int]:
    meter = Opened(rule, 0, UNBOUNDED)
    _, life, meter.opened_us, meter.count = _OPENED.unpack_from(value)
    if len(value) > _OPENED.size:
        callers = json.loads(value[_OPENED.size :])
        if not isinstance(callers, list) or rule.strategy != "list":
            raise ValueError("bytes that are no callers")
        meter.callers = callers
    return meter, life


# --- tokens -----------------------------------------------------------------------------------------------------------
def _pack_tokens(meter: Tokens, life: int) -> bytes:
    rule = meter.rule
    rates = [number for rate in rule.rates for number in (rate.limit, rate.window_s)]
    head = _token_struct(len(rule.rates)).pack(
        _KIND["token_bucket"], life, meter.seen_us, meter.holds, rule.burst, *rates, *meter.levels
    )
    if not meter.claims:
        return head
    claim = _claim_struct(len(rule.rates))
    return head + b"".join([claim.pack(handle, *each) for handle, each in list(meter.claims.items())[-MAX_CLAIMS:]])


def _unpack_tokens(rule: Rule, value: bytes) -> tuple[Tokens, int]:
    many = len(rule.rates)
    packing = _token_struct(many)
    _, life, seen_us, holds, burst, *numbers = packing.unpack_from(value)
    rates, levels, claims = numbers[: 2 * many], numbers[2 * many :], None
    if len(value) > packing.size:
        claims = {handle: tuple(each) for handle, *each in _claim_struct(many).iter_unpack(value[packing.size :])}
    if burst != rule.burst or rates != [number for rate in rule.rates for number in (rate.limit, rate.window_s)]:
        rule = rule_of(("token_bucket", 1, list(zip(rates[::2], rates[1::2], strict=True)), burst, 0))
    return Tokens.of(rule, levels, seen_us, holds, claims), life


@lru_cache(maxsize=100)
def _token_struct(many: int) -> Struct:
    return Struct(f"<2sIQII{2 * many}I{many}Q")


@lru_cache(maxsize=100)
def _claim_struct(many: int) -> Struct:
    return Struct(f"<I{many}Q")


# --- buckets of a sliding window --------------------------------------------------------------------------------------
def _pack_series(meter: Series, life: int) -> bytes:
    starts, sums = meter.starts, meter.sums
    many = len(starts)
    # In process the arrays may double before they are trimmed; here each byte is sent with each hit.
    room = min(meter.room, many + many // 8 + 64)
    base = 0
    if starts.itemsize > 4:
        base = starts[0] if many else 0
        starts = array("I", [start - base for start in starts])
    head = _SERIES.pack(_KIND["tiered"], life, meter.latest, meter.merged, base, room)
    return head + _little(starts) + _little(sums)


def _unpack_series(rule: Rule, value: bytes) -> tuple[Series, int]:
    meter = Series(rule, 0, UNBOUNDED)
    _, life, meter.latest, meter.merged, base, meter.room = _SERIES.unpack_from(value)
    half, rest = divmod(len(value) - _SERIES.size - 4, 8)
    if half < 0 or rest:
        raise ValueError("bytes that are no starts and sums of buckets")
    middle = _SERIES.size + 4 * half
    starts, meter.sums = _array(value[_SERIES.size : middle]), _array(value[middle:])
    meter.starts = starts if rule.ticks_s == 1 else array("Q", [base + start for start in starts])
    return meter, life


def _little(numbers: array[int]) -> bytes:
    if _SWAPPED:
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


def _array(value: bytes) -> array[int]:
    numbers = array("I", value)
    if _SWAPPED:
        numbers.byteswap()
    return numbers


Packing: TypeAlias = tuple[
    bytes,
    Callable[[Any, int], bytes],
    Callable[[Rule, bytes], tuple[Meter, int]],
    Callable[[Rule, Any], int],
]
_PACKINGS: Mapping[str, Packing] = {
    "tiered": (_KIND["tiered"], _pack_series, _unpack_series, lambda rule, meter: meter.latest * rule.tick_us),
    "fixed": (_KIND["fixed"], _pack_windows, _unpack_windows, _windows_until_us),
    "per_second": (_KIND["fixed"], _pack_windows, _unpack_windows, _windows_until_us),
    "single_counter": (_KIND["single_counter"], _pack_opened, _unpack_opened, lambda rule, meter: meter.opened_us),
    "list": (_KIND["list"], _pack_opened, _unpack_opened, lambda rule, meter: meter.opened_us),
    "token_bucket": (_KIND["token_bucket"], _pack_tokens, _unpack_tokens, lambda rule, meter: meter.seen_us),
}
