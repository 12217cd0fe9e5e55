"""One world for all tests of a file; a test that changes data must create its own rows."""

import os
from collections.abc import AsyncIterator

import pytest

from tests.conftest import cloned
from tests.support.attacks.world import World, make_world
from tests.support.engines import Postgres


@pytest.fixture(scope="session")
def attacks_in_full() -> bool:
    """Whether the full form is requested; read before the tests clear the environment."""
    return os.environ.get("VIGIL_TEST_ATTACKS") == "full"


@pytest.fixture(scope="module")
async def world(postgres: Postgres) -> AsyncIterator[World]:
    with cloned(postgres) as url:
        attacked_world = await make_world(url)
        yield attacked_world
        await attacked_world.app.state.answers.close()
        await attacked_world.app.state.database.close()
        await attacked_world.database.close()
