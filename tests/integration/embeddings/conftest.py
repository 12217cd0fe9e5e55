"""Two agents of two users, each with a step at work, where embeddings are configured."""

import pytest

from shared.database.engine import Database
from shared.runtime.settings import Settings
from tests.support.embeddings.seeker import Seeker
from tests.support.graph.world import World, make_world
from tests.support.levers import Sandbox


@pytest.fixture
async def world(database: Database) -> World:
    return await make_world(database)


@pytest.fixture
async def seeker(world: World, levers: Sandbox, sandbox_settings: Settings) -> Seeker:
    return await Seeker.of(world, levers, sandbox_settings)


@pytest.fixture
async def stranger(database: Database, levers: Sandbox, sandbox_settings: Settings) -> Seeker:
    other = await make_world(database, "stranger")
    return await Seeker.of(other, levers, sandbox_settings)
