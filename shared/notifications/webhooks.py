"""Webhooks: their URLs and signatures (Standard Webhooks)."""

import base64
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

import httpx
from standardwebhooks import Webhook

from shared.errors import PermanentError
from shared.fetch.addresses import parse, refusal

SECRET_PREFIX: Final = "whsec_"
SECRET_BYTES: Final = 32


def new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def signature_headers(
    message_id: str, timestamp: int, body: bytes, keys: Sequence[str]
) -> dict[str, str]:
    """The headers of a request with `body`, sent at `timestamp` (Unix seconds); one signature per key."""
    sent_at, text = datetime.fromtimestamp(timestamp, UTC), body.decode()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(Webhook(key).sign(message_id, sent_at, text) for key in keys),
    }


MAX_URL_CHARS: Final = 2000


def validate_url(text: str, *, private: bool) -> str:
    """`text`, stripped, if a webhook can be sent there. Raises PermanentError.

    Host names are not resolved here: their addresses are checked when something is sent.
    """
    url = text.strip()
    if len(url) > MAX_URL_CHARS or not url.isprintable() or not url.isascii() or " " in url:
        raise _invalid(f"must have at most {MAX_URL_CHARS} ASCII characters and no spaces")
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
        httpx.URL(url)  # the client is stricter than urlsplit
    except (ValueError, httpx.InvalidURL) as error:
        raise _invalid(f"cannot be read: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise _invalid("must begin with https:// or http:// and the receiver's name")
    if parts.username is not None or parts.password is not None:
        raise _invalid("must not contain a user name or password: every delivery is signed instead")
    if parts.fragment:
        raise _invalid("must not contain a fragment (#…): it would not be sent")
    _check_host(host, private=private)
    return url


def _check_host(host: str, *, private: bool) -> None:
    address = parse(host)
    why = refusal(address, private=private) if address else None
    if why is None and not private and (host == "localhost" or host.endswith(".localhost")):
        why = "points to this machine"
    if why is not None:
        raise _invalid(f"is not allowed: {host} {why}")


def _invalid(why: str) -> PermanentError:
    return PermanentError("webhook_url", f"the address of a webhook {why}")
