"""An installation that lets nobody in without a password, shared by the tests of a file."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from shared.database.engine import Database
from shared.runtime.connections import create_database
from shared.runtime.provision import provision
from tests.support.guarded import Guarded, guarded


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Engines that ask for passwords, provisioned."""
    with guarded(tmp_path_factory.mktemp("guarded")) as installation:
        asyncio.run(provision(installation.migrator()))
        yield installation


@pytest.fixture
async def ours(closed: Guarded) -> AsyncIterator[Database]:
    """The tables, as their owner sees them."""
    opened = create_database(closed.migrator(), "migrate")
    yield opened
    await opened.close()
