"""Answers questions in front of the web framework, which would cost as much as the answer or more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clickcurve.answers.written import Tabular
from clickcurve.asgi import SAFE, Application, Receive, Scope, Send
from clickcurve.buckets.errors import MethodNotAllowed
from clickcurve.budget import budgeted
from query.http.content import Content, written
from query.http.questions import Asked, Questions

_VARYING = ((b"vary", b"accept"), *SAFE)


@dataclass(eq=False)
class QueryEndpoint:
    """Answers GET of the paths in the table of questions; other paths go to the application behind it.

    refuse turns an error into an application that answers it. Each request has a budget of its own, also those that go
    on; other methods of a path in the table are 405, but those that the application behind has for it. clock: in
    seconds that never step back.
    """

    questions: Questions
    refuse: Callable[[Exception], Application]
    following: Application
    clock: Callable[[], float]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers the request, or hands it on."""
        asked = self.questions.asked(scope) if scope["type"] == "http" else None
        with budgeted(self.clock):
            if asked is None or scope["method"] in asked.question.also:
                await self.following(scope, receive, send)
                return
            try:
                answer, content = await _answered(asked, scope)
            except Exception as error:
                await self.refuse(error)(scope, receive, send)
                return
        # Not as clickcurve.asgi.Answer, which costs more to make than to send.
        more = _VARYING if isinstance(answer, Tabular) else SAFE
        body = content.body
        headers = [(b"content-type", content.media.encode()), (b"content-length", b"%d" % len(body)), *more]
        if content.disposition:
            headers.append((b"content-disposition", content.disposition.encode()))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


async def _answered(asked: Asked, scope: Scope) -> tuple[object, Content]:
    if scope["method"] != "GET":
        raise MethodNotAllowed(
            f"{scope['method']} is not possible at {scope['path']}",
            rule=", ".join(("GET", "HEAD", *asked.question.also)),
        )
    query = scope["query_string"]
    answer = await asked.question.ask(asked.name, asked.dimension, query)
    return answer, written(answer, query, scope["headers"])
