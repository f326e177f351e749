"""Messages in the shapes that the incoming webhooks of chats take; what names hold is text there, never a command."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from server.settings.alerts import Shape

_DISCORD_CHARS = 2_000
_SLACK_CHARS = 4_000
_MARKUP = re.compile(r"([\\*_~`|>#\[\]()-])")  # of Discord
_SUPPRESS_EMBEDS = 4  # no previews of addresses in names


def chat_body(shape: Shape, text: str) -> bytes:
    """Returns the JSON of a message. Nobody is notified by what a name in it says, such as `@everyone`."""
    content = _slack(text) if shape is Shape.slack else _discord(text)
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def _slack(text: str) -> Mapping[str, object]:
    escaped = text[:_SLACK_CHARS].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": escaped, "mrkdwn": False}


def _discord(text: str) -> Mapping[str, object]:
    written = _MARKUP.sub(r"\\\1", text)
    if len(written) > _DISCORD_CHARS:
        written = written[: _DISCORD_CHARS - 1].rstrip("\\") + "…"
    return {"content": written, "allowed_mentions": {"parse": []}, "flags": _SUPPRESS_EMBEDS}
