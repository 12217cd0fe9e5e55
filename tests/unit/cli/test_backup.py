"""Backup files: their manifest, their encryption, and where they are written."""

import errno
import fcntl
import io
import json
import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

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
from cli.backup.manifest import BadBackupError, Manifest
from cli.backup.output import PARTIAL_SUFFIX, Pruned, file_name, open_output, prune
from cli.backup.passphrase import CHUNK_BYTES, PassphraseReader, PassphraseWriter
from cli.errors import BadInputError, CommandError
from cli.main import _print_error

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


GOOD: dict[str, Any] = json.loads(
    Manifest(
        vigil="0.4.0",
        revision="0021",
        postgres=18,
        taken_at=datetime(2026, 1, 1, tzinfo=UTC),
        installation="7",
        database_bytes=1,
        tables={"users": 1},
        signed_entries=0,
    ).render()
)


def test_it_reads_what_it_writes() -> None:
    assert json.loads(Manifest.parse(json.dumps(GOOD).encode()).render()) == GOOD


@pytest.mark.parametrize("text", ["\x1b[31m1.0", "1.0\nvigil: all is well", "1.0\x9b", "1" * 201])
@pytest.mark.parametrize("field", ["vigil", "revision", "installation", "tables"])
def test_it_contains_no_control_characters(field: str, text: str) -> None:
    value = {text: 1} if field == "tables" else text
    with pytest.raises(BadBackupError, match="not a backup of Vigil"):
        Manifest.parse(json.dumps(GOOD | {field: value}).encode())


def test_an_error_does_not_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    _print_error("pg_restore: table \x1b]0;x\x07\x9b1mörk\u00a0\n\tend")
    assert capsys.readouterr().err == "vigil: pg_restore: table ]0;x1mörk\u00a0\n\tend\n"


def write(file: Path, content: bytes = b"backup") -> None:
    with open_output(file) as opened:
        opened.write(content)


def partial_of(file: Path) -> Path:
    return file.with_name(file.name + PARTIAL_SUFFIX)


def test_what_a_killed_run_left_becomes_private(tmp_path: Path) -> None:
    file = tmp_path / "a.tar"
    partial_of(file).write_bytes(b"a longer beginning of another backup")
    partial_of(file).chmod(0o644)
    write(file)
    assert file.read_bytes() == b"backup"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    file, victim = tmp_path / "a.tar", tmp_path / "victim"
    victim.write_text("precious")
    for plant in (Path.symlink_to, Path.hardlink_to):
        plant(partial_of(file), victim)
        with pytest.raises(CommandError, match=r"a\.tar cannot be written"):
            write(file)
        assert victim.read_text() == "precious"
        assert not file.exists()
        partial_of(file).unlink()


def test_a_planted_pipe_does_not_hold_up_the_backup(tmp_path: Path) -> None:
    file = tmp_path / "a.tar"
    os.mkfifo(partial_of(file))
    reader = os.open(partial_of(file), os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(CommandError, match=r"a\.tar cannot be written"):
            write(file)
    finally:
        os.close(reader)
    with pytest.raises(CommandError, match=r"a\.tar cannot be written"):
        write(file)


def test_a_file_that_another_backup_completes_meanwhile_is_not_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.tar"
    lock = fcntl.flock

    def complete_first(opened: Any, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        os.write(os.open(partial_of(file), os.O_WRONLY), b"complete")
        partial_of(file).rename(file)
        lock(opened, operation)

    monkeypatch.setattr(fcntl, "flock", complete_first)
    with pytest.raises(BadInputError, match="another backup"):
        write(file)
    assert file.read_bytes() == b"complete"


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_backup_just_written_is_kept_whatever_the_others_are_dated(
    tmp_path: Path, keep: int
) -> None:
    names = [
        file_name(datetime(year, 1, 1, tzinfo=UTC), encrypted=False)
        for year in (2020, 2026, 2098, 2099)
    ]
    for name in names:
        (tmp_path / name).touch()
    removed = prune(tmp_path, keep, tmp_path / names[1]).removed
    left = sorted(file.name for file in tmp_path.iterdir())
    assert left == sorted([names[1], *names[4 - (keep - 1) :]] if keep > 1 else [names[1]])
    assert sorted(file.name for file in removed) == sorted(set(names) - set(left))


def test_only_regular_files_are_removed(tmp_path: Path) -> None:
    newest = tmp_path / file_name(datetime(2026, 1, 1, tzinfo=UTC), encrypted=False)
    newest.touch()
    folder = tmp_path / file_name(datetime(2020, 1, 1, tzinfo=UTC), encrypted=False)
    folder.mkdir()
    link = tmp_path / file_name(datetime(2021, 1, 1, tzinfo=UTC), encrypted=True)
    link.symlink_to(tmp_path / "elsewhere")
    partial_of(link).symlink_to(tmp_path / "elsewhere")
    assert prune(tmp_path, 1, newest) == Pruned([], [])
    assert {file.name for file in tmp_path.iterdir()} == {
        newest.name,
        folder.name,
        link.name,
        partial_of(link).name,
    }


def test_a_file_that_cannot_be_removed_keeps_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, old, newest = (
        tmp_path / file_name(datetime(year, 1, 1, tzinfo=UTC), encrypted=False)
        for year in (2020, 2021, 2026)
    )
    abandoned = [partial_of(stuck), partial_of(old)]
    for file in (stuck, old, newest, *abandoned):
        file.touch()
    unlink = Path.unlink

    def refuse(self: Path, *, missing_ok: bool = False) -> None:
        if self in (stuck, abandoned[0]):
            raise PermissionError(errno.EPERM, "Operation not permitted", str(self))
        unlink(self, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    pruned = prune(tmp_path, 1, newest)
    assert pruned.removed == [old]
    assert [error.filename for error in pruned.failed] == [str(stuck), str(abandoned[0])]
    assert set(tmp_path.iterdir()) == {stuck, newest, abandoned[0]}


def test_a_link_to_nothing_is_not_replaced(tmp_path: Path) -> None:
    link = tmp_path / "backup.tar"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInputError, match="is not overwritten"):
        write(link)
    assert link.is_symlink()


def test_the_error_of_a_backup_is_reported_if_closing_fails_too(tmp_path: Path) -> None:
    """A reader that has ended makes both fail; alone, closing's error would count as success (`vigil … | head`)."""
    with pytest.raises(CommandError, match="incomplete"):
        write_to_closed_pipe(tmp_path / "pipe", CommandError("incomplete"))


def test_an_end_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="pipe cannot be written: broken pipe"):
        write_to_closed_pipe(tmp_path / "pipe")


def write_to_closed_pipe(pipe: Path, error: CommandError | None = None) -> None:
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with open_output(pipe) as output:
        output.write(b"backup")
        os.close(reader)
        if error is not None:
            raise error
