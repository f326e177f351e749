"""Three nodes, each behind a proxy: drivers are told the proxies' addresses and never meet a node itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from testing.cassandra.ring import Ring, place_three, running
from tests.cassandra.proxy import Predicate, Proxy

ADDRESSES = ("127.0.1.1", "127.0.1.2", "127.0.1.3")


@dataclass(frozen=True, slots=True)
class Front:
    """The ring and the proxies before its nodes, in the same order. All listen on one port."""

    ring: Ring
    proxies: tuple[Proxy, ...]

    @property
    def addresses(self) -> list[str]:
        return [proxy.address for proxy in self.proxies]

    @property
    def port(self) -> int:
        return self.ring.port

    def drop(self, predicate: Predicate) -> None:
        """Drop at every node. The predicate is asked in three threads."""
        for proxy in self.proxies:
            proxy.drop(predicate)

    def reset(self, predicate: Predicate) -> None:
        """Reset at every node. The predicate is asked in three threads."""
        for proxy in self.proxies:
            proxy.reset(predicate)

    def total(self, of: Callable[[Proxy], int]) -> int:
        """A number of each proxy, added up, such as `lambda proxy: proxy.counts.dropped`."""
        return sum(map(of, self.proxies))

    def heal(self) -> None:
        """Afterwards nothing is lost any more and all nodes run."""
        for proxy in self.proxies:
            proxy.heal()
        self.ring.heal()
        for proxy in self.proxies:
            proxy.wait_listening()


@contextmanager
def fronted(folder: Path, clock_skew_s: Mapping[int, int] | None = None) -> Iterator[Front]:
    """Three nodes with their proxies, up; ended afterwards. `clock_skew_s`: how much the clock of which is ahead."""
    places = place_three(folder, announced=ADDRESSES, clock_skew_s=clock_skew_s)
    prepared: dict[bytes, str] = {}
    with running(places) as ring, ExitStack() as proxies:
        yield Front(
            ring,
            tuple(
                proxies.enter_context(Proxy((place.address, place.native_port), (address, place.native_port), prepared))
                for place, address in zip(places, ADDRESSES, strict=True)
            ),
        )
