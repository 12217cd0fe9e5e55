"""The file format of a backup: a tar file of parts, which ends with their SHA-256.

`tar`, `sha256sum --check` and `pg_restore` read it without Vigil. Python's tarfile seeks, or reads ahead, and skips
damaged blocks in some places; here every byte counts, so only its header is used.
"""

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Protocol

from cli.backup.manifest import BadBackupError, Manifest

MANIFEST: Final = "manifest.json"
CORPORA: Final = "corpora.json"
CHUNKS: Final = "database/"
CHECKSUMS: Final = "SHA256SUMS"

PART_BYTES: Final = 4 * 1024**2
"""Size of a part of the database; only one is in memory."""
MAX_FILE_BYTES: Final = 64 * 1024**2
"""Limit of the size of a part, which a damaged header could exceed."""
_BLOCK: Final = tarfile.BLOCKSIZE
_END: Final = bytes(2 * _BLOCK)


class Sink(Protocol):
    def write(self, data: bytes, /) -> object: ...


class Source(Protocol):
    def read(self, size: int, /) -> bytes:
        """`size` bytes; fewer only at the end."""


@dataclass(frozen=True)
class Part:
    name: str
    content: bytes


def database_part(number: int) -> str:
    """The name of the part, so that the names in alphabetical order give the parts in order."""
    return f"{CHUNKS}{number:08}"


class ArchiveWriter:
    """Writes parts one after the other. `close` completes the file."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._checksums = ""

    def add(self, part: Part) -> None:
        self._checksums += f"{sha256(part.content).hexdigest()}  {part.name}\n"
        self._write(part)

    def close(self) -> None:
        self._write(Part(CHECKSUMS, self._checksums.encode()))
        self._sink.write(_END)

    def _write(self, part: Part) -> None:
        self._sink.write(_header(part.name, len(part.content)))
        self._sink.write(part.content)
        self._sink.write(bytes(-len(part.content) % _BLOCK))


class ArchiveReader:
    """Reads the parts in order and checks their SHA-256. Every method raises BadBackupError.

    `manifest` has been read already. Parts are only known to be intact when `parts` has ended without an error.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._checksums = ""
        self._expected = ""
        """The checksums of the parts before the last one."""
        first = source.read(_BLOCK)
        try:
            is_backup = tarfile.TarInfo.frombuf(first, "utf-8", "strict").name == MANIFEST
        except (tarfile.HeaderError, UnicodeDecodeError):
            is_backup = False
        if not is_backup:
            raise BadBackupError("it is not a backup of Vigil")
        self.manifest = Manifest.parse(self._content(first).content)

    def parts(self) -> Iterator[Part]:
        """The parts after the manifest. Reads the file to its end."""
        number = 0
        while True:
            part = self._content(self._read(_BLOCK))
            if part.name == CHECKSUMS:
                break
            if part.name not in (CORPORA, database_part(number)):
                raise _damaged(f"unexpected part {part.name!r}")
            number += part.name != CORPORA
            yield part
        if part.content.decode(errors="replace") != self._expected:
            raise _damaged("the content of a part does not match its SHA-256")
        if self._read(len(_END)) != _END or self._source.read(1):
            raise _damaged("it continues after its last part")

    def _content(self, header: bytes) -> Part:
        name, size = self._name_and_size(header)
        content = self._read(size)
        if any(self._read(-size % _BLOCK)):
            raise _damaged(f"part {name!r} is not followed by zeros")
        self._expected = self._checksums
        self._checksums += f"{sha256(content).hexdigest()}  {name}\n"
        return Part(name, content)

    def _name_and_size(self, header: bytes) -> tuple[str, int]:
        try:
            info = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        except (tarfile.HeaderError, UnicodeDecodeError) as error:
            raise _damaged("the header of a part is unreadable") from error
        if not 0 <= info.size <= MAX_FILE_BYTES or header != _header(info.name, info.size):
            raise _damaged(f"the header of part {info.name!r} is not as it was written")
        return info.name, info.size

    def _read(self, size: int) -> bytes:
        data = self._source.read(size)
        if len(data) != size:
            raise BadBackupError("it is incomplete: it ends in the middle")
        return data


def _header(name: str, size_bytes: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size_bytes, 0o600
    return info.tobuf(tarfile.USTAR_FORMAT)


def _damaged(how: str) -> BadBackupError:
    return BadBackupError(f"it is damaged: {how}")
