"""Tokens, sessions and one-time secrets: made, shortened for display, and hashed."""

import re
from hashlib import sha256
from secrets import token_urlsafe
from typing import Final

SECRET_BYTES: Final = 32


TOKEN_PREFIX: Final = "vgl_"
"""By it people and scanners of leaked secrets know a token of Vigil."""


_RANDOM: Final = re.compile(r"[A-Za-z0-9_-]{43}")


def new_secret() -> str:
    """Of a link or a session."""
    return token_urlsafe(SECRET_BYTES)


def new_token() -> str:
    return f"{TOKEN_PREFIX}{new_secret()}"


def digest_of(secret: str) -> bytes:
    """What is kept of it."""
    return sha256(secret.encode()).digest()


def is_secret(text: str) -> bool:
    """Whether it is written as `new_secret` writes them; what is not need not be looked for."""
    return _RANDOM.fullmatch(text) is not None


def is_token(text: str) -> bool:
    return text.startswith(TOKEN_PREFIX) and is_secret(text.removeprefix(TOKEN_PREFIX))
