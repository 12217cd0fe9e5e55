"""Stored phase runs, as readers see them."""

from sqlalchemy import Select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.tables import Interaction
from shared.llm.phase_run_store import load_requests


async def first_messages(session: AsyncSession, query: Select[Interaction]) -> list[str]:
    """The first message of each selected run, in order."""
    runs = list(await session.scalars(query))
    requests = await load_requests(session, runs)
    return [requests[run.id]["messages"][0]["content"] for run in runs]
