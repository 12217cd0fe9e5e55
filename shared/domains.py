"""Domain names: normalizes those that an agent's owner prefers or bars, and says which pages are of them. Pure.

A domain covers its subdomains. A site is a registrable domain of the Public Suffix List: pages of one owner count once,
however many there are.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final
from unicodedata import normalize
from urllib.parse import unquote, urlsplit

import idna
from publicsuffixlist import PublicSuffixList

MAX_DOMAINS: Final = 50
"""Of each list of an agent; Tavily takes 150."""
MAX_DOMAIN_CHARS: Final = 253
_CACHED_URLS: Final = 4096
_NO_DOMAIN_CHARS: Final = re.compile(r"[\s/\\:@?#*%,]")
_HTTP_PREFIX: Final = re.compile(r"(?:https?:)?/*", re.IGNORECASE)
_DOTS: Final = re.compile("[.\u3002\uff0e\uff61]")
_END_OF_AUTHORITY: Final = re.compile("[/?#]")
_OTHER_SCHEME: Final = re.compile(r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]*+://", re.IGNORECASE)


def normalize_domain(text: str) -> str:
    """The domain in lower case and as ASCII (IDNA). Raises ValueError if it is none, or anyone can have a name below it."""
    written = text.strip()
    if not written or _NO_DOMAIN_CHARS.search(written):
        raise ValueError(
            f"{written!r} is not a domain: write only its name, as in reuters.com, without https://, path, port or *. It"
            " covers its subdomains"
        )
    try:
        domain = idna.encode(written, uts46=True).decode().removesuffix(".")
    except idna.IDNAError as error:
        raise ValueError(f"{written!r} is not a domain: {error}") from error
    if domain.rpartition(".")[2].isdigit():
        raise ValueError(
            f"{written!r} is an IP address: write the name of a domain, as in reuters.com"
        )
    if _suffixes().privatesuffix(domain) is None:
        raise ValueError(
            f"{written!r} is a public suffix, which covers the sites of many owners: write the domain of one site, as in"
            " reuters.com"
        )
    return domain


def without_duplicates(domains: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(domains))


@lru_cache(maxsize=_CACHED_URLS)
def host_of(url: str) -> str:
    """The host of a web page in lower case and as ASCII; "" if the URL has none.

    All that browsers read as the same host is the same: escapes, backslashes, other Unicode forms, a missing scheme.
    """
    text = url.strip().replace("\\", "/")
    rest = _HTTP_PREFIX.sub("", text, count=1)
    if _OTHER_SCHEME.match(rest):
        return ""
    authority = _END_OF_AUTHORITY.split(rest, maxsplit=1)[0].rpartition("@")[2]
    try:
        host = unquote(urlsplit(f"//{authority}").hostname or "")
    except ValueError:
        return ""
    labels = _DOTS.split(normalize("NFKC", host))
    return ".".join(map(_ascii_label, labels)).rstrip(".")


def _ascii_label(label: str) -> str:
    """A label that IDNA does not allow stays as it is: there are hosts such as "a_b.example"."""
    if not label.isascii():
        with suppress(idna.IDNAError):
            return idna.encode(label, uts46=True).decode()
    return label.lower()


def site_of(url: str) -> str:
    """The site of a page; its host, if that is a name without a public suffix or an address.

    Hosts below a suffix that a company rents out, such as "github.io", are one site: anyone can have several of them.
    """
    host = host_of(url)
    if not host:
        return url
    if host.replace(".", "").isdigit() or ":" in host:
        return host
    return _suffixes().privatesuffix(host) or host


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList(only_icann=True)


def covering_domain(host: str, domains: Iterable[str]) -> str | None:
    """The first of the domains that is `host` or above it."""
    return next((each for each in domains if host == each or host.endswith(f".{each}")), None)


@dataclass(frozen=True)
class DomainPreferences:
    """The domains that an agent's owner prefers, and those that the owner bars. All are normalized."""

    preferred: Sequence[str] = ()
    barred: Sequence[str] = ()

    def contradiction(self) -> str | None:
        """Why the two lists contradict each other; None if they do not. Below a preferred domain others can be barred."""
        for domain in self.preferred:
            if (barred := covering_domain(domain, self.barred)) is not None:
                return (
                    f"{domain} is preferred, and {barred} is barred, which covers it: remove one of them from its list."
                    if barred != domain
                    else f"{domain} is both preferred and barred: remove it from one of the lists."
                )
        return None

    def barring(self, url: str) -> str | None:
        """The barred domain that the page is of; None if it is of none."""
        return covering_domain(host_of(url), self.barred)

    def select(self, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The results that are not barred, preferred ones first, otherwise in their order. A result has a `url`."""
        allowed = [each for each in results if self.barring(str(each.get("url", ""))) is None]
        return sorted(allowed, key=lambda each: not self._is_preferred(str(each.get("url", ""))))

    def allowed_sites(self, urls: Iterable[str]) -> frozenset[str]:
        """The sites of the pages that are not barred."""
        return frozenset(site_of(url) for url in urls if self.barring(url) is None)

    def _is_preferred(self, url: str) -> bool:
        return covering_domain(host_of(url), self.preferred) is not None
