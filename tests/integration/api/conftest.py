"""The API over the database of one test."""

from collections.abc import AsyncIterator

import httpx
import pytest

from shared.runtime.settings import Settings
from tests.support.api.clients import create_client


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with create_client(Settings(database_url=database_url)) as client:
        yield client
