"""The api over one test's own database."""

from collections.abc import AsyncIterator

import httpx
import pytest

from shared.runtime.settings import Settings
from tests.support.api.asking import client_of


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(Settings(database_url=database_url)) as client:
        yield client
