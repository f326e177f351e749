"""A store whose process is killed at one of its calls, or loses it half way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from clickcurve.buckets.errors import StoreUnavailable
from storage.contract import Store
from tests.simulated.threaded import without_quorum


class Failed(Exception):
    """What a kill looks like to the code around a call."""


@dataclass
class Faulty:
    """A store that fails at one call: before it, after it, or when one replica of three has what it writes."""

    store: Store
    at: int
    kind: str
    factory: object
    calls: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.store, name)
        if not callable(found) or name in ("ladder", "close"):
            return found

        def call(*given: Any, **named: Any) -> Any:
            self.calls.append(name)
            fails = len(self.calls) == self.at
            if fails and self.kind == "before":
                raise Failed(name)
            if fails and self.kind == "one replica" and name == "save_own":
                with pytest.raises(StoreUnavailable), without_quorum(self.factory):
                    found(*given, **named)
                raise Failed(name)
            answer = found(*given, **named)
            if fails:
                raise Failed(name)
            return answer

        return call
