"""The API over the database of one test."""

from collections.abc import AsyncIterator

import httpx
import pytest

from shared.database.engine import Database
from shared.runtime.settings import Settings
from tests.support.api.clients import create_client
from tests.support.api.full_agent import FullAgent, create_full_agent
from tests.support.databases import StoredRows


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with create_client(Settings(database_url=database_url)) as client:
        yield client


@pytest.fixture(scope="session")
def stored_agents() -> list[tuple[FullAgent, StoredRows]]:
    """The first agent with its rows, from which those of all other tests are copied."""
    return []


@pytest.fixture
async def full(
    api: httpx.AsyncClient,
    database: Database,
    database_url: str,
    stored_agents: list[tuple[FullAgent, StoredRows]],
) -> FullAgent:
    """An agent of the caller with something of everything."""
    if not stored_agents:
        rows = StoredRows(database_url)
        await api.get("/agents")  # creates the owner
        stored_agents.append((await create_full_agent(database), rows))
        rows.store(database_url)
    else:
        stored_agents[0][1].write(database_url)
    return stored_agents[0][0]
