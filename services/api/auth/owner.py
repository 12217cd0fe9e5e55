"""The user to whom the installation belongs."""

import asyncio
from typing import Final
from uuid import UUID

from psycopg.errors import UndefinedTable
from sqlalchemy.exc import ProgrammingError

from shared.accounts import credentials
from shared.database.engine import Database
from shared.errors import TransientError
from shared.runtime.logging import logger

LOOK_AGAIN_SECONDS: Final = 0.5


log = logger(__name__)


class Owner:
    """Known once Postgres answers and has its tables."""

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._name = name
        self._id: UUID | None = None

    @property
    def known_id(self) -> UUID | None:
        """The id, where it has been looked up."""
        return self._id

    async def id(self) -> UUID:
        """Raises TransientError while Postgres is away or has no tables yet."""
        if self._id is None:
            try:
                async with self._database.transaction() as session:
                    self._id = await credentials.ensure_owner(session, self._name)
            except ProgrammingError as error:
                if not isinstance(error.orig, UndefinedTable):
                    raise
                raise TransientError(
                    "PostgreSQL: the tables are missing; run `vigil migrate`"
                ) from error
        return self._id

    async def fault(self) -> str | None:
        """Why nothing can be answered, in words, or None."""
        try:
            await self.id()
            await self._database.ping()
        except TransientError as error:
            return str(error)
        return None

    async def wait(self) -> None:
        """Returns when Postgres is there; says what it waits for, once for each reason."""
        said: str | None = None
        while (fault := await self.fault()) is not None:
            if fault != said:
                log.warning("waiting for PostgreSQL", reason=fault)
                said = fault
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
        log.info("ready")
