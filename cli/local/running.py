"""`run.json`: how other commands find the installation that runs on a data directory."""

import os
from datetime import datetime
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError


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
        """At once or not at all, and for its owner's eyes only: the URLs open every door."""
        beside = path.with_suffix(".new")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(self.model_dump_json(indent=2) + "\n")
        beside.replace(path)
