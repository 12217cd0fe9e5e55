"""Two agents of two users, each with a claimed step, where embeddings are configured."""

import pytest

from shared.database.engine import Database
from shared.runtime.settings import Settings
from tests.support.embeddings.seeker import Seeker
from tests.support.graph.world import World, make_world
from tests.support.sandbox_control import Sandbox


@pytest.fixture
async def world(database: Database) -> World:
    return await make_world(database)


@pytest.fixture
async def seeker(world: World, sandbox_control: Sandbox, sandbox_settings: Settings) -> Seeker:
    return await Seeker.of(world, sandbox_control, sandbox_settings)


@pytest.fixture
async def stranger(
    database: Database, sandbox_control: Sandbox, sandbox_settings: Settings
) -> Seeker:
    other = await make_world(database, "stranger")
    return await Seeker.of(other, sandbox_control, sandbox_settings)
