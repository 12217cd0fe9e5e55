"""The FastStream router of the Analyzer, and the event that starts a step."""

from collections.abc import Sequence

from shared.events.envelope import Event
from shared.events.models import InsightRequested
from shared.runtime.router import EventHandler, ServiceRouter


def create_router(run_step: EventHandler, slots: int = 1) -> ServiceRouter:
    router = ServiceRouter("analyzer", slots)

    @router.subscriber()
    async def analyze(event: InsightRequested) -> Sequence[Event]:
        """Analyzes what the insight is about."""
        return await run_step(event)

    return router
