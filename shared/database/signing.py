"""Signatures of a graph's journal by Ed25519 (RFC 8032)."""

import struct
from pathlib import Path
from typing import Final
from uuid import UUID

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from shared.errors import PermanentError

_PURPOSE: Final = b"vigil graph journal 1\0"
"""Keeps a signature from being valid for anything else."""


class JournalSigner:
    """Signs entries with one private key."""

    def __init__(self, private_key: Ed25519PrivateKey) -> None:
        self._private_key = private_key

    @classmethod
    def load(cls, path: Path) -> "JournalSigner":
        """From a file in PEM, as `openssl genpkey -algorithm ed25519` writes it. Raises PermanentError."""
        try:
            private_key = load_pem_private_key(path.read_bytes(), password=None)
        except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise PermanentError(
                "signing_key", f"the signing key {path} cannot be read: {error}"
            ) from error
        if not isinstance(private_key, Ed25519PrivateKey):
            raise PermanentError(
                "signing_key",
                f"the signing key {path} is not an Ed25519 key: create one with"
                " `openssl genpkey -algorithm ed25519`",
            )
        return cls(private_key)

    def sign(self, agent_id: UUID, seq: int, entry_hash: bytes) -> bytes:
        """64 bytes."""
        return self._private_key.sign(_message(agent_id, seq, entry_hash))

    def is_signed(self, signature: bytes, agent_id: UUID, seq: int, entry_hash: bytes) -> bool:
        """Whether `signature` is that of the entry, by this key."""
        try:
            self._private_key.public_key().verify(signature, _message(agent_id, seq, entry_hash))
        except InvalidSignature:
            return False
        return True


def _message(agent_id: UUID, seq: int, entry_hash: bytes) -> bytes:
    return _PURPOSE + agent_id.bytes + struct.pack(">q", seq) + entry_hash
