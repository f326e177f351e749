"""How many bytes the in-process backend may keep."""

from __future__ import annotations


class MemoryBudget:
    """Bytes that are taken and given back, under the backend's lock. denied: how often too few were left."""

    __slots__ = ("denied", "max_bytes", "used_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0
        self.denied = 0

    def has(self, size_bytes: int) -> bool:
        return self.used_bytes + size_bytes <= self.max_bytes

    def take(self, size_bytes: int) -> bool:
        """Takes so many bytes; returns False, and takes none, if fewer are left."""
        used_bytes = self.used_bytes + size_bytes
        if used_bytes > self.max_bytes:
            self.denied += 1
            return False
        self.used_bytes = used_bytes
        return True

    def add(self, size_bytes: int) -> None:
        """Takes bytes that are needed in any case, even beyond the maximum."""
        self.used_bytes += size_bytes

    def give(self, size_bytes: int) -> None:
        self.used_bytes -= size_bytes
