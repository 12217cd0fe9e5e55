"""The FastStream router of the aggregator, and the events that end a step."""

from collections.abc import Sequence

from shared.events.envelope import Event
from shared.events.models import (
    AdviceCompleted,
    AdviceFailed,
    InsightCompleted,
    InsightFailed,
    PlanFailed,
    PlanProduced,
    QueryCompleted,
    QueryFailed,
)
from shared.runtime.router import EventHandler, ServiceRouter


def create_router(aggregate: EventHandler, slots: int = 1) -> ServiceRouter:
    router = ServiceRouter("aggregator", slots)

    @router.subscriber()
    async def join(
        event: PlanProduced
        | PlanFailed
        | QueryCompleted
        | QueryFailed
        | InsightCompleted
        | InsightFailed
        | AdviceCompleted
        | AdviceFailed,
    ) -> Sequence[Event]:
        """Moves the iteration on when all steps of its stage have ended."""
        return await aggregate(event)

    return router
