"""What the owner of a measured installation comes in by."""

from shared.accounts import credentials
from shared.enums import AccessScope
from shared.runtime.connections import database_of
from shared.runtime.settings import Settings


async def owners_token(settings: Settings) -> str:
    """Made in the database, as the api would make it."""
    database = database_of(settings, "bench", pool_size=1)
    try:
        async with database.transaction() as session:
            owner_id = await credentials.ensure_owner(session, settings.owner)
            _, token = await credentials.create_token(
                session, owner_id, name="bench", scopes=list(AccessScope), lifetime=None
            )
            return token
    finally:
        await database.close()
