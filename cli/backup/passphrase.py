"""age files that are encrypted with a passphrase, as streams (https://age-encryption.org/v1)."""

import hmac
import os
from base64 import b64decode, b64encode
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from cli.backup.archive import Sink, Source
from cli.backup.manifest import BadBackupError

CHUNK_BYTES: Final = 64 * 1024
TAG_BYTES: Final = 16
WORK_FACTOR: Final = 18
"""The logarithm of scrypt's N, as `age` chooses it: about a second, and 256 MB of memory."""
MAX_WORK_FACTOR: Final = 22

_VERSION: Final = b"age-encryption.org/v1\n"
_LABEL: Final = b"age-encryption.org/v1/scrypt"
_SALT_BYTES: Final = 16
_FILE_KEY_BYTES: Final = 16
_NONCE_BYTES: Final = 16
_NO_NONCE: Final = bytes(12)
"""Each key that wraps a file key is used once."""
_BLOCK_BYTES: Final = 8
_MAX_LINE_BYTES: Final = 200


class PassphraseWriter:
    """Encrypts what is written. `close` writes the last chunk."""

    def __init__(self, sink: Sink, passphrase: str, *, work_factor: int = WORK_FACTOR) -> None:
        self._sink = sink
        self._buffer = bytearray()
        file_key, salt = os.urandom(_FILE_KEY_BYTES), os.urandom(_SALT_BYTES)
        wrapping = ChaCha20Poly1305(_wrapping_key(passphrase, salt, work_factor))
        header = b"%b-> scrypt %b %d\n%b\n---" % (
            _VERSION,
            _encode(salt),
            work_factor,
            _encode(wrapping.encrypt(_NO_NONCE, file_key, None)),
        )
        nonce = os.urandom(_NONCE_BYTES)
        sink.write(b"%b %b\n%b" % (header, _encode(_mac(file_key, header)), nonce))
        self._chunks = _Chunks(file_key, nonce)

    def write(self, data: bytes, /) -> int:
        self._buffer += data
        # The last chunk is marked and must not be empty, so a full one waits for more.
        while len(self._buffer) > CHUNK_BYTES:
            self._sink.write(self._chunks.seal(bytes(self._buffer[:CHUNK_BYTES]), is_last=False))
            del self._buffer[:CHUNK_BYTES]
        return len(data)

    def close(self) -> None:
        self._sink.write(self._chunks.seal(bytes(self._buffer), is_last=True))


class PassphraseReader:
    """Decrypts a file. Raises BadBackupError if the passphrase is wrong, or the file damaged or cut off."""

    def __init__(self, source: Source, passphrase: str) -> None:
        self._source = source
        self._buffer = bytearray()
        self._next = b""
        """Encrypted bytes after the current chunk."""
        file_key = self._read_header(passphrase)
        self._chunks = _Chunks(file_key, self._exactly(_NONCE_BYTES))
        self._next = source.read(CHUNK_BYTES + TAG_BYTES)

    def read(self, size: int, /) -> bytes:
        while len(self._buffer) < size and self._next:
            chunk, self._next = self._next, self._source.read(CHUNK_BYTES + TAG_BYTES)
            try:
                self._buffer += self._chunks.open(chunk, is_last=not self._next)
            except InvalidTag:
                raise _incomplete() from None
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def _read_header(self, passphrase: str) -> bytes:
        version, recipient, body, end = (self._line() for _ in range(4))
        try:
            salt, work_factor = _decode(recipient.split()[2]), int(recipient.split()[3])
            wrapped, mac = _decode(body.strip()), _decode(end.removeprefix(b"--- ").strip())
        except (ValueError, IndexError):
            raise _incomplete() from None
        if not 0 < work_factor <= MAX_WORK_FACTOR or len(salt) != _SALT_BYTES:
            raise _incomplete()
        try:
            wrapping = ChaCha20Poly1305(_wrapping_key(passphrase, salt, work_factor))
        except MemoryError:
            raise BadBackupError(
                f"its passphrase requires {128 * _BLOCK_BYTES << work_factor >> 20} MB of memory, which is not available"
            ) from None
        try:
            file_key = wrapping.decrypt(_NO_NONCE, wrapped, None)
        except InvalidTag:
            raise BadBackupError("the passphrase is wrong, or the file is damaged") from None
        if not hmac.compare_digest(mac, _mac(file_key, version + recipient + body + b"---")):
            raise _incomplete()
        return file_key

    def _line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            if len(line) > _MAX_LINE_BYTES:
                raise _incomplete()
            line += self._exactly(1)
        return line

    def _exactly(self, size: int) -> bytes:
        data = self._source.read(size)
        if len(data) != size:
            raise _incomplete()
        return data


class _Chunks:
    """Encrypts and decrypts the chunks of one file, in order."""

    def __init__(self, file_key: bytes, nonce: bytes) -> None:
        self._cipher = ChaCha20Poly1305(_derive(file_key, b"payload", nonce))
        self._number = 0

    def seal(self, chunk: bytes, *, is_last: bool) -> bytes:
        return self._cipher.encrypt(self._next_nonce(is_last), chunk, None)

    def open(self, chunk: bytes, *, is_last: bool) -> bytes:
        return self._cipher.decrypt(self._next_nonce(is_last), chunk, None)

    def _next_nonce(self, is_last: bool) -> bytes:
        nonce = self._number.to_bytes(11, "big") + bytes([is_last])
        self._number += 1
        return nonce


def _wrapping_key(passphrase: str, salt: bytes, work_factor: int) -> bytes:
    scrypt = Scrypt(salt=_LABEL + salt, length=32, n=1 << work_factor, r=_BLOCK_BYTES, p=1)
    return scrypt.derive(passphrase.encode())


def _derive(file_key: bytes, purpose: bytes, salt: bytes | None = None) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=salt, info=purpose).derive(file_key)


def _mac(file_key: bytes, header: bytes) -> bytes:
    return hmac.digest(_derive(file_key, b"header"), header, "sha256")


def _encode(data: bytes) -> bytes:
    return b64encode(data).rstrip(b"=")


def _decode(text: bytes) -> bytes:
    """Raises ValueError, also if the unused bits at the end are not zero."""
    data = b64decode(text + b"=" * (-len(text) % 4), validate=True)
    if _encode(data) != text:
        raise ValueError(f"{text!r} is not as base64 is written")
    return data


def _incomplete() -> BadBackupError:
    return BadBackupError("it is incomplete or damaged: it cannot be decrypted to its end")
