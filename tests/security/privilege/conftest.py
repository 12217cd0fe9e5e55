"""An installation that requires passwords, shared by the tests of a file."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from shared.database.engine import Database
from shared.runtime.connections import create_database
from shared.runtime.provision import provision
from tests.support.secured_installation import SecuredInstallation, secured_installation


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredInstallation]:
    """Engines that require passwords, provisioned."""
    with secured_installation(tmp_path_factory.mktemp("guarded")) as guarded_installation:
        asyncio.run(provision(guarded_installation.migrator()))
        yield guarded_installation


@pytest.fixture
async def owner_database(installation: SecuredInstallation) -> AsyncIterator[Database]:
    """The database under the owner's role."""
    database = create_database(installation.migrator(), "migrate")
    yield database
    await database.close()
