"""URLs in texts, without credentials for logs and error messages, and in one spelling to recognize a page."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit, urlunsplit

_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}
_URL: Final = re.compile(r"https?://[^\s<>\"]+", re.IGNORECASE)
_PUNCTUATION: Final = ".,;:!?'*`"
_BRACKETS: Final = {")": "(", "]": "["}
_TRACKING: Final = re.compile(
    r"(?:utm_\w+|(?:g|d|fb|y|tw|tt)clid|msclkid|gbraid|wbraid|mc_[ce]id|igshid|mkt_tok)(?:=.*)?",
    re.IGNORECASE,
)
"""Parts of a query that say where a reader came from; the page is the same without them."""


def urls_in(text: str) -> list[str]:
    """The addresses that `text` names, each once, without the punctuation after them."""
    return list(dict.fromkeys(map(_without_punctuation, _URL.findall(text))))


def with_known_urls(text: str, known: Mapping[str, str] = MappingProxyType({})) -> str:
    """`text` without addresses, except those that `known` has by `page_key`, in the spelling that it has."""
    for url in sorted(urls_in(text), key=len, reverse=True):
        text = text.replace(url, known.get(page_key(url), ""))
    return text


def _without_punctuation(url: str) -> str:
    """A closing bracket belongs to an address that has the opening one."""
    while url[-1] in _PUNCTUATION or (
        url[-1] in _BRACKETS and url.count(url[-1]) > url.count(_BRACKETS[url[-1]])
    ):
        url = url[:-1]
    return url


def strip_secrets(url: str) -> str:
    """`url` without user, password, query and fragment, which can hold credentials."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def normalize_url(url: str) -> str:
    """`url` without fragment, tracking parameters and trailing slash, its host in lower case; unchanged if it cannot be
    parsed.
    """
    try:
        scheme, host, path, query, _ = urlsplit(url.strip())
    except ValueError:
        return url
    parts = [part for part in query.split("&") if not _TRACKING.fullmatch(part)]
    return urlunsplit((scheme.lower(), host.lower(), path.rstrip("/"), "&".join(parts), ""))


def page_key(url: str) -> str:
    """A key that all spellings of a page's address share: `normalize_url` without scheme and default port."""
    scheme, _, rest = normalize_url(url).partition("://")
    host, slash, path = rest.partition("/")
    return f"{host.removesuffix(_DEFAULT_PORTS.get(scheme, ''))}{slash}{path}" if rest else url
