"""Signatures of Standard Webhooks (v1): by them the receiver knows that a message is Vigil's, whole, and of now."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Final

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
