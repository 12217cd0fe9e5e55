"""Pages of lists, and hints in answers.

A route takes `paging: Paging`, hands it to a reader that ends in `shared.database.pagination.slice_of`, and returns a
`Page`. A cursor that is none is told by `BadCursorError`, which `services.api.http.problem_details` makes a problem.
"""

from typing import Annotated

from fastapi import BackgroundTasks, Depends, Query, Request

from shared.errors import TransientError
from shared.events.envelope import Event
from shared.runtime.bus import Bus
from shared.runtime.logging import logger
from shared.schemas.base import LARGEST_PAGE, PAGE_SIZE, Page, Wanted

__all__ = ["Page", "Paging"]


def _paging(
    limit: Annotated[
        int, Query(ge=1, le=LARGEST_PAGE, description="How many to tell at most")
    ] = PAGE_SIZE,
    cursor: Annotated[
        str | None,
        Query(description="`next` of the page before; without it, the list from its beginning"),
    ] = None,
) -> Wanted:
    return Wanted(limit, cursor)


Paging = Annotated[Wanted, Depends(_paging)]


log = logger(__name__)


class Hints:
    """Tells the bus where there is one; an order is committed before, so that nothing hangs on it."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def tell(self, event: Event) -> None:
        """Publishes `event`. Call when what it tells of is committed: best as the response's background task."""
        if not self._bus.is_connected:
            log.warning("not told yet, for NATS is away; it will be", about=event.subject)
            return
        try:
            await self._bus.publish(event)
        except TransientError as error:
            log.warning("not told yet; it will be", about=event.subject, reason=str(error))


class AfterCommit:
    """Tells the bus what a request has ordered, once its transaction is committed and its answer sent."""

    def __init__(self, request: Request, tasks: BackgroundTasks) -> None:
        self._hints: Hints = request.app.state.hints
        self._tasks = tasks

    def tell(self, event: Event) -> None:
        self._tasks.add_task(self._hints.tell, event)


Afterwards = Annotated[AfterCommit, Depends()]
