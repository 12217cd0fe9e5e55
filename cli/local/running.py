"""`run.json`: how other commands find the installation that runs on a data directory."""

from datetime import datetime
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from cli.private import write_private


class Running(BaseModel):
    """A running installation, as it describes itself once it is up."""

    model_config = ConfigDict(frozen=True)

    pid: int
    api_url: str
    nats_url: str
    database_url: str
    ports: dict[str, int]
    started_at: datetime

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """None where there is no file, or one of a version that we do not understand."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def write(self, path: Path) -> None:
        """For its owner's eyes only: the URLs open every door."""
        write_private(path, self.model_dump_json(indent=2) + "\n")
