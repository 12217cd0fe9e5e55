"""Whether somebody waits for a lock that another holds, and commits that do."""

from typing import Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.engine import Database

SLOW_COMMIT: Final = text("""
select pid from pg_locks
where locktype = 'advisory' and not granted
  and database = (select oid from pg_database where datname = current_database())
""")
"""The backend of a commit that `slow_commits` keeps waiting."""
_WAIT: Final = text("""
create function wait() returns trigger language plpgsql as
  'begin perform pg_advisory_xact_lock(1); return null; end'
""")


async def slow_commits(session: AsyncSession, when: str) -> None:
    """From now on commits wait for whoever holds the advisory lock 1, where they commit `when`: `update on steps`."""
    await session.execute(_WAIT)
    deferred = "deferrable initially deferred for each row execute function wait()"
    await session.execute(text(f"create constraint trigger waits after {when} {deferred}"))


async def is_waited_for(database: Database) -> bool:
    """Looked at anew each time: within one transaction it would stay what it was."""
    waiting = "wait_event_type = 'Lock' and datname = current_database()"
    async with database.transaction() as session:
        look = text(f"select exists (select from pg_stat_activity where {waiting})")
        return bool((await session.scalars(look)).one())
