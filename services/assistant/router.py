"""The FastStream router of the assistant, and the events that start a step."""

from collections.abc import Sequence

from shared.events.envelope import Event
from shared.events.models import AnswerRequested, ConfigurationRequested
from shared.runtime.router import EventHandler, ServiceRouter


def create_router(run_step: EventHandler, slots: int = 1) -> ServiceRouter:
    router = ServiceRouter("assistant", slots)

    @router.subscriber()
    async def assist(event: ConfigurationRequested | AnswerRequested) -> Sequence[Event]:
        """Configures the agent, or answers the message."""
        return await run_step(event)

    return router
