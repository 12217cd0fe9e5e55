"""Houses for the tests of a module, each with somebody to visit it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from shared.runtime.bus import Bus
from tests.support.chaos.figures import Figures
from tests.support.chaos.house import House, database_of, lived_in
from tests.support.chaos.visit import Visit, Visitor
from tests.support.levers import Sandbox
from tests.support.seeds import first_seed, repeatable


@asynccontextmanager
async def visited(lived: AbstractAsyncContextManager[House]) -> AsyncIterator[Visitor]:
    """A visitor to the house that `lived_in` opens."""
    async with lived as house:
        database, bus = database_of(house), Bus(house.nats.url, name="test")
        await bus.connect()
        yield Visitor(house, database, bus, Sandbox(house.sandbox_url))
        await bus.close()
        await database.close()


@pytest.fixture(scope="module")
async def visitor(
    tmp_path_factory: pytest.TempPathFactory, sandbox_server: str
) -> AsyncIterator[Visitor]:
    async with visited(lived_in(tmp_path_factory.mktemp("house"), sandbox_server)) as found:
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
