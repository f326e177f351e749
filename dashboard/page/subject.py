"""What a page is about: a link, a group, or all links together."""

from __future__ import annotations

from dataclasses import dataclass

from clickcurve.keys import ALL, Subject, group_subject, link_subject

LINK, GROUP = "link", "group"


@dataclass(frozen=True, slots=True)
class PageSubject:
    """kind is LINK or GROUP, or empty for all links."""

    kind: str
    asked: Subject

    @property
    def name(self) -> str:
        return self.asked.name or ""


ALL_LINKS = PageSubject("", ALL)


def link_or_group(kind: str, name: str) -> PageSubject:
    """Returns a link or a group by its name."""
    return PageSubject(kind, link_subject(name) if kind == LINK else group_subject(name))
