"""The FastStream router of the notifier, and the event that announces an inbox item."""

from collections.abc import Sequence

from shared.events.envelope import Event
from shared.events.models import AdviceProduced
from shared.runtime.router import EventHandler, ServiceRouter


def create_router(handle: EventHandler, slots: int = 1) -> ServiceRouter:
    router = ServiceRouter("notifier", slots)

    @router.subscriber()
    async def wake(event: AdviceProduced) -> Sequence[Event]:
        """Starts the next round of deliveries."""
        return await handle(event)

    return router
