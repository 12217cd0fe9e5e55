"""What the owner of a measured installation comes in by."""

from shared.runtime.reaching import database_of
from shared.runtime.settings import Settings
from shared.store import tokens, users
from shared.store.words import AccessScope


async def owners_token(settings: Settings) -> str:
    """Made in the database, as the api would make it."""
    database = database_of(settings, "bench", pool_size=1)
    try:
        async with database.transaction() as session:
            owner_id = await users.ensure_owner(session, settings.owner)
            _, token = await tokens.create(
                session, owner_id, name="bench", scopes=list(AccessScope), lifetime=None
            )
            return token
    finally:
        await database.close()
