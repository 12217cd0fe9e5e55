"""Writing out what the api exports, piece by piece."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from cli.client.client import Client
from cli.errors import AwayError, CommandError
from shared.schemas.operations import ExportedFile

UNFINISHED: Final = ".part"


def export_to_stdout(client: Client, agent: str, wanted: str) -> None:
    """Raises AwayError where the export breaks off."""
    _write(client.export(agent, wanted), sys.stdout.buffer)
    sys.stdout.buffer.flush()


def export_to_file(client: Client, agent: str, wanted: str, file: Path) -> ExportedFile:
    """The file is there when all of it is, in place of what was there before. Raises AwayError as above."""
    unfinished = file.with_name(file.name + UNFINISHED)
    try:
        with unfinished.open("wb") as output:
            size = _write(client.export(agent, wanted), output)
            output.flush()
            os.fsync(output.fileno())
        unfinished.replace(file)
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    return ExportedFile(file=str(file), format=wanted, bytes=size)


def _write(pieces: Iterator[bytes], output: BinaryIO) -> int:
    size = 0
    try:
        for piece in pieces:
            output.write(piece)
            size += len(piece)
    except AwayError as error:
        if not size:
            raise
        raise AwayError(
            f"the export broke off after {size:,} bytes: ask for it again ({error})"
        ) from error
    return size
