"""The FastStream router of the Observer, and the event that starts a step."""

from collections.abc import Sequence

from shared.events.envelope import Event
from shared.events.models import IterationStarted
from shared.runtime.router import EventHandler, ServiceRouter


def create_router(run_step: EventHandler, slots: int = 1) -> ServiceRouter:
    router = ServiceRouter("observer", slots)

    @router.subscriber()
    async def plan(event: IterationStarted) -> Sequence[Event]:
        """Plans the iteration."""
        return await run_step(event)

    return router
