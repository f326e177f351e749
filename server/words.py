"""What the server reads of the words of hits, as the settings have it."""

from __future__ import annotations

from ingest.reading.bots import bot_namer
from ingest.words.country import country_reader
from ingest.words.profile import NO_DIMENSIONS, ProfileReader
from ingest.words.referrer import own_hosts_of
from server.settings import Settings


def profile_reader(settings: Settings) -> ProfileReader:
    """Returns what reads profiles by these settings. Raises SettingInvalid for a file that cannot be read."""
    if not settings.breakdown_dimensions:
        return NO_DIMENSIONS
    return ProfileReader(
        settings.breakdown_dimensions,
        country_reader(settings.breakdown_country_data),
        own_hosts_of(settings.breakdown_own_hosts),
        bot_namer(),
    )
