"""URLs in texts, and URLs without credentials for logs and error messages."""

import re
from typing import Final
from urllib.parse import urlsplit, urlunsplit

_URL: Final = re.compile(r"https?://[^\s<>\"]+")
_PUNCTUATION: Final = ".,;:!?)"


def urls_in(text: str) -> list[str]:
    """The addresses that `text` names, each once, without the punctuation after them."""
    return list(dict.fromkeys(url.rstrip(_PUNCTUATION) for url in _URL.findall(text)))


def strip_secrets(url: str) -> str:
    """`url` without user, password, query and fragment, which can hold credentials."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
