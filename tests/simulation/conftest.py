"""One database for the simulations of a module."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import cloned
from tests.support import engines
from tests.support.engines import Postgres
from tests.support.simulation.postgres import SimulatedPostgres


@pytest.fixture(scope="module")
def simulated_postgres(
    postgres: Postgres, engine_choice: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SimulatedPostgres]:
    if engine_choice != engines.EMBEDDED:
        pytest.skip("the simulation stops processes of PostgreSQL, and gives it its time in a file")
    clock: Path = tmp_path_factory.mktemp("simulation") / "clock"
    with cloned(postgres) as url:
        server = SimulatedPostgres(url, clock)
        yield server
        server.close()
