"""The totals that keys may have, when every hit of a key weighs a power of two of its own."""

from __future__ import annotations

from collections import defaultdict


class Auditor:
    """What every key's total may be."""

    def __init__(self) -> None:
        self.next_weight: defaultdict[str, int] = defaultdict(lambda: 1)
        self.sure: defaultdict[str, int] = defaultdict(int)
        self.maybe: defaultdict[str, int] = defaultdict(int)

    def weigh(self, key: str) -> int:
        weight = self.next_weight[key]
        self.next_weight[key] = weight * 2
        return weight

    def acknowledged(self, hits: dict[str, int]) -> None:
        for key, weight in hits.items():
            self.sure[key] |= weight
            self.maybe[key] &= ~weight

    def unknown(self, hits: dict[str, int]) -> None:
        for key, weight in hits.items():
            if not self.sure[key] & weight:
                self.maybe[key] |= weight

    def erased(self, key: str) -> None:
        self.sure[key] = self.maybe[key] = 0

    def check(self, key: str, total: int, what: str, *, lower: bool = True) -> None:
        extra = total & ~(self.sure[key] | self.maybe[key])
        missing = self.sure[key] & ~total
        assert not extra, f"{what}: {key} counts {bin(extra)} too much (total {bin(total)})"
        assert not lower or not missing, f"{what}: {key} lost {bin(missing)} (total {bin(total)})"
