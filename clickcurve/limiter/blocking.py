"""Coroutines that never suspend, run to their end in the thread that calls: so what is awaited is written once."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")
Awaited = TypeVar("Awaited", covariant=True)


class Blocks(Protocol[Awaited]):
    """What has a form for threads: `_awaited` is the form that is awaited, over parts that block."""

    @property
    def _awaited(self) -> Awaited: ...


def blocking(
    verb: Callable[Concatenate[Any, Parameters], Coroutine[Any, Any, Answer]],
) -> Callable[Concatenate[Any, Parameters], Answer]:
    """Makes the method for threads of one that is awaited.

    What it awaits blocks the thread and never suspends, so the coroutine ends with its first step and needs no event
    loop.
    """

    @wraps(verb)
    def run(self: Blocks[Any], /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Answer:
        coroutine = verb(self._awaited, *args, **kwargs)
        try:
            coroutine.send(None)
        except StopIteration as ended:
            answer: Answer = ended.value
            return answer
        coroutine.close()
        raise RuntimeError(f"{verb.__name__} waited for something that does not block")

    return run
