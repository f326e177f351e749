"""The server's limiter: its rules and backends, what it counts for /metrics, and the reload of rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from clickcurve.buckets.errors import ClickcurveError, RuleInvalid
from clickcurve.extras import extra_for
from clickcurve.limiter.async_limiter import AsyncLimiter
from clickcurve.limiter.backend import AsyncBackend
from clickcurve.limiter.backends.forms import Immediate
from clickcurve.limiter.backends.guard import AsyncGuarded, Patience
from clickcurve.limiter.backends.memory import MemoryBackend
from clickcurve.limiter.decision import Decision
from clickcurve.limiter.events import CallerListener, Features, Listener
from clickcurve.limiter.http.address import Addresses, addresses
from clickcurve.limiter.http.admission import decide_anyway
from clickcurve.limiter.http.headers import HttpRefusal, http_refusal
from clickcurve.limiter.http.routes import DecisionService
from clickcurve.limiter.rates import MAX_LIMIT
from clickcurve.limiter.rule import COSTS, Rule
from server.logs import log
from server.metrics import Family, Sample
from server.settings.table import RELOADED, TABLE, Settings
from server.tokens.route_access import Effect, RouteAccess, RouteEffect, ScopeRule, questions
from server.tokens.token import Scope

Clock = Callable[[], float]

# (settings, epoch seconds, seconds that never step back)
Opener = Callable[[Settings, Clock, Clock], AsyncBackend]

_BELOW = "/v1/limit/"
ACCESS = RouteAccess(
    (
        RouteEffect("GET", "/v1/limits", Effect.refused),
        *questions("/v1/limits/{event}", Effect.refused, "total", "curve"),
        RouteEffect("POST", f"{_BELOW}{{event}}", Effect.refused),
        RouteEffect("GET POST", f"{_BELOW}{{event}}/check", Effect.refused),
        RouteEffect("POST", f"{_BELOW}{{event}}/{{reservation}}/commit", Effect.refused),
        RouteEffect("POST", f"{_BELOW}{{event}}/{{reservation}}/cancel", Effect.refused),
    ),
    (ScopeRule("GET", f"{_BELOW}.*", Scope.write),),  # a proxy's question to the limiter counts
)

WRITE = "write"  # the event of the server's own requests that write
HITS = COSTS[1]  # as the cost of its rules: it counts the hits in them
WRITE_FEATURES = ("token", "ip")


FAMILIES = {
    "clickcurve_limit_decisions_total": Family(
        "Decisions by event: allowed, refused, shadow (allowed), blind (no backend).", ("event", "outcome")
    ),
    "clickcurve_limit_fallbacks_total": Family("Decisions without a backend (outcome blind).", ("event",)),
    "clickcurve_limit_rules": Family("Rules of the limiter."),
    "clickcurve_limit_reloads_total": Family("Reloads of the rules.", ("outcome",)),
    "clickcurve_limit_keys": Family("Callers that a limiter's backend counts.", ("backend",)),
    "clickcurve_limit_bytes": Family("Memory that the callers of a backend take, roughly.", ("backend",)),
    "clickcurve_limit_keys_evicted_total": Family(
        "Callers forgotten because none of their hits counted any more.", ("backend",)
    ),
    "clickcurve_limit_overflow_total": Family("New callers that had to share a key.", ("backend",)),
    "clickcurve_limit_buckets_merged_total": Family(
        "Hits counted in a neighbouring bucket because there was no room.", ("backend",)
    ),
    "clickcurve_limit_reservations": Family("Reservations that are remembered.", ("backend",)),
    "clickcurve_limit_reservations_lapsed_early_total": Family(
        "Reservations dropped because there was no room.", ("backend",)
    ),
    "clickcurve_limit_failures_total": Family("Calls that a backend did not answer.", ("backend",)),
    "clickcurve_limit_breaker_open": Family("1 while a backend is not asked.", ("backend",)),
    "clickcurve_limit_breaker_opened_total": Family("Pauses in which a backend was not asked.", ("backend",)),
    "clickcurve_limit_settles_lost_total": Family(
        "Ended reservations of which the backend did not learn.", ("backend",)
    ),
    "clickcurve_limit_connections_made_total": Family("Connections made to a backend.", ("backend",)),
    "clickcurve_limit_idle_connections": Family("Open connections to a backend that are not in use.", ("backend",)),
    "clickcurve_limit_raced_total": Family(
        "Writes that failed because of another write, and were decided again.", ("backend",)
    ),
    "clickcurve_limit_seen_bytes": Family("Bytes kept of the items that were seen last.", ("backend",)),
    "clickcurve_limit_taken_back_total": Family(
        "Hits taken back from some rules because the write of another failed.", ("backend",)
    ),
    "clickcurve_limit_gave_up_total": Family("Hits refused because they lost every race.", ("backend",)),
    "clickcurve_limit_calls_under_way": Family("Calls in threads or waiting for one.", ("backend",)),
    "clickcurve_limit_fallback_open_total": Family("Hits admitted without the backend.", ("backend",)),
    "clickcurve_limit_fallback_closed_total": Family("Hits refused without the backend.", ("backend",)),
    "clickcurve_limit_fallback_local_total": Family("Hits decided in process, without the backend.", ("backend",)),
    "clickcurve_limit_blind_open_total": Family("Old name of ..._limit_fallback_open_total.", ("backend",)),
    "clickcurve_limit_blind_closed_total": Family("Old name of ..._limit_fallback_closed_total.", ("backend",)),
    "clickcurve_limit_blind_local_total": Family("Old name of ..._limit_fallback_local_total.", ("backend",)),
}


def is_question_to_limiter(path: str) -> bool:
    """Tells whether a GET of this path counts a hit in the limiter, as a POST does."""
    return path.startswith(_BELOW) and path.endswith("/check")


def check_rules(rules: Sequence[Rule], settings: Settings) -> None:
    """Raises RuleInvalid for a rule that a server with these settings cannot keep."""
    for rule in rules:
        if rule.cost == HITS and rule.event != WRITE:
            raise _cannot_keep(rule, f"questions say their cost; only the event {WRITE} counts hits", "cost", HITS)
        setting = ADDRESS_SETTINGS.get(rule.backend)
        if setting is not None and not getattr(settings, setting):
            why = f"the backend {rule.backend!r} is not set up: it needs the setting {setting}"
            raise _cannot_keep(rule, why, "backend", rule.backend)
        if rule.backend not in OPENERS:
            raise _cannot_keep(rule, f"this program cannot open the backend {rule.backend!r}", "backend", rule.backend)
        if rule.backend == "memory" and settings.workers > 1:
            why = f"the backend 'memory' counts in one process, and each of {settings.workers} workers would admit all"
            what = "take redis or memcached as its backend, or one worker"
            raise _cannot_keep(rule, f"{why}: {what}", "backend", rule.backend)
        features = [("by", name) for names in rule.by for name in names] + [("unless", name) for name in rule.unless]
        for setting, feature in features:
            if rule.event == WRITE and feature not in WRITE_FEATURES:
                why = f"requests of the server have the features {' and '.join(WRITE_FEATURES)}, not {feature!r}"
                raise _cannot_keep(rule, why, setting, feature)


def _cannot_keep(rule: Rule, why: str, field: str, value: str) -> RuleInvalid:
    return RuleInvalid(f"limits.{rule.event}: {why}", field=field, value=value)


def _without_prefix(measures: Mapping[str, float], prefix: str) -> Mapping[str, float]:
    """Strips the backend's name, which is a label. A guard's number replaces its backend's under the same name."""
    own = {name.removeprefix(prefix): value for name, value in measures.items() if name.startswith(prefix)}
    around = {name.removeprefix("limiter_"): value for name, value in measures.items() if not name.startswith(prefix)}
    return own | around


class WriteRefused(Exception):
    """The hits of a request that the limit of writes refuses. refusal: the whole answer."""

    def __init__(self, refusal: HttpRefusal) -> None:
        super().__init__(refusal.status)
        self.refusal = refusal


class ServerLimiter:
    """The limiter of one worker.

    service: what answers questions to it. `listeners` hear every decision but peeks; `caller_listeners` hear decisions
    and their callers under rules that keep a history of callers.
    """

    def __init__(self, settings: Settings, clock: Clock, timer: Clock) -> None:
        check_rules(settings.rules, settings)
        self._settings = settings
        self._clocks = clock, timer
        self._backends: dict[str, AsyncBackend] = {}
        self._outcomes: Counter[tuple[str, str]] = Counter()
        self._reloads = {"done": 0, "refused": 0}
        self.listeners: list[Listener] = [self._count]
        self.caller_listeners: list[CallerListener] = []
        self.addresses: Addresses = addresses(settings.trusted_proxies, settings.ipv6_prefix, settings.proxy_header)
        self.dialect = settings.limits_headers
        self.rules = settings.rules
        self._open(settings.rules)
        self.limiter = AsyncLimiter(
            settings.rules,
            clock=clock,
            timer=timer,
            backends=self._backends,
            listener=self._tell,
            caller_listener=self._tell_of_caller,
        )
        self.service = DecisionService(self.limiter, self.addresses, self.dialect)
        self._note_writes()

    def _note_writes(self) -> None:
        """Notes whether there are rules for the server's own writes, and whether these count hits."""
        rules = self.limiter.events.rules().get(WRITE, ())
        self.limits_writes = bool(rules)
        self.counts_hits = any(rule.cost == HITS for rule in rules)

    def _open(self, rules: Sequence[Rule]) -> None:
        for name in ["memory", *(rule.backend for rule in rules)]:
            if name not in self._backends:
                self._backends[name] = OPENERS[name](self._settings, *self._clocks)

    # --- counting ----------------------------------------------------------------------------------------------
    def _tell(self, event: str, cost: int, decision: Decision) -> None:
        for listener in self.listeners:
            listener(event, cost, decision)

    def _tell_of_caller(self, event: str, caller: str, cost: int, decision: Decision) -> None:
        for listener in self.caller_listeners:
            listener(event, caller, cost, decision)

    def _count(self, event: str, cost: int, decision: Decision) -> None:
        outcome = "allowed" if decision.allowed else "refused"
        if decision.fallback or decision.shadow:
            outcome = "blind" if decision.fallback else "shadow"
        self._outcomes[event, outcome] += 1

    def samples(self) -> Iterator[Sample]:
        for (event, outcome), count in self._outcomes.items():
            yield Sample("clickcurve_limit_decisions_total", count, (event, outcome))
            if outcome == "blind":  # the next version says fallback there
                yield Sample("clickcurve_limit_fallbacks_total", count, (event,))
        for how, count in self._reloads.items():
            yield Sample("clickcurve_limit_reloads_total", count, (how,))
        yield Sample("clickcurve_limit_rules", sum(map(len, self.limiter.events.rules().values())))
        for name, backend in self._backends.items():
            for measure, value in _without_prefix(backend.measures(), name + "_").items():
                yield Sample(f"clickcurve_limit_{measure}", value, (name,))

    # --- other rules --------------------------------------------------------------------------------------------------
    def reload(self) -> None:
        """Reads the settings again and replaces the rules. The old rules hold if anything in the file is wrong."""
        try:
            fresh = self._settings.again()
            check_rules(fresh.rules, self._settings)
            self._open(fresh.rules)
            self.limiter.replace(fresh.rules)
            self.rules = fresh.rules
        except ClickcurveError as error:
            self._reloads["refused"] += 1
            log.error("limits not reloaded", extra={"reason": error.detail, "then": "the old rules stay in use"})
            return
        self._reloads["done"] += 1
        self._note_writes()
        log.info("limits reloaded", extra={"rules": len(fresh.rules)})
        names = [setting.name for setting in TABLE if not setting.name.startswith(RELOADED)]
        other = [name for name in names if getattr(fresh, name) != getattr(self._settings, name)]
        if other:
            log.warning("settings changed", extra={"settings": other, "then": "they apply from the next start on"})

    async def charge(self, features: Features, hits: int) -> None:
        """Counts so many hits of the event `write`, all or none; raises WriteRefused, and as `refuse_write`."""
        refused = await self.refuse_write(features, min(hits, MAX_LIMIT))
        if refused is not None:
            raise WriteRefused(refused)

    async def refuse_write(self, features: Features, cost: int = 1) -> HttpRefusal | None:
        """Counts hits of the event `write`. Returns None if they may pass, else the answer.

        Raises ParameterInvalid if no rule of the event knows the caller.
        """
        decision, rules = await decide_anyway(self.limiter, "hit", WRITE, features, cost)
        if decision.allowed:
            return None
        return http_refusal(self.dialect, decision, rules, self.limiter.events.now(), "/docs")

    async def close(self) -> None:
        for name, backend in self._backends.items():
            try:
                await backend.close()
            except ClickcurveError as error:
                log.warning("limiter backend not closed", extra={"backend": name, "reason": error.detail})


# --- backends ---------------------------------------------------------------------------------------------------------
# Each is opened when a rule first names it. One outside the process has a deadline and a guard: if it does not answer,
# each rule says what to do.
def _open_memory(settings: Settings, clock: Clock, timer: Clock) -> AsyncBackend:
    return Immediate(MemoryBackend())


def _open_redis(settings: Settings, clock: Clock, timer: Clock) -> AsyncBackend:
    with extra_for("the limiter's backend redis"):  # its library is loaded only where a rule needs it
        from clickcurve.limiter.backends.connections.redis_address import is_cluster
        from clickcurve.limiter.backends.redis import AsyncRedisBackend
        from clickcurve.limiter.backends.redis_cluster import AsyncRedisClusterBackend

    # The guard's deadline holds; two of the same length would only cost time.
    backend: AsyncBackend
    if is_cluster(settings.limits_redis):
        backend = AsyncRedisClusterBackend(settings.limits_redis, timeout_s=None)
    else:
        backend = AsyncRedisBackend(settings.limits_redis, timeout_s=None, discover_s=_deadline_s(settings) / 2)
    return _guarded(backend, settings, clock, timer)


def _open_memcached(settings: Settings, clock: Clock, timer: Clock) -> AsyncBackend:
    from clickcurve.limiter.backends.forms import Threaded
    from clickcurve.limiter.backends.memcached import MemcachedBackend

    servers = [server.strip() for server in settings.limits_memcached.split(",")]
    backend = MemcachedBackend(servers, timeout_s=_deadline_s(settings))
    return _guarded(Threaded(backend), settings, clock, timer)


def _guarded(backend: AsyncBackend, settings: Settings, clock: Clock, timer: Clock) -> AsyncBackend:
    return AsyncGuarded(backend, clock=clock, timer=timer, patience=Patience(deadline_s=_deadline_s(settings)))


def _deadline_s(settings: Settings) -> float:
    return settings.limits_timeout_ms / 1_000


# A backend's name in rules -> the function that opens it.
OPENERS: Mapping[str, Opener] = {"memory": _open_memory, "redis": _open_redis, "memcached": _open_memcached}
# A backend's name -> the setting with its address.
ADDRESS_SETTINGS: Mapping[str, str] = {"redis": "limits_redis", "memcached": "limits_memcached"}
