"""The manifest of a backup: what it is of, and which versions of Vigil and PostgreSQL can read it."""

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from cli.errors import CommandError

FORMAT_VERSION: Final = 1
LEFT_OUT: Final = ("sessions", "sign_in_links")
"""Tables whose rows are not backed up: a browser that was signed out after the backup must not be signed in again."""


Line = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]*$", max_length=200)]
"""What is shown of a backup, from whomever it is: it must not control the terminal, or look like another line."""


class BadBackupError(CommandError):
    """The file is not a backup, is damaged, or cannot be read by this version."""


class Manifest(BaseModel):
    """The first part of a backup."""

    model_config = ConfigDict(frozen=True)

    format: Literal["vigil-backup"] = "vigil-backup"
    format_version: int = FORMAT_VERSION
    vigil: Line
    """The version that made the backup."""
    revision: Line
    """The last migration of the database."""
    postgres: int
    """Major version of the server."""
    taken_at: datetime
    """Time of the snapshot, by the clock of the database."""
    installation: Line
    """The system identifier of the PostgreSQL cluster, which differs from that of every other installation."""
    database_bytes: int
    """Size of the database on disk, with indexes."""
    tables: dict[Line, int]
    """Number of rows by table, without the tables that are left out."""
    left_out: tuple[str, ...] = LEFT_OUT
    signed_entries: int
    """Number of entries of graph journals with a signature, by a key that is not in the backup."""

    @classmethod
    def parse(cls, text: bytes) -> "Manifest":
        """Raises BadBackupError."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise BadBackupError("it is not a backup of Vigil") from error

    def render(self) -> bytes:
        return self.model_dump_json(indent=2).encode() + b"\n"


class WrittenBackup(Manifest):
    """A backup that was made."""

    file: str | None
    """None: standard output."""
    bytes: int
    removed: list[str]
    """Older backups that were deleted."""


class CheckedBackup(Manifest):
    """A backup that was read to its end."""

    file: str
    restored_to: str | None
    """The data directory; None if it was only checked."""
