"""Files encrypted with a passphrase are those of age: pyrage reads and writes them too."""

import io
import os
from pathlib import Path

import pyrage
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from cli.backup.archive import Sink
from cli.backup.encryption import Encryption, Secrets, parse_recipient, read_passphrase
from cli.backup.manifest import BadBackupError
from cli.backup.passphrase import CHUNK_BYTES, PassphraseReader, PassphraseWriter
from cli.errors import BadInputError

PASSPHRASE = "pâté 1"
CHEAP = 10
"""A work factor for tests."""


def encrypt(content: bytes, *, pieces: int = 3) -> bytes:
    output = io.BytesIO()
    writer = PassphraseWriter(output, PASSPHRASE, work_factor=CHEAP)
    size = len(content) // pieces + 1
    for begin in range(0, len(content), size):
        writer.write(content[begin : begin + size])
    writer.close()
    return output.getvalue()


def decrypt(encrypted: bytes, *, size: int = 1000, passphrase: str = PASSPHRASE) -> bytes:
    reader = PassphraseReader(io.BytesIO(encrypted), passphrase)
    return b"".join(iter(lambda: reader.read(size), b""))


@pytest.mark.parametrize(
    "size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 2 * CHUNK_BYTES, 300_000]
)
def test_both_read_what_we_write(size: int) -> None:
    content = os.urandom(size)
    encrypted = encrypt(content)
    assert pyrage.passphrase.decrypt(encrypted, PASSPHRASE) == content
    assert decrypt(encrypted) == content
    assert decrypt(encrypted, size=10**6) == content


@pytest.mark.slow  # pyrage's work factor needs a gigabyte of memory
def test_we_read_what_pyrage_writes() -> None:
    content = os.urandom(CHUNK_BYTES + 5)
    assert decrypt(pyrage.passphrase.encrypt(content, PASSPHRASE)) == content


@pytest.mark.parametrize("first_bytes", [1, 10, 22, 30])
def test_a_pipe_may_begin_with_a_short_write(tmp_path: Path, first_bytes: int) -> None:
    content = os.urandom(1000)
    identity = pyrage.x25519.Identity.generate()
    key = tmp_path / "key"
    key.write_text(str(identity))
    of_recipient = pyrage.encrypt(content, [identity.to_public()])
    for encrypted, secrets in (
        (encrypt(content), Secrets(None, PASSPHRASE)),
        (of_recipient, Secrets(key, None)),
        (content, Secrets(None, None)),
    ):
        reading, writing = os.pipe()
        os.write(writing, encrypted[:first_bytes])
        with os.fdopen(reading, "rb") as pipe:
            assert len(pipe.peek(100)) == first_bytes
            os.write(writing, encrypted[first_bytes:])
            os.close(writing)
            with secrets.decrypting(pipe) as source:
                assert source.read(1000) + source.read(1) == content


def test_a_wrong_passphrase_is_refused() -> None:
    with pytest.raises(BadBackupError, match="the passphrase is wrong"):
        decrypt(encrypt(b"content"), passphrase="pate 1")


def test_every_changed_or_cut_file_is_refused() -> None:
    encrypted = encrypt(os.urandom(CHUNK_BYTES + 40))
    chunk = len(encrypted) - CHUNK_BYTES - 40 - 2 * 16
    places = [*range(chunk), chunk + 1, chunk + CHUNK_BYTES, len(encrypted) - 1]
    for place in places:
        changed = bytearray(encrypted)
        changed[place] ^= 1
        if changed[:40].startswith(b"age-encryption.org/v1\n-> scrypt "):
            with pytest.raises(BadBackupError):
                decrypt(bytes(changed))
    # Also at the end of a chunk: the next one is missing, or the last one is empty.
    for size in [*places, chunk + CHUNK_BYTES + 16]:
        with pytest.raises(BadBackupError):
            decrypt(encrypted[:size])


def test_a_file_that_would_need_too_much_memory_is_refused() -> None:
    encrypted = encrypt(b"content").replace(b" 10\n", b" 40\n", 1)
    with pytest.raises(BadBackupError, match="incomplete or damaged"):
        decrypt(encrypted)


def test_a_recipient_is_a_public_key_of_age_or_ssh() -> None:
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    output = io.BytesIO()
    with Encryption([public.decode()]).encrypting(output) as sink:
        sink.write(b"content")
    assert (
        pyrage.decrypt(output.getvalue(), [pyrage.ssh.Identity.from_buffer(secret)]) == b"content"
    )
    for text in ("age1x", "ssh-ed25519 x", ""):
        with pytest.raises(BadInputError, match="is not an age recipient"):
            parse_recipient(text)


def test_an_error_in_the_middle_ends_the_encryption() -> None:
    identity = pyrage.x25519.Identity.generate()
    encryption = Encryption([str(identity.to_public())])
    with pytest.raises(KeyError), encryption.encrypting(io.BytesIO()) as sink:
        write_and_fail(sink)
    with pytest.raises(OSError, match="full"), encryption.encrypting(_FullDisk()) as sink:
        sink.write(bytes(10**7))


def test_a_reader_may_stop_early(tmp_path: Path) -> None:
    identity = pyrage.x25519.Identity.generate()
    (tmp_path / "key").write_text(str(identity))
    output = io.BytesIO()
    with Encryption([str(identity.to_public())]).encrypting(output) as sink:
        sink.write(bytes(10**7))
    file = io.BufferedReader(io.BytesIO(output.getvalue()))
    with Secrets(tmp_path / "key").decrypting(file) as source:
        assert source.read(10) == bytes(10)


def test_a_passphrase_is_the_first_line_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "phrase"
    file.write_bytes(b"two words\r\nnot this\n")
    assert read_passphrase(file) == "two words"
    file.write_text("\n")
    with pytest.raises(BadInputError, match="no passphrase"):
        read_passphrase(file)


def write_and_fail(sink: Sink) -> None:
    sink.write(bytes(10**6))
    raise KeyError


class _FullDisk(io.BytesIO):
    def write(self, data: object, /) -> int:
        raise OSError("full")


def test_a_passphrase_that_needs_too_much_memory_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def derive(*_: object) -> bytes:
        raise MemoryError

    encrypted = encrypt(b"content")
    monkeypatch.setattr("cli.backup.passphrase._wrapping_key", derive)
    with pytest.raises(BadBackupError, match="requires 1 MB of memory"):
        decrypt(encrypted)
