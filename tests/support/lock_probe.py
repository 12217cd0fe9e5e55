"""Slow commits, and whether a backend waits for a lock."""

from typing import Final

from sqlalchemy import text

from shared.database.engine import Database
from shared.database.transaction import Transaction

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


async def slow_commits(session: Transaction, when: str) -> None:
    """Make commits after `when`, for example `update on steps`, wait for the advisory lock 1."""
    await session.execute(_WAIT)
    deferred = "deferrable initially deferred for each row execute function wait()"
    await session.execute(text(f"create constraint trigger waits after {when} {deferred}"))


async def has_lock_waiter(database: Database) -> bool:
    """Whether a backend waits for a lock. Uses a new transaction, because one transaction sees one snapshot."""
    waiting = "wait_event_type = 'Lock' and datname = current_database()"
    async with database.transaction() as session:
        query = text(f"select exists (select from pg_stat_activity where {waiting})")
        return bool((await session.scalars(query)).one())
