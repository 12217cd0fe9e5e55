"""Keys that sign the journals of graphs."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat


def new_signing_key() -> bytes:
    """A private key in PEM."""
    private_key = Ed25519PrivateKey.generate()
    return private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
