"""URLs without credentials, for logs and error messages."""

from urllib.parse import urlsplit, urlunsplit


def strip_secrets(url: str) -> str:
    """`url` without user, password, query and fragment, which can hold credentials."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
