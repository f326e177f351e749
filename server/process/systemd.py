"""Tells systemd when the server is ready and when it stops: a unit of `Type=notify` waits for that.

systemd names a socket in NOTIFY_SOCKET and takes lines from the process that it started, which with several workers is
their parent. Without the variable nothing is sent.
"""

from __future__ import annotations

import os
import socket

from server.logs import log


def ready() -> None:
    """Says that the server listens, with all its workers; `systemctl status` shows the line."""
    _send("READY=1", "STATUS=listening")


def stopping() -> None:
    """Says that the stop has begun; it takes as long as the last flush."""
    _send("STOPPING=1", "STATUS=flushing before the end")


def _send(*lines: str) -> None:
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    # With @ in front it is a name in the kernel instead of a file, where it begins with a zero byte.
    address = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to_systemd:
            to_systemd.connect(address)
            to_systemd.sendall("\n".join(lines).encode())
    except OSError as error:
        # The server works without; systemd ends it after TimeoutStartSec and shows this line.
        log.error("systemd not reached", extra={"socket": address, "reason": str(error), "not_sent": lines[0]})
