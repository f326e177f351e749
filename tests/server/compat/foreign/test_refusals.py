"""What a journal that takes nothing means at each door: the refusal of the write route, and nothing is counted."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from typing import Any

import pytest
from fastapi import FastAPI

from clickcurve.buckets.errors import JournalFull
from clickcurve.hosts import HOSTS_IGNORED
from server.compat.foreign.doors import DoorSettings, ForeignDoors
from server.compat.hit_sender import HitSender
from server.http.problems import Problems
from testing.asgi import ask_app
from tests.hostile.open_doors import OpenDoors
from tests.ingest.http_kit import Client
from tests.server.compat.foreign.test_products import (
    DUB_CLICK,
    GOATCOUNTER_VIEW,
    PLAUSIBLE_VIEW,
    POSTHOG_VIEW,
    SEGMENT_PAGE,
    UMAMI_VIEW,
)

SECRET = "whsec"
TIME = re.compile('"2026-[^"]*"')  # of the events, which are later than what is now in this process
SENT: dict[str, Any] = {
    "/matomo.php?url=https://s.test/abc": {},
    "/matomo.php": {"requests": ["?url=https://s.test/abc"]},
    "/api/send": UMAMI_VIEW,
    "/api/batch": [UMAMI_VIEW],
    "/api/event": PLAUSIBLE_VIEW,
    "/api/v0/count": {"hits": [GOATCOUNTER_VIEW]},
    "/i/v0/e/": POSTHOG_VIEW,
    "/batch/": {"batch": [POSTHOG_VIEW]},
    "/v1/from/segment/v1/page": SEGMENT_PAGE,
    "/v1/from/segment/v1/batch": {"batch": [SEGMENT_PAGE]},
    "/v1/from/dub": DUB_CLICK,
}


@pytest.mark.parametrize("path", SENT)
def test_a_full_journal_is_told_to_every_sender(path: str) -> None:
    client, app = Client(), FastAPI()
    Problems().install(app)
    ignored = client.routes.counters.ignored_events
    settings = DoorSettings(dub_secret=SECRET)
    app.include_router(ForeignDoors(HitSender(client.routes), HOSTS_IGNORED, OpenDoors(), ignored, settings).router())
    body = TIME.sub('"2020-01-01"', json.dumps(SENT[path])).encode() if SENT[path] else b""
    headers = {"Dub-Signature": hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()}
    client.intake.failure = JournalFull("the journal is full")
    answer = ask_app(app, "POST", path, content=body, headers=headers)
    assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
    assert client.intake.total == 0 and not ignored
    client.intake.failure = None
    assert ask_app(app, "POST", path, content=body, headers=headers).status_code < 300
    assert client.intake.total == 1
