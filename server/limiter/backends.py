"""Opens the limiter's backends, each when a rule first names it.

A backend outside the process has a deadline and a guard: if it does not answer, each rule says what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from clickcurve.extras import extra_for
from clickcurve.limiter.backend import AsyncBackend, Immediate
from clickcurve.limiter.backends.guard import AsyncGuarded, Patience
from clickcurve.limiter.backends.memory import MemoryBackend
from server.settings.table import Settings

Clock = Callable[[], float]
# (settings, epoch seconds, seconds that never step back)
Opener = Callable[[Settings, Clock, Clock], AsyncBackend]


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
    from clickcurve.limiter.backends.memcached import MemcachedBackend
    from clickcurve.limiter.backends.threaded import Threaded

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
