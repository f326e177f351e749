"""Mail by SMTP: STARTTLS where the server offers it, TLS from the start with `smtps://`, a password only over TLS."""

from __future__ import annotations

import asyncio
import smtplib
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import formatdate
from threading import Thread
from urllib.parse import unquote, urlsplit

from server.alerts.webhook import NotDelivered
from server.settings.values import is_loopback

EXCHANGE_S = 60.0  # for a whole mail
STEP_S = 20.0  # for one answer of the mail server


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail to send. id: its Message-ID begins with it, and stays the same when it is sent again."""

    id: str
    to: tuple[str, ...]
    subject: str
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class MailServer:
    """Where mail goes: `smtp://clickcurve@host:587` or `smtps://host`, and what stands in `From`."""

    address: str
    sender: str
    password: str = field(default="", repr=False)

    async def send(self, mail: Mail) -> None:
        """Sends a mail; raises NotDelivered."""
        try:
            async with asyncio.timeout(EXCHANGE_S):
                await _in_own_thread(lambda: self._send(mail))
        except TimeoutError:
            raise NotDelivered(f"the mail server: not done within {EXCHANGE_S:g} s", field="smtp") from None

    def _send(self, mail: Mail) -> None:
        if not self.address:
            raise NotDelivered("the setting smtp names no server", field="smtp")
        try:
            with self._connected() as server:
                refused = server.send_message(self._written(mail))
        except (OSError, smtplib.SMTPException, ValueError) as error:
            raise NotDelivered(f"the mail server: {error or type(error).__name__}", field="smtp") from error
        if refused:
            raise NotDelivered(f"refused for {', '.join(refused)}", field="mail")

    def _connected(self) -> smtplib.SMTP:
        parts = urlsplit(self.address)
        host, user = parts.hostname or "", unquote(parts.username or "")
        tls = ssl.create_default_context()
        server: smtplib.SMTP
        if parts.scheme == "smtps":
            server = smtplib.SMTP_SSL(host, parts.port or 465, timeout=STEP_S, context=tls)
        else:
            server = smtplib.SMTP(host, parts.port or 25, timeout=STEP_S)
        try:
            server.ehlo()
            secure = parts.scheme == "smtps"
            if not secure and server.has_extn("starttls"):
                server.starttls(context=tls)
                server.ehlo()
                secure = True
            if user:
                if not secure and not is_loopback(host):
                    raise smtplib.SMTPException("it offers no TLS, and a password is sent over TLS only")
                server.login(user, self.password)
        except BaseException:
            server.close()
            raise
        return server

    def _written(self, mail: Mail) -> EmailMessage:
        written = EmailMessage()
        written["From"] = self.sender
        written["To"] = ", ".join(mail.to)
        written["Subject"] = mail.subject
        written["Date"] = formatdate(mail.at)
        written["Message-ID"] = f"<{mail.id}@clickcurve>"
        written["Auto-Submitted"] = "auto-generated"
        written.set_content(mail.text)
        return written


async def _in_own_thread(work: Callable[[], None]) -> None:
    """Runs what blocks in a thread of its own: neither the store nor the end of the process waits for it."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle(error: Exception | None) -> None:
        if done.done():
            return  # nobody waits any more
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def run() -> None:
        error: Exception | None = None
        try:
            work()
        except Exception as raised:
            error = raised
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(settle, error)

    Thread(target=run, daemon=True, name="mail").start()
    await done
