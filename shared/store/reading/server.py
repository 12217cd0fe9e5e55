"""What PostgreSQL says of itself."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession


async def version(session: AsyncSession) -> str:
    """Its number, as in `16.4`."""
    told = await session.execute(text("select current_setting('server_version')"))
    return str(told.scalar_one()).split()[0]
