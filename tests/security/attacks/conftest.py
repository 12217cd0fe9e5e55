"""A world for the tests of a file, which none of them may change unless it makes its own."""

import os
from collections.abc import AsyncIterator

import pytest

from tests.conftest import cloned
from tests.support.attacks.world import World, made_world
from tests.support.engines import Postgres


@pytest.fixture(scope="session")
def attacks_in_full() -> bool:
    """Whether the long forms were asked for; read before the tests hide the environment from what they test."""
    return os.environ.get("VIGIL_TEST_ATTACKS") == "full"


@pytest.fixture(scope="module")
async def world(postgres: Postgres) -> AsyncIterator[World]:
    with cloned(postgres) as url:
        made = await made_world(url)
        yield made
        await made.app.state.answers.close()
        await made.app.state.database.close()
        await made.database.close()
