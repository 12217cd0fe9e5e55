"""Houses for the tests of a module, each with somebody to visit it."""

import os
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from shared.runtime.bus import Bus
from tests.chaos.house import HASTY, database_of, lived_in
from tests.chaos.visit import Visitor
from tests.integration.levers import Sandbox


@asynccontextmanager
async def visited(
    home: Path,
    sandbox_url: str,
    *,
    replicas: Mapping[str, int] | None = None,
    breakages: Mapping[str, str] | None = None,
    settings: Mapping[str, str] = HASTY,
) -> AsyncIterator[Visitor]:
    """A house, and a visitor to it."""
    async with lived_in(
        home, sandbox_url, replicas=replicas, breakages=breakages, settings=settings
    ) as house:
        database, bus = database_of(house), Bus(house.nats.url, name="test")
        await bus.connect()
        yield Visitor(house, database, bus, Sandbox(sandbox_url))
        await bus.close()
        await database.close()


@pytest.fixture(scope="module")
async def visitor(
    tmp_path_factory: pytest.TempPathFactory, sandbox_server: str
) -> AsyncIterator[Visitor]:
    async with visited(tmp_path_factory.mktemp("house"), sandbox_server) as found:
        yield found


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Of whatever is left to chance; $VIGIL_TEST_SEED repeats a run. It stands in the output of a test that fails."""
    chosen = int(os.environ.get("VIGIL_TEST_SEED") or random.SystemRandom().randrange(10**6))
    print(f"VIGIL_TEST_SEED={chosen} {request.node.nodeid}")
    return chosen
