"""A courier that looks often and rests briefly, and somebody who receives."""

from collections.abc import AsyncIterator

import pytest

from services.courier import patience, rounds
from shared.runtime.settings import Settings
from shared.store.database import Database
from shared.store.tables import Agent
from tests.support.making import make_agent
from tests.support.receiver import Receiver, open_receiver


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with open_receiver() as opened:
        yield opened


@pytest.fixture
async def agent(database: Database) -> Agent:
    return await make_agent(database)


@pytest.fixture
def courier(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """What it runs with; its receivers are on loopback."""
    monkeypatch.setattr(rounds, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(patience, "RESTS_SECONDS", (0.05,))
    return settings.model_copy(
        update={"webhook_private": True, "public_url": "https://vigil.example.org/"}
    )
