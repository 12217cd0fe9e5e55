"""The bootstrap owner: the user to whom the installation belongs."""

import asyncio
from typing import Final
from uuid import UUID

from psycopg.errors import UndefinedTable

from shared.accounts import credentials
from shared.database.engine import Database
from shared.errors import TransientError
from shared.runtime.logging import logger

RETRY_SECONDS: Final = 0.5


log = logger(__name__)


class BootstrapOwner:
    """The owner's id, which is known once PostgreSQL answers and has its tables."""

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._name = name
        self._id: UUID | None = None

    @property
    def known_id(self) -> UUID | None:
        """The id, if it has been read already."""
        return self._id

    async def id(self) -> UUID:
        """Raises TransientError while PostgreSQL is unavailable or has no tables yet."""
        if self._id is None:
            try:
                async with self._database.transaction() as session:
                    self._id = await credentials.ensure_owner(session, self._name)
            except UndefinedTable as error:
                raise TransientError(
                    "PostgreSQL: the tables are missing; run `vigil migrate`"
                ) from error
        return self._id

    async def fault(self) -> str | None:
        """Returns why the API cannot answer yet, or None."""
        try:
            await self.id()
            await self._database.ping()
        except TransientError as error:
            return str(error)
        return None

    async def wait(self) -> None:
        """Waits until PostgreSQL is available. Logs each reason for waiting once."""
        last_fault: str | None = None
        while (fault := await self.fault()) is not None:
            if fault != last_fault:
                log.warning("waiting for PostgreSQL", reason=fault)
                last_fault = fault
            await asyncio.sleep(RETRY_SECONDS)
        log.info("ready")
