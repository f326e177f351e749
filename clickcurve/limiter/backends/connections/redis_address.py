"""The address of a Redis, and the connections to it: to one server, or to the primary that sentinels name.

    redis://host:6379/0    rediss://host:6379/0    unix:///path?db=0
    redis+sentinel://h1:26379,h2:26379/name/0?sentinel_password=...
    redis+cluster://h1:6379,h2:6379    rediss+cluster://h1:6379

The sentinels are asked for each connection anew. So after a failover it is enough to close a connection: the next one
leads to the new primary. `user:password@` before the hosts is that of the primary, or of each node of a cluster.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from redis import connection as sync_connection
from redis import sentinel as sync_sentinel
from redis.asyncio import connection as async_connection
from redis.asyncio import sentinel as async_sentinel
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from clickcurve.buckets.errors import SettingInvalid

ADDRESS_RULE = (
    "redis://host:6379/0, rediss://host:6379/0, unix:///path?db=0, redis+sentinel://h1:26379,h2:26379/name/0 "
    "or redis+cluster://h1:6379,h2:6379"
)
REDIS_PORT = 6_379
SENTINEL_PORT = 26_379

# The library's functions have no types.
_THREADS: Any = sync_connection
_LOOPS: Any = async_connection
_ASK: Any = sync_sentinel.Sentinel
_AWAIT: Any = async_sentinel.Sentinel

_SENTINELS = re.compile(
    r"redis\+sentinel://((?:[^/@]*@)?)([^/@?]+)/([A-Za-z0-9_.-]+)(?:/([0-9]+))?((?:\?.*)?)", re.ASCII
)
_CLUSTER = re.compile(r"(rediss?)\+cluster://((?:[^/@]*@)?)([^/@?]+)/?((?:\?.*)?)", re.ASCII)
_SENTINEL = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]\s]+)(?::([0-9]{1,5}))?", re.ASCII)


class TlsConnection(async_connection.SSLConnection):
    """An event loop's connection over TLS; given up while it is made, it ends at once.

    The library connects and shakes hands in one call. Given up, that one closes politely: it waits for the server's
    answer, and where none comes the socket outlives the event loop.
    """

    async def _connect(self) -> None:
        async with asyncio.timeout(self.socket_connect_timeout):
            await super()._connect()  # type: ignore[no-untyped-call]
            writer = self._writer
            assert writer is not None  # it is connected
            try:
                await writer.start_tls(self.ssl_context.get(), server_hostname=self.host)
            except BaseException:
                writer.transport.abort()
                self._reader = self._writer = None
                raise

    def _connection_arguments(self) -> Mapping[str, Any]:
        arguments = super()._connection_arguments()
        return {name: value for name, value in arguments.items() if name != "ssl"}


class ClusterAddress:
    """The address of a Redis Cluster by some of its nodes. SettingInvalid if the text is none.

    nodes: `host:port` of each.
    """

    def __init__(self, url: str) -> None:
        match = _CLUSTER.fullmatch(url)
        if match is None:
            raise _not_an_address("")
        self._before, self._after = f"{match[1]}://{match[2]}", match[4]
        self.nodes = [join_address(*_host_and_port(each.strip(), REDIS_PORT)) for each in match[3].split(",")]

    def url_of(self, node: str) -> str:
        """Returns the address of one node as of a single server."""
        return f"{self._before}{node}/0{self._after}"


def is_cluster(url: str) -> bool:
    return url.startswith(("redis+cluster:", "rediss+cluster:"))


def join_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class RedisAddress:
    """Makes connections to one server, or to the primary that its sentinels name.

    timeout_s: to connect, and for an answer. discover_s: shared by the sentinels, of which each is asked until one
    knows the primary; so one that hangs does not use up all of the time. SettingInvalid if the text is no address.
    """

    def __init__(self, url: str, timeout_s: float | None, discover_s: float) -> None:
        self._timeout_s = timeout_s
        self._sentinels: list[tuple[str, int]] = []
        self._name = ""
        self._url = self._without_sentinels(url)
        try:
            self._settings(_THREADS)
            self._settings(_LOOPS)
        except (ValueError, TypeError) as error:
            # Only a wrong parameter is named: other errors may hold a part of a password.
            raise _not_an_address(f": {error}" if isinstance(error, TypeError) else "") from None
        if self._sentinels:
            each_s = discover_s / len(self._sentinels)
            options = {"socket_timeout": each_s, "socket_connect_timeout": each_s, **self._sentinel_login()}
            self._blocking = _ASK(self._sentinels, sentinel_kwargs={**options, "retry": Retry(NoBackoff(), 0)})
            self._awaited = _AWAIT(self._sentinels, sentinel_kwargs={**options, "retry": AsyncRetry(NoBackoff(), 0)})

    def connection(self) -> Any:
        """Makes a connection for threads; it is not connected yet."""
        kind, settings = self._settings(_THREADS)
        if self._sentinels:
            try:
                host, port = self._blocking.discover_master(self._name)
            finally:
                for sentinel in self._blocking.sentinels:
                    sentinel.connection_pool.disconnect(inuse_connections=False)
            settings |= {"host": host, "port": port}
        return kind(**{**settings, "socket_timeout": self._timeout_s})

    async def awaited_connection(self) -> Any:
        """Makes a connection for an event loop; it is not connected yet."""
        kind, settings = self._settings(_LOOPS)
        if self._sentinels:
            try:
                host, port = await self._awaited.discover_master(self._name)
            finally:
                for sentinel in self._awaited.sentinels:
                    await sentinel.connection_pool.disconnect(inuse_connections=False)
            settings |= {"host": host, "port": port}
        return kind(**{**settings, "socket_timeout": None})

    def _settings(self, library: Any) -> tuple[Any, dict[str, Any]]:
        """Returns the class of connection and its arguments, by the library's form for threads or for event loops."""
        settings: dict[str, Any] = {"socket_connect_timeout": self._timeout_s, **library.parse_url(self._url)}
        kind = settings.pop("connection_class", library.Connection)
        kind = TlsConnection if kind is async_connection.SSLConnection else kind
        if self._sentinels:
            settings = {name: value for name, value in settings.items() if not name.startswith("sentinel_")}
        kind(**settings)
        return kind, settings

    def _sentinel_login(self) -> Mapping[str, Any]:
        given = _THREADS.parse_url(self._url)
        names = {"username": "sentinel_username", "password": "sentinel_password"}
        return {name: given[long] for name, long in names.items() if long in given}

    def _without_sentinels(self, url: str) -> str:
        """Notes the sentinels and the primary's name; returns the rest as the address of one server."""
        if not url.startswith("redis+sentinel:"):
            return url
        match = _SENTINELS.fullmatch(url)
        if match is None:
            raise _not_an_address("")
        self._sentinels = [_host_and_port(each.strip(), SENTINEL_PORT) for each in match[2].split(",")]
        self._name = match[3]
        return f"redis://{match[1]}primary/{match[4] or 0}{match[5]}"


def _host_and_port(text: str, default_port: int) -> tuple[str, int]:
    match = _SENTINEL.fullmatch(text)
    port = int(match[2] or default_port) if match else 0
    if match is None or not 0 < port < 65_536:
        raise _not_an_address("")
    return match[1].strip("[]"), port


def _not_an_address(why: str) -> SettingInvalid:
    return SettingInvalid(f"this is not an address of a Redis{why}", field="limits_redis", rule=ADDRESS_RULE)
