"""Which section of the manual explains what a page shows: by the names that templates and cards have for it."""

from __future__ import annotations

from collections.abc import Mapping

# A page of the manual, and an anchor in it.
SECTIONS: Mapping[str, str] = {
    "bots": "bots#people-and-bots",
    "bot_kinds": "bots#what-answers-say",
    "bounds": "bounds#what-a-bound-means",
    "changed": "page#what-changed",
    "compared": "page#the-period-before",
    "events": "page#events",
    "hours": "page#hours-of-the-week",
    "limits": "limiter#rules",
    "notes": "http-api#notes",
    "sharing": "page#sharing",
    "signing_in": "page#signing-in",
    "visitors": "page#daily-visitors",
}
