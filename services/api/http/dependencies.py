"""FastAPI dependencies for pagination, for events after the commit and for streams.

A route takes `page_request: PageQuery`, passes it to a query that ends in
`shared.database.pagination.paginate`, and returns a `Page`. An invalid cursor raises
`InvalidCursorError`, which `services.api.http.problem_details` translates.
"""

from collections.abc import AsyncIterator
from typing import Annotated, Final

from fastapi import BackgroundTasks, Depends, Query, Request

from services.api.auth.middleware import CALLER
from services.api.streaming.event_hub import EventHub
from shared.accounts.authentication import Caller
from shared.errors import TransientError
from shared.events.envelope import Event
from shared.runtime.bus import Bus
from shared.runtime.logging import logger
from shared.schemas.base import LARGEST_PAGE, PAGE_SIZE, Page, PageRequest

__all__ = ["Page", "PageQuery"]


async def _page_request(
    limit: Annotated[
        int, Query(ge=1, le=LARGEST_PAGE, description="Maximum number of items")
    ] = PAGE_SIZE,
    cursor: Annotated[
        str | None,
        Query(
            description="`next` of the previous page; without it, the list starts from the beginning"
        ),
    ] = None,
) -> PageRequest:
    return PageRequest(limit, cursor)


PageQuery = Annotated[PageRequest, Depends(_page_request)]


async def _counted_stream(request: Request) -> AsyncIterator[None]:
    """Raises TooManyError and TransientError as `EventHub.listening` does."""
    hub: EventHub = request.app.state.hub
    caller: Caller = request.scope[CALLER]
    with hub.listening(caller.user_id):
        yield


COUNTED_STREAM: Final = Depends(_counted_stream)
"""Counts the response as an open stream of the user until it has ended."""


log = logger(__name__)


class BestEffortPublisher:
    """Publishes events on a best-effort basis.

    The request is committed before, so nothing depends on it.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def publish(self, event: Event) -> None:
        """Publishes `event`.

        Call it after the commit, preferably as a background task of the response.
        """
        if not self._bus.is_connected:
            log.warning(
                "event not published: NATS is unavailable; the reconciler will publish it",
                about=event.subject,
            )
            return
        try:
            await self._bus.publish(event)
        except TransientError as error:
            log.warning(
                "event not published; the reconciler will publish it",
                about=event.subject,
                reason=str(error),
            )


class PublishAfterCommit:
    """Publishes the event of a request after its transaction is committed and its response sent."""

    def __init__(self, publisher: BestEffortPublisher, tasks: BackgroundTasks) -> None:
        self._publisher = publisher
        self._tasks = tasks

    def publish(self, event: Event) -> None:
        self._tasks.add_task(self._publisher.publish, event)


async def _publish_after_commit(request: Request, tasks: BackgroundTasks) -> PublishAfterCommit:
    return PublishAfterCommit(request.app.state.publisher, tasks)


EventAfterCommit = Annotated[PublishAfterCommit, Depends(_publish_after_commit)]
