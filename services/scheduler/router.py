"""The FastStream router of the scheduler, and the events after which a run may be due."""

from collections.abc import Sequence

from shared.events.envelope import Event
from shared.events.models import (
    ConfigurationCompleted,
    IterationCompleted,
    IterationFailed,
)
from shared.runtime.router import EventHandler, ServiceRouter


def create_router(handle: EventHandler, slots: int = 1) -> ServiceRouter:
    router = ServiceRouter("scheduler", slots)

    @router.subscriber()
    async def wake(
        event: IterationCompleted | IterationFailed | ConfigurationCompleted,
    ) -> Sequence[Event]:
        """Records the iteration's end; the agent's next run may be due already."""
        return await handle(event)

    return router
