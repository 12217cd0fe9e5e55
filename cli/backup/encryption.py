"""Encryption of backups in the age format (age-encryption.org/v1), which the programs `age` and `rage` decrypt too.

pyrage encrypts to recipients. With a passphrase it only handles data in memory, so that case is in `passphrase`.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, Final

from cli.backup.archive import Sink, Source
from cli.backup.manifest import BadBackupError
from cli.backup.passphrase import PassphraseReader, PassphraseWriter
from cli.errors import BadInputError
from cli.local.errors import MissingExtraError

MAGIC: Final = b"age-encryption.org/v1\n"
_SCRYPT: Final = MAGIC + b"-> scrypt "


@dataclass(frozen=True)
class Encryption:
    """How a backup is encrypted; not at all without recipients and passphrase."""

    recipients: Sequence[str] = ()
    passphrase: str | None = None

    def __bool__(self) -> bool:
        return bool(self.recipients) or self.passphrase is not None

    @contextmanager
    def encrypting(self, output: BinaryIO) -> Iterator[Sink]:
        """What is written to the sink in the block is in `output`, encrypted, when the block ends without an error."""
        if self.passphrase is not None:
            writer = PassphraseWriter(output, self.passphrase)
            yield writer
            writer.close()
        elif self.recipients:
            with _encrypting_to(list(map(parse_recipient, self.recipients)), output) as sink:
                yield sink
        else:
            yield output


@dataclass(frozen=True)
class Secrets:
    """What a backup can be decrypted with."""

    identity_file: Path | None = None
    passphrase: str | None = None

    @contextmanager
    def decrypting(self, file: BinaryIO) -> Iterator[Source]:
        """Raises BadInputError if a secret is missing, or not needed; the source raises BadBackupError."""
        head = file.read(len(_SCRYPT))
        file = BufferedReader(_WithHead(head, file))
        if not head.startswith(MAGIC):
            if self.identity_file is not None or self.passphrase is not None:
                # An attacker may have replaced an encrypted backup, whose writer had to know the passphrase.
                raise BadInputError(
                    "the backup is not encrypted: if you trust it, leave out --identity and --passphrase-file"
                )
            yield file
        elif head.startswith(_SCRYPT):
            if self.passphrase is None:
                raise BadInputError(
                    "the backup is encrypted with a passphrase: name a file that contains it with --passphrase-file"
                )
            yield PassphraseReader(file, self.passphrase)
        else:
            if self.identity_file is None:
                raise BadInputError(
                    "the backup is encrypted to a recipient: name the file of its age identity with --identity"
                )
            with _decrypting_by(read_identities(self.identity_file), file) as source:
                yield source


class _WithHead(RawIOBase):
    """A file whose beginning was read already. `peek` may return less than was asked for if it is a pipe."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        data = self._head[: len(buffer)] or self._rest.read(len(buffer))
        self._head = self._head[len(data) :]
        buffer[: len(data)] = data
        return len(data)


def read_passphrase(file: Path) -> str:
    """The first line of the file. Raises BadInputError."""
    try:
        text = file.read_text("utf-8")  # whatever the locale, so that any shell reads the same
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{file} cannot be read: {_reason(error)}") from None
    passphrase = text.partition("\n")[0].strip("\r")
    if not passphrase:
        raise BadInputError(f"{file} has no passphrase in its first line")
    return passphrase


def parse_recipient(text: str) -> Any:
    """A public key `age1…`, or a public key of SSH. Raises BadInputError."""
    pyrage = _pyrage()
    for kind in (pyrage.x25519, pyrage.ssh):
        try:
            return kind.Recipient.from_str(text)
        except pyrage.RecipientError:
            continue
    raise BadInputError(
        f"{text!r} is not an age recipient: name a public key age1…, as `age-keygen` prints it, or a public SSH key"
    )


def read_identities(file: Path) -> list[Any]:
    """The secret keys in the file, of age or of SSH. Raises BadInputError."""
    pyrage = _pyrage()
    try:
        content = file.read_bytes()
        if content.startswith(b"-----BEGIN"):
            return [pyrage.ssh.Identity.from_buffer(content)]
        lines = [line.strip() for line in content.decode().splitlines()]
        keys = [line for line in lines if line and not line.startswith("#")]
        if keys:
            return [pyrage.x25519.Identity.from_str(key) for key in keys]
        raise BadInputError(f"{file} contains no age identity")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{file} cannot be read: {_reason(error)}") from None
    except pyrage.IdentityError:
        raise BadInputError(
            f"{file} is not an age identity, a file with AGE-SECRET-KEY-1… as `age-keygen` writes it"
        ) from None


@contextmanager
def _encrypting_to(recipients: Sequence[Any], output: BinaryIO) -> Iterator[Sink]:
    pyrage = _pyrage()
    reading, writing = os.pipe()
    recorded = _RecordedOutput(output)
    worker = _Worker(lambda source: pyrage.encrypt_io(source, recorded, recipients), reading, "rb")
    try:
        with _closing_pipe(writing, "wb", worker) as sink:
            yield sink
    except (OSError, pyrage.EncryptError):
        if recorded.error is not None:
            raise recorded.error from None
        raise


@contextmanager
def _decrypting_by(identities: Sequence[Any], file: BinaryIO) -> Iterator[Source]:
    pyrage = _pyrage()
    reading, writing = os.pipe()
    worker = _Worker(lambda sink: pyrage.decrypt_io(file, sink, identities), writing, "wb")
    with _closing_pipe(reading, "rb", worker) as plain:
        yield _PipeSource(plain, worker)


@contextmanager
def _closing_pipe(descriptor: int, mode: str, worker: "_Worker") -> Iterator[Any]:
    """Closes the pipe at the end of the block and raises the worker's error."""
    try:
        with os.fdopen(descriptor, mode) as pipe:
            yield pipe
    except BrokenPipeError:
        worker.end()  # whose own error says more
        raise
    except BaseException:
        worker.join()
        raise
    worker.end()


class _Worker(threading.Thread):
    """Runs pyrage, which pulls from one file and writes to another, beside the code that uses the other end."""

    def __init__(self, run: Callable[[BinaryIO], object], descriptor: int, mode: str) -> None:
        super().__init__(daemon=True)
        self._run, self._descriptor, self._mode = run, descriptor, mode
        self._error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            with os.fdopen(self._descriptor, self._mode) as file:
                self._run(file)  # type: ignore[arg-type]  # a binary file in either mode
        except Exception as error:  # noqa: BLE001  # raised by `end`
            self._error = error

    def end(self) -> None:
        """Waits for it. Raises its error."""
        self.join()
        if self._error is not None and not isinstance(self._error, BrokenPipeError):
            raise self._error


class _RecordedOutput:
    """Keeps the error of the file, of which pyrage's own error has only the text."""

    def __init__(self, output: BinaryIO) -> None:
        self._output = output
        self.error: OSError | None = None

    def write(self, data: bytes, /) -> int:
        try:
            return self._output.write(data)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        self._output.flush()


class _PipeSource:
    """The decrypted file. At its end, tells a complete file from one that could not be decrypted further."""

    def __init__(self, pipe: BinaryIO, worker: _Worker) -> None:
        self._pipe, self._worker = pipe, worker

    def read(self, size: int, /) -> bytes:
        data = self._pipe.read(size)
        if len(data) < size:
            try:
                self._worker.end()
            except Exception as error:
                text = "it is incomplete or damaged: it cannot be decrypted to its end"
                if "No matching keys" in str(error):
                    text = "it is encrypted to another recipient than this identity"
                raise BadBackupError(text) from error
        return data


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return str(getattr(error, "strerror", None) or error)


def _pyrage() -> Any:
    try:
        import pyrage
    except ImportError as error:
        raise MissingExtraError("pyrage") from error
    return pyrage
