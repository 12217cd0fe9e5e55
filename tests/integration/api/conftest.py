"""The API over the database of one test."""

from collections.abc import AsyncIterator

import httpx
import pytest

from shared.database.engine import Database
from shared.runtime.settings import Settings
from tests.support.api.clients import create_client
from tests.support.api.full_agent import FullAgent, create_full_agent


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with create_client(Settings(database_url=database_url)) as client:
        yield client


@pytest.fixture
async def full(api: httpx.AsyncClient, database: Database) -> FullAgent:
    """An agent of the caller with something of everything."""
    await api.get("/agents")  # creates the owner
    return await create_full_agent(database)
