"""One setup for all tests of a file; a test that changes data must create its own rows."""

import os
from collections.abc import AsyncIterator

import pytest

from tests.conftest import cloned
from tests.support.attacks.attack_setup import AttackSetup, make_attack_setup
from tests.support.engines import Postgres


@pytest.fixture(scope="session")
def attacks_in_full() -> bool:
    """Whether the full form is requested; read before the tests clear the environment."""
    return os.environ.get("VIGIL_TEST_ATTACKS") == "full"


@pytest.fixture(scope="module")
async def attack_setup(postgres: Postgres) -> AsyncIterator[AttackSetup]:
    with cloned(postgres) as url:
        attacked_attack_setup = await make_attack_setup(url)
        yield attacked_attack_setup
        await attacked_attack_setup.app.state.answers.close()
        await attacked_attack_setup.app.state.database.close()
        await attacked_attack_setup.database.close()
