"""An installation for each test module, with a runner of scenarios."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from shared.runtime.bus import Bus
from tests.support.chaos.figures import Figures
from tests.support.chaos.installation import Installation, create_database, running_installation
from tests.support.chaos.scenario_run import ScenarioRun, ScenarioRunner
from tests.support.sandbox_control import Sandbox
from tests.support.seeds import first_seed, repeatable


@asynccontextmanager
async def open_runner(
    opened_installation: AbstractAsyncContextManager[Installation],
) -> AsyncIterator[ScenarioRunner]:
    """A runner for the installation that the context manager opens."""
    async with opened_installation as installation:
        database, bus = create_database(installation), Bus(installation.nats.url, name="test")
        await bus.connect()
        yield ScenarioRunner(installation, database, bus, Sandbox(installation.sandbox_url))
        await bus.close()
        await database.close()


@pytest.fixture(scope="module")
async def runner(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, sandbox_server: str
) -> AsyncIterator[ScenarioRunner]:
    """A runner for one installation, with the options that the module's INSTALLATION has."""
    options = getattr(request.module, "INSTALLATION", {})
    home = tmp_path_factory.mktemp("installation")
    async with open_runner(running_installation(home, sandbox_server, **options)) as opened:
        yield opened


@pytest.fixture(scope="session")
def figures() -> Iterator[Figures]:
    """Measurements of the whole test run."""
    collected = Figures()
    yield collected
    collected.write()


@pytest.fixture
def seed() -> Iterator[int]:
    """The seed of all random choices; printed when a test fails."""
    value = first_seed()
    with repeatable(value):
        yield value


@pytest.fixture(scope="module")
async def baseline(runner: ScenarioRunner) -> ScenarioRun:
    """The result of an undisturbed run, with which the others are compared."""
    return await runner.run(seed=0)
