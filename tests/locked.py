"""Whether somebody waits for a lock that another holds."""

from sqlalchemy import text

from shared.store.database import Database


async def is_waited_for(database: Database) -> bool:
    """Looked at anew each time: within one transaction it would stay what it was."""
    waiting = "wait_event_type = 'Lock' and datname = current_database()"
    async with database.transaction() as session:
        look = text(f"select exists (select from pg_stat_activity where {waiting})")
        return bool((await session.scalars(look)).one())
