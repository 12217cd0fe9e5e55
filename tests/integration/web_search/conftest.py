"""A researcher that carries out its module's QUERY with a scripted search service."""

from collections.abc import AsyncIterator

import pytest

from shared.database.engine import Database
from shared.runtime.settings import Settings
from tests.support.injection.web import Web
from tests.support.researching import OTHER, Researcher, researching


@pytest.fixture
def web() -> Web:
    return Web(other_urls=(OTHER,))


@pytest.fixture
async def researcher(
    request: pytest.FixtureRequest,
    sandbox_settings: Settings,
    database: Database,
    sandbox: str,
    web: Web,
) -> AsyncIterator[Researcher]:
    query = request.module.QUERY
    async with researching(sandbox_settings, database, sandbox, web, query) as opened:
        yield opened
