"""What many tests of the whole loop begin with."""

from collections.abc import AsyncIterator

import pytest

from shared.runtime.settings import Settings
from tests.integration.cluster import running
from tests.integration.levers import Sandbox


@pytest.fixture
def levers(sandbox: str) -> Sandbox:
    return Sandbox(sandbox)


@pytest.fixture
async def concierge(sandbox_settings: Settings) -> AsyncIterator[None]:
    """At work."""
    async with running(sandbox_settings, ["concierge"]):
        yield
