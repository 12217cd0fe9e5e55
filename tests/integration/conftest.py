"""What many tests of the whole loop begin with."""

from collections.abc import AsyncIterator

import pytest

from shared.runtime.settings import Settings
from tests.support.actors import running
from tests.support.levers import Sandbox


@pytest.fixture
def levers(sandbox: str) -> Sandbox:
    return Sandbox(sandbox)


@pytest.fixture
async def assistant(sandbox_settings: Settings) -> AsyncIterator[None]:
    """At work."""
    async with running(sandbox_settings, ["assistant"]):
        yield
