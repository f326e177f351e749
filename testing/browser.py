"""A headless Chromium, driven by its DevTools protocol over two pipes, so that no driver and no port is needed."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from select import select
from time import monotonic
from types import TracebackType
from typing import Any, Self

CHROMIUM = "chromium"
# The protocol's pipes are descriptors 3 and 4 of the browser. They come by way of others: they may be those, crosswise.
_PLACED = (
    "import fcntl, os, sys; one, two = (fcntl.fcntl(int(n), fcntl.F_DUPFD, 10) for n in sys.argv[1:3]);"
    " os.dup2(one, 3); os.dup2(two, 4); os.execvp(sys.argv[3], sys.argv[3:])"
)
_ANSWER_S = 30.0
_TRIES = 6_000
# Nothing is looked up or fetched by the browser itself: the machine may have no network.
_FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--lang=en-US",
    "--remote-debugging-pipe",
]


class BrowserFailed(AssertionError):
    """The browser refused a command, ended, or did not answer."""


class Browser:
    """One process. Pages are `page()` blocks, each with cookies of its own."""

    def __init__(self) -> None:
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_child, self._to = os.pipe()
        self._from, from_child = os.pipe()
        flags = [*_FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"]
        command = [sys.executable, "-c", _PLACED, str(to_child), str(from_child), CHROMIUM, *flags]
        self._process = subprocess.Popen(
            command, pass_fds=(to_child, from_child), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_child)
        os.close(from_child)
        self._number = 0
        self._buffer = b""
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Sends a command and waits for its answer; events that come meanwhile are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        until = monotonic() + _ANSWER_S
        while True:
            found = self._next(until, method)
            if found.get("id") == self._number:
                if "error" in found:
                    raise BrowserFailed(f"{method}: {found['error']}")
                answer: dict[str, Any] = found["result"]
                return answer
            if "method" in found:
                self.events.append(found)

    def wait_for(self, method: str, session: str, many: int) -> None:
        """Waits until a page had so many events of a kind, and keeps all that come meanwhile."""
        until = monotonic() + _ANSWER_S
        while len(self.events_of(method, session)) < many:
            self.events.append(self._next(until, method))

    def events_of(self, method: str, session: str) -> list[dict[str, Any]]:
        """Returns the parameters of the events of a page, of one kind, so far."""
        events = (each for each in self.events if each.get("method") == method and each.get("sessionId") == session)
        return [each["params"] for each in events]

    def _next(self, until: float, awaited: str) -> dict[str, Any]:
        """Returns what the browser says next. It may go on to say other things, so what counts is a moment."""
        while b"\0" not in self._buffer:
            if not select([self._from], [], [], max(0.0, until - monotonic()))[0]:
                raise BrowserFailed(f"no {awaited} from the browser within {_ANSWER_S} s")
            piece = os.read(self._from, 1 << 20)
            if not piece:
                raise BrowserFailed("the browser has ended")
            self._buffer += piece
        text, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(text)
        return answer

    @contextmanager
    def page(self, width: int = 1200, height: int = 900, scripts: bool = True, dark: bool = False) -> Iterator[Page]:
        """Opens a page of its own context. scripts: whether JavaScript runs; dark: what the reader prefers."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.call(f"{domain}.enable")
        page.resize(width, height)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        page.call("Emulation.setEmulatedMedia", features=features)
        if not scripts:
            page.call("Emulation.setScriptExecutionDisabled", value=True)
        try:
            yield page
        finally:
            self.call("Target.disposeBrowserContext", browserContextId=context)

    def close(self) -> None:
        os.close(self._to)  # the browser ends when its pipe does
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._from)
        self._profile.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Page:
    """One page of a browser."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **parameters)

    def events(self, method: str) -> list[dict[str, Any]]:
        """The parameters of the events of this page, of one kind, so far."""
        return self._browser.events_of(method, self._session)

    def resize(self, width: int, height: int) -> None:
        """Gives the page a screen of this size; below 600 pixels it is a phone's."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def open(self, url: str) -> None:
        """Goes to an address and waits until it is loaded."""
        loaded = len(self.events("Page.loadEventFired"))
        error = self.call("Page.navigate", url=url).get("errorText")
        if error:
            raise BrowserFailed(f"{url}: {error}")
        self._browser.wait_for("Page.loadEventFired", self._session, loaded + 1)

    def js(self, expression: str) -> Any:
        """The value of an expression, awaited, in the page; also where the page's own scripts do not run."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise BrowserFailed(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def until(self, expression: str) -> None:
        """Waits until an expression is true in the page, also after it has gone elsewhere."""
        for _ in range(_TRIES):
            try:
                if self.js(f"Boolean({expression})"):
                    return
                self.js("new Promise((done) => setTimeout(done, 25))")
            except BrowserFailed as error:  # the page is just being exchanged
                if "context" not in str(error) and "navigated" not in str(error):
                    raise
        raise BrowserFailed(f"in vain: {expression}\n{self.text()}")

    def text(self) -> str:
        """What a reader sees."""
        return str(self.js("document.body.innerText"))

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            text = (
                {"text": "\r" if key == "Enter" else key}
                if kind == "keyDown" and (len(key) == 1 or key == "Enter")
                else {}
            )
            code = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39, "Tab": 9}.get(key, ord(key[0]))
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **text)

    def type_text(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def mouse(self, kind: str, x: float, y: float) -> None:
        """Moves (`mouseMoved`), presses (`mousePressed`) or releases (`mouseReleased`) the left button."""
        button: Mapping[str, Any] = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    def box(self, selector: str) -> tuple[float, float, float, float]:
        """Left, top, width and height of the first element, in view."""
        found = self.js(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center'});"
            " const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()"
        )
        return found[0], found[1], found[2], found[3]

    def click(self, selector: str) -> None:
        left, top, width, height = self.box(selector)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.mouse(kind, left + width / 2, top + height / 2)

    def shot(self, file: Path, whole: bool = True) -> None:
        """Writes a picture of the whole page, or of what the screen shows of it."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(found["data"]))

    def faults(self) -> list[str]:
        """What the browser complained of: errors of scripts, and of the page's policy."""
        logged = [each["entry"]["text"] for each in self.events("Log.entryAdded") if each["entry"]["level"] == "error"]
        thrown = [str(each["exceptionDetails"]) for each in self.events("Runtime.exceptionThrown")]
        return logged + thrown

    def requested(self) -> list[str]:
        """The addresses that the page asked for."""
        return [each["request"]["url"] for each in self.events("Network.requestWillBeSent")]
