"""Generates, hashes and recognizes the secrets of tokens, sessions and sign-in links."""

import re
from hashlib import sha256
from secrets import token_urlsafe
from typing import Final

SECRET_BYTES: Final = 32


TOKEN_PREFIX: Final = "vgl_"
"""Lets people and secret scanners recognize a token of Vigil."""


_RANDOM: Final = re.compile(r"[A-Za-z0-9_-]{43}")


def new_secret() -> str:
    """Generates the secret of a sign-in link or a session."""
    return token_urlsafe(SECRET_BYTES)


def new_token() -> str:
    return f"{TOKEN_PREFIX}{new_secret()}"


def hash_secret(secret: str) -> bytes:
    """Returns the SHA-256 digest, the only form that is stored."""
    return sha256(secret.encode()).digest()


def is_secret(text: str) -> bool:
    """Whether `text` has the format of `new_secret`. Other text needs no lookup."""
    return _RANDOM.fullmatch(text) is not None


def is_token(text: str) -> bool:
    return text.startswith(TOKEN_PREFIX) and is_secret(text.removeprefix(TOKEN_PREFIX))
