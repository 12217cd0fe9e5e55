"""URLs as they may be shown."""

from urllib.parse import urlsplit, urlunsplit


def without_secrets(url: str) -> str:
    """`url` without user, password, query and fragment, each of which can be a credential."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
