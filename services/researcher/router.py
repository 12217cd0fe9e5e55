"""The FastStream router of the Researcher, and the event that starts a step."""

from collections.abc import Sequence

from shared.events.envelope import Event
from shared.events.models import QueryRequested
from shared.runtime.router import EventHandler, ServiceRouter


def create_router(run_step: EventHandler, slots: int = 1) -> ServiceRouter:
    router = ServiceRouter("researcher", slots)

    @router.subscriber()
    async def research(event: QueryRequested) -> Sequence[Event]:
        """Researches the query, and writes what it finds into the graph."""
        return await run_step(event)

    return router
