"""What old ids have become, kept in the database for as long as an import lasts: a million of them fit no memory."""

from collections.abc import Collection, Iterable
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.transfer.copying import copy_rows

_TABLE = "arrived"


class Arrived:
    """By old id the new one; of sources also whether they are retracted."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def begin(self) -> None:
        """Needs the right to make temporary tables, which the tables' owner has and no actor."""
        # Between two statements a batch is read and checked, which on a busy machine takes longer than a worker may rest.
        await self._session.execute(text("set local idle_in_transaction_session_timeout = 0"))
        await self._session.execute(
            text(
                f"create temporary table {_TABLE} (old uuid primary key, new uuid not null, retracted boolean not null)"
                " on commit drop"
            )
        )
        # A plan made while the table was small would read all of it once it is large.
        await self._session.execute(text("set local plan_cache_mode = force_custom_plan"))

    async def add(self, pairs: Iterable[tuple[UUID, UUID, bool]]) -> None:
        """Old ids, new ones, and whether what has them is a retracted page.

        Raises IntegrityError where one of the old ids is there already.
        """
        rows = [{"old": old, "new": new, "retracted": flag} for old, new, flag in pairs]
        await copy_rows(self._session, _TABLE, rows)

    async def new_ids(self, old: Collection[UUID]) -> dict[UUID, UUID]:
        """Of those that have arrived."""
        return {each: new for each, (new, _) in (await self._found(old)).items()}

    async def sources(self, old: Collection[UUID]) -> dict[UUID, tuple[UUID, bool]]:
        """With whether it is retracted."""
        return await self._found(old)

    async def _found(self, old: Collection[UUID]) -> dict[UUID, tuple[UUID, bool]]:
        if not old:
            return {}
        rows = await self._session.execute(
            text(f"select old, new, retracted from {_TABLE} where old = any(:old)"),
            {"old": list(old)},
        )
        return {each: (new, retracted) for each, new, retracted in rows}
