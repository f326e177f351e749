"""Faults that are planted into a module, so that its laws must find them."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType


def planted(module: ModuleType, right: str, wrong: str) -> ModuleType:
    """Returns the module as it would be with other source in one place."""
    source = inspect.getsource(module)
    assert source.count(right) == 1
    name = f"planted_{module.__name__.rpartition('.')[2]}"
    faulty = ModuleType(name)
    sys.modules[name] = faulty  # dataclasses look their module up
    try:
        exec(compile(source.replace(right, wrong), name, "exec"), faulty.__dict__)
    finally:
        del sys.modules[name]
    return faulty
