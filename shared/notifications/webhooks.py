"""Webhooks: their URLs and signatures (Standard Webhooks)."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

import httpx

from shared.errors import PermanentError
from shared.notifications.addresses import parsed, refusal

SECRET_PREFIX: Final = "whsec_"
SECRET_BYTES: Final = 32
VERSION: Final = "v1"


def new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def signed(message_id: str, timestamp: int, body: bytes, keys: Sequence[str]) -> dict[str, str]:
    """The headers that `body` goes with, sent at `timestamp` (seconds since 1970); one signature by each key."""
    content = b".".join((message_id.encode(), str(timestamp).encode(), body))
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(_signature(content, key) for key in keys),
    }


def _signature(content: bytes, key: str) -> str:
    raw = base64.b64decode(key.removeprefix(SECRET_PREFIX))
    digest = hmac.new(raw, content, hashlib.sha256).digest()
    return f"{VERSION},{base64.b64encode(digest).decode()}"


LONGEST_CHARACTERS: Final = 2000


def checked(given: str, *, private: bool) -> str:
    """`given`, where a webhook can be sent there; PermanentError says what is wrong with it.

    Names are not looked up here: whom they mean is known, and checked, when something is sent.
    """
    url = given.strip()
    if len(url) > LONGEST_CHARACTERS or not url.isprintable() or not url.isascii() or " " in url:
        raise _unusable(f"has at most {LONGEST_CHARACTERS} ASCII characters and no spaces")
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
        httpx.URL(url)  # that it will be sent by, which takes less
    except (ValueError, httpx.InvalidURL) as error:
        raise _unusable(f"cannot be read: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise _unusable("begins with https:// or http:// and the receiver's name")
    if parts.username is not None or parts.password is not None:
        raise _unusable("holds no user and password: every delivery is signed instead")
    if parts.fragment:
        raise _unusable("has no fragment (#…): it would not be sent")
    _refuse_unreachable(host, private=private)
    return url


def _refuse_unreachable(host: str, *, private: bool) -> None:
    address = parsed(host)
    why = refusal(address, private=private) if address else None
    if why is None and not private and (host == "localhost" or host.endswith(".localhost")):
        why = "is this machine"
    if why is not None:
        raise _unusable(f"names no receiver that may be reached: {host} {why}")


def _unusable(why: str) -> PermanentError:
    return PermanentError("webhook_url", f"the address of a webhook {why}")
