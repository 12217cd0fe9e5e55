"""Fixtures of the graph's integration tests, on top of `database`."""

import pytest

from shared.database.engine import Database
from tests.support.graph.duplicates import Duplicates
from tests.support.graph.world import World, make_world


@pytest.fixture
async def world(database: Database) -> World:
    return await make_world(database)


@pytest.fixture
async def stranger(database: Database) -> World:
    """An agent of another user, in the same database."""
    return await make_world(database, "stranger")


@pytest.fixture
async def duplicates(world: World) -> Duplicates:
    return await Duplicates(world).fill()
