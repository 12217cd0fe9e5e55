"""The FastStream router of the Adviser, and the event that starts a step."""

from collections.abc import Sequence

from shared.events.envelope import Event
from shared.events.models import AnalysisProduced
from shared.runtime.router import EventHandler, ServiceRouter


def create_router(run_step: EventHandler, slots: int = 1) -> ServiceRouter:
    router = ServiceRouter("adviser", slots)

    @router.subscriber()
    async def advise(event: AnalysisProduced) -> Sequence[Event]:
        """Turns the analyses of the iteration into advice."""
        return await run_step(event)

    return router
