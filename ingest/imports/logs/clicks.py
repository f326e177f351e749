"""One click, two lines: the redirect from http to https, and then the link's own."""

from __future__ import annotations

from ingest.imports.logs.logged_request import LoggedRequest

TO_HTTPS = "redirect to https"
SECOND_LINE = "second line of a click"


class Clicks:
    """Tells which lines are left out so that a click counts once.

    Where a log names schemes, lines of http are. Else the second of two lines of one client, agent and path within a
    second is; a third one is another click.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forgets the lines before."""
        self._second = 0
        self._now: set[tuple[str, str, str]] = set()
        self._before: set[tuple[str, str, str]] = set()

    def left_out(self, request: LoggedRequest) -> str:
        """Returns why a line is left out; "" if it counts. Lines are asked for in their order."""
        if request.scheme:
            return TO_HTTPS if request.scheme == "http" else ""
        if request.second > self._second:
            self._before = self._now if request.second == self._second + 1 else set()
            self._now = set()
            self._second = request.second
        elif request.second < self._second - 1:
            return ""  # a line out of its order
        click = request.client, request.agent, request.target
        for seen in (self._now, self._before):
            if click in seen:
                seen.remove(click)
                return SECOND_LINE
        self._now.add(click)
        return ""
