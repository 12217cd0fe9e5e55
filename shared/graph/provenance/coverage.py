"""What a retraction covers: a page, in all spellings of its address, or a site with its subdomains. Pure."""

from typing import Final

from shared.domains import host_of
from shared.urls import page_key

_ANY_PAGE: Final = "*."
"""Begins what covers a site; no address begins so."""
SITE_PATTERN: Final = r"^\*\.(.+)$"
"""The domain, as a regular expression of PostgreSQL."""


def of_site(domain: str) -> str:
    """Covers every page of the domain and its subdomains. `domain` is normalized."""
    return f"{_ANY_PAGE}{domain}"


def covering(url: str) -> list[str]:
    """All that covers the page at `url`: its own address first, then its sites."""
    labels = host_of(url).split(".")
    sites = [of_site(".".join(labels[place:])) for place in range(len(labels)) if labels[place]]
    return [page_key(url), *sites]


def site_covered(covers: str) -> str | None:
    """The domain, if a site is covered; None for a page."""
    return covers.removeprefix(_ANY_PAGE) if covers.startswith(_ANY_PAGE) else None
