"""What the api is made of, and lives with from its start to its end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Self

from fastapi import FastAPI
from starlette.datastructures import State

from services.api.auth.middleware import Attempts, Known, ValidityCheck
from services.api.auth.owner import Owner
from services.api.auth.sign_in_links import Invitations
from services.api.commands.retractions import Retracting
from services.api.exports import Exports
from services.api.http.dependencies import Hints
from services.api.http.metrics import Metrics
from services.api.streaming.answer_stream import Answers
from services.api.streaming.event_hub import Hub, Owners
from services.api.streaming.event_window import Window
from shared.accounts import credentials
from shared.database.engine import Database
from shared.errors import PermanentError
from shared.notifications.smtp import Mailer
from shared.runtime.background import end, whatever_happens
from shared.runtime.bus import Bus
from shared.runtime.connections import bus_of, database_of
from shared.runtime.credentials import credentials_of
from shared.runtime.logging import logger
from shared.runtime.settings import Settings

POOL_SIZE: Final = 5
MOST_LINK_REQUESTS: Final = 10
"""From one address for one name, in a minute."""
MOST_BAD_LINKS: Final = 20
"""Of one address, in a minute, before the answer is to wait."""

log = logger(__name__)


@dataclass(frozen=True)
class Parts:
    settings: Settings
    database: Database
    owner: Owner
    bus: Bus
    hub: Hub
    answers: Answers
    invitations: Invitations
    retracting: Retracting
    places: Known
    """Of users that were let in, with the addresses that they came from."""
    metrics: Metrics = field(default_factory=Metrics)

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Nothing of it is connected yet."""
        database = database_of(settings, "api", pool_size=POOL_SIZE)
        owner = Owner(database, settings.owner)
        places = Known()
        invitations = Invitations(
            settings, database, owner, Mailer(settings.smtp_url, settings.mail_from), places
        )
        hub = Hub(
            settings.nats_url,
            credentials_of(settings, "api"),
            Owners(database),
            Window(settings.event_window, settings.event_window_bytes),
            settings.event_listeners,
        )
        return cls(
            settings,
            database,
            owner,
            bus_of(settings, "api"),
            hub,
            Answers(database),
            invitations,
            Retracting(database),
            places,
        )

    def put_on(self, state: State) -> None:
        """For the routes, each of which takes what it needs."""
        state.settings = self.settings
        state.database = self.database
        state.owner = self.owner
        state.metrics = self.metrics
        state.stop = self.stop
        state.hub = self.hub
        state.answers = self.answers
        state.hints = Hints(self.bus)
        state.exports = Exports(self.database)
        state.invitations = self.invitations
        state.retracting = self.retracting
        state.link_requests = Attempts(MOST_LINK_REQUESTS)
        state.link_attempts = Attempts(MOST_BAD_LINKS)
        state.link_check = ValidityCheck(self.database, credentials.find_valid_links)

    def stop(self) -> None:
        """Ends the answers that go on, so that nobody waits for their end."""
        self.hub.stop()
        self.answers.stop()

    @asynccontextmanager
    async def lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        """Whoever of Postgres and NATS is away is waited for beside the requests."""
        tasks = [
            asyncio.create_task(work())
            for work in (self._welcome, self._reach_bus, self.hub.run, self.retracting.run)
        ]
        yield
        self.stop()
        for task in tasks:
            await end(task)
        await self.answers.close()
        await self.bus.close()
        await self.database.close()

    async def _welcome(self) -> None:
        await self.owner.wait()
        await whatever_happens(
            self.invitations.welcome, "the owner's sign-in link could not be made"
        )

    async def _reach_bus(self) -> None:
        try:
            await self.bus.connect()
        except PermanentError as error:
            log.error("orders begin only when the reconciler looks", reason=str(error))
