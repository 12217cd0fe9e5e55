"""Application state: the objects that live as long as the API process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Self

from fastapi import FastAPI
from starlette.datastructures import State

from services.api.auth.middleware import AttemptLimiter, RecentlyValidCredentials, ValidityCheck
from services.api.auth.owner import BootstrapOwner
from services.api.auth.sign_in_links import SignInLinks
from services.api.http.dependencies import BestEffortPublisher
from services.api.http.metrics import Metrics
from services.api.resources.graph.exports import Exports
from services.api.resources.sources.retractions import RetractionWorker
from services.api.streaming.answer_stream import AnswerStreams
from services.api.streaming.event_hub import EventHub, OwnerCache
from services.api.streaming.event_window import ReplayBuffer
from services.api.verification import GraphVerifier
from shared.accounts import credentials
from shared.database.engine import Database
from shared.errors import PermanentError
from shared.notifications.smtp import Mailer
from shared.runtime.background import cancel_and_wait, log_and_continue
from shared.runtime.bus import Bus
from shared.runtime.connections import create_bus, create_database
from shared.runtime.credentials import build_nats_credentials
from shared.runtime.logging import logger
from shared.runtime.settings import Settings

POOL_SIZE: Final = 5
MAX_LINK_REQUESTS: Final = 10
"""From one address for one name, in a minute."""
MAX_BAD_LINKS: Final = 20
"""Of one address in a minute, before it has to wait."""

log = logger(__name__)


@dataclass(frozen=True)
class ApplicationState:
    settings: Settings
    database: Database
    owner: BootstrapOwner
    bus: Bus
    hub: EventHub
    answers: AnswerStreams
    invitations: SignInLinks
    retracting: RetractionWorker
    verifier: GraphVerifier
    places: RecentlyValidCredentials
    """Recent addresses of users who have signed in."""
    metrics: Metrics = field(default_factory=Metrics)

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Creates the objects. None of them is connected yet."""
        database = create_database(settings, "api", pool_size=POOL_SIZE)
        owner = BootstrapOwner(database, settings.owner)
        places = RecentlyValidCredentials()
        invitations = SignInLinks(
            settings, database, owner, Mailer(settings.smtp_url, settings.mail_from), places
        )
        retracting = RetractionWorker(database)
        hub = EventHub(
            settings.nats_url,
            build_nats_credentials(settings, "api"),
            OwnerCache(database),
            ReplayBuffer(settings.event_window, settings.event_window_bytes),
            settings.event_listeners,
            settings.event_listeners_per_user,
            retracting.note_news,
        )
        return cls(
            settings,
            database,
            owner,
            create_bus(settings, "api"),
            hub,
            AnswerStreams(database),
            invitations,
            retracting,
            GraphVerifier(settings, database),
            places,
        )

    def put_on(self, state: State) -> None:
        """Stores the objects in the application's state, from which routes take them."""
        state.settings = self.settings
        state.sandboxed = self.settings.sandboxed_providers
        state.database = self.database
        state.owner = self.owner
        state.metrics = self.metrics
        state.stop = self.stop
        state.hub = self.hub
        state.answers = self.answers
        state.publisher = BestEffortPublisher(self.bus)
        state.exports = Exports(self.database)
        state.verifier = self.verifier
        state.invitations = self.invitations
        state.retracting = self.retracting
        state.link_requests = AttemptLimiter(MAX_LINK_REQUESTS)
        state.link_attempts = AttemptLimiter(MAX_BAD_LINKS)
        state.link_check = ValidityCheck(self.database, credentials.find_valid_links)

    def stop(self) -> None:
        """Ends running streams, so that the shutdown need not wait for them."""
        self.hub.stop()
        self.answers.stop()

    @asynccontextmanager
    async def lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        """Runs the background tasks.

        Connects to PostgreSQL and NATS in the background while requests are served.
        """
        tasks = [
            asyncio.create_task(work())
            for work in (self._send_owner_link, self._reach_bus, self.hub.run, self.retracting.run)
        ]
        yield
        self.stop()
        for task in tasks:
            await cancel_and_wait(task)
        await self.answers.close()
        await self.verifier.close()
        await self.bus.close()
        await self.database.close()

    async def _send_owner_link(self) -> None:
        await self.owner.wait()
        await log_and_continue(
            self.invitations.send_owner_link, "could not create the owner's sign-in link"
        )

    async def _reach_bus(self) -> None:
        try:
            await self.bus.connect()
        except PermanentError as error:
            log.error(
                "cannot connect to NATS; requested work starts at the next check of the reconciler",
                reason=str(error),
            )
