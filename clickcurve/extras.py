"""Optional libraries: which extra of the package brings each, and the sentence when one is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from clickcurve.buckets.errors import ExtraMissing

# The module that is imported -> the extra in pyproject.toml that installs it.
EXTRAS: Mapping[str, str] = {
    "cassandra": "cassandra",
    "redis": "redis",
    "PIL": "pictures",
    "zstandard": "zstd",
    "opentelemetry.proto": "otlp",
    "google": "otlp",
}


@contextmanager
def extra_for(purpose: str) -> Iterator[None]:
    """Raises ExtraMissing where an import in this block fails because an extra is not installed.

    purpose: what needs the library, as the subject of a sentence: "zstd".
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = f"{error.name}."  # the module, one in it, or the package around it
        near = (
            extra for name, extra in EXTRAS.items() if f"{name}.".startswith(missing) or missing.startswith(f"{name}.")
        )
        extra = next(near, None)
        if extra is None:
            raise
        raise ExtraMissing(f"{purpose} needs the extra {extra!r}: pip install 'clickcurve[{extra}]'") from error
