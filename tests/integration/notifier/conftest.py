"""A notifier that polls often and retries soon, and an HTTP receiver."""

from collections.abc import AsyncIterator

import pytest

from services.notifier import dispatcher, retry_schedule
from shared.database.engine import Database
from shared.database.tables import Agent
from shared.runtime.settings import Settings
from tests.support.factories import make_agent
from tests.support.webhook_server import WebhookReceiver, open_receiver


@pytest.fixture
async def receiver() -> AsyncIterator[WebhookReceiver]:
    async with open_receiver() as opened:
        yield opened


@pytest.fixture
async def agent(database: Database) -> Agent:
    return await make_agent(database)


@pytest.fixture
def notifier(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The notifier's settings; its receivers are on loopback."""
    monkeypatch.setattr(dispatcher, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(retry_schedule, "BACKOFF_SECONDS", (0.05,))
    return settings.model_copy(
        update={"webhook_private": True, "public_url": "https://vigil.example.org/"}
    )
