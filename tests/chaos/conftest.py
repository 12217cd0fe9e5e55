"""Houses for the tests of a module, each with somebody to visit it."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from shared.runtime.bus import Bus
from tests.chaos.contained import ContainedPostgres
from tests.chaos.figures import Figures
from tests.chaos.house import HASTY, database_of, lived_in
from tests.chaos.visit import Visit, Visitor
from tests.integration.levers import Sandbox
from tests.seeds import first_seed, repeatable


@asynccontextmanager
async def visited(
    home: Path,
    sandbox_url: str,
    *,
    replicas: Mapping[str, int] | None = None,
    breakages: Mapping[str, str] | None = None,
    settings: Mapping[str, str] = HASTY,
    armed_together: bool = False,
    postgres: ContainedPostgres | None = None,
) -> AsyncIterator[Visitor]:
    """A house, and a visitor to it."""
    async with lived_in(
        home,
        sandbox_url,
        replicas=replicas,
        breakages=breakages,
        settings=settings,
        armed_together=armed_together,
        postgres=postgres,
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


@pytest.fixture(scope="session")
def figures() -> Iterator[Figures]:
    """Of the whole run."""
    collected = Figures()
    yield collected
    collected.write()


@pytest.fixture
def seed() -> Iterator[int]:
    """Of whatever is left to chance; told where a test fails."""
    chosen = first_seed()
    with repeatable(chosen):
        yield chosen


@pytest.fixture(scope="module")
async def undisturbed(visitor: Visitor) -> Visit:
    """What everything that is done to the house is compared with."""
    return await visitor.whole(seed=0)
