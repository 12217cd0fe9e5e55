"""Commands of retractions, and the background task that propagates them."""

import asyncio
from functools import partial
from typing import Annotated, Final, Self
from uuid import UUID

from fastapi import BackgroundTasks, Body, Depends, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from services.api.auth.dependencies import AgentAccess, OwnedAgent
from services.api.http.problem_details import ConflictError, NotFoundError
from services.api.http.texts import length_in_schema, trimmed
from services.api.resources.sources.model import get_retraction
from shared.database.engine import Database
from shared.domains import MAX_DOMAIN_CHARS, normalize_domain
from shared.graph.retraction import doubts, retractions
from shared.graph.retraction.propagation import (
    propagate_refusals,
    propagate_retractions,
    resolve_doubts,
)
from shared.graph.validity import apply_boundaries
from shared.runtime.background import log_and_continue
from shared.schemas.provenance import RetractionPreview, RetractionResponse

MIN_PAUSE_SECONDS: Final = 2.0
"""Between two looks, unless one is requested."""
MAX_PAUSE_SECONDS: Final = 10.0
"""Between two looks without an event: one may be lost."""
MAX_REFERENCE_CHARS: Final = 4_000
MAX_REASON_CHARS: Final = 500


Reason = Annotated[
    str, trimmed(MAX_REASON_CHARS, is_line=True), length_in_schema(1, MAX_REASON_CHARS)
]


Site = Annotated[
    str,
    Field(
        max_length=MAX_DOMAIN_CHARS,
        description="A domain, as in example.com; it covers its subdomains",
    ),
    AfterValidator(normalize_domain),
]
Source = Annotated[
    str,
    trimmed(MAX_REFERENCE_CHARS),
    length_in_schema(1, MAX_REFERENCE_CHARS),
    Field(description="The URL of a page, or the id of a version of it"),
]


class Retracted(BaseModel):
    """A page with all of its versions, or a site with all of its pages."""

    model_config = ConfigDict(extra="forbid")

    source: Source | None = None
    site: Site | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.source is None) is (self.site is None):
            raise ValueError("name either a source or a site")
        return self


class NewRetraction(Retracted):
    """That a page is not to be believed, or a site, which is barred then."""

    reason: Reason


class RetractionWorker:
    """Background task: propagates retractions soon after they were requested, and those that an
    earlier process left; and contradictions that checks of evidence found. It applies validities that begin or end.

    It also resolves the resulting doubts where new evidence answers them.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._wakeup = asyncio.Event()
        self._news = asyncio.Event()

    def wake(self) -> None:
        """Starts a look at once. If a signal is lost, a later look finds the work."""
        self._wakeup.set()
        self._news.set()

    def note_news(self) -> None:
        """Starts a look soon: what has happened may need one."""
        self._news.set()

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            # What comes during a look causes another one.
            self._wakeup.clear()
            self._news.clear()
            await log_and_continue(
                partial(propagate_retractions, self._database), "retractions wait for the next look"
            )
            await log_and_continue(
                partial(propagate_refusals, self._database),
                "refused values wait for the next look",
            )
            await log_and_continue(
                partial(apply_boundaries, self._database), "validities wait for the next look"
            )
            await log_and_continue(
                partial(resolve_doubts, self._database),
                "doubts to be lifted wait for the next look",
            )
            if not await _is_set_within(MIN_PAUSE_SECONDS, self._wakeup):
                await _is_set_within(MAX_PAUSE_SECONDS - MIN_PAUSE_SECONDS, self._news)


async def _is_set_within(seconds: float, signal: asyncio.Event) -> bool:
    """Waits for the signal. False if it was not set in time."""
    try:
        async with asyncio.timeout(seconds):
            return await signal.wait()
    except TimeoutError:
        return False


class WakeAfterCommit:
    """Wakes the task after the request's transaction is committed and its response sent."""

    def __init__(self, request: Request, tasks: BackgroundTasks) -> None:
        self._retracting: RetractionWorker = request.app.state.retracting
        self._tasks = tasks

    def work(self) -> None:
        self._tasks.add_task(self._retracting.wake)


RetractionWakeup = Annotated[WakeAfterCommit, Depends()]


async def retract_source(
    access: AgentAccess, afterwards: WakeAfterCommit, new_retraction: NewRetraction
) -> RetractionResponse:
    """Retracts a page, or bars a site.

    Raises NotFoundError where no such page was read, and ConflictError where the site cannot be barred.
    """
    session, scope, reason = access.session, access.scope, new_retraction.reason
    try:
        if new_retraction.site is None:
            retraction = await retractions.retract_source(
                session, scope, new_retraction.source or "", reason
            )
        else:
            retraction = await retractions.bar_site(session, scope, new_retraction.site, reason)
    except retractions.NoSuchSourceError as error:
        raise NotFoundError("source", new_retraction.source) from error
    except retractions.SiteNotBarredError as error:
        raise ConflictError("site-not-barred", str(error)) from error
    afterwards.work()
    return await get_retraction(access, retraction)


async def restore_source(
    access: OwnedAgent, afterwards: RetractionWakeup, retraction_id: UUID
) -> RetractionResponse:
    """Undoes a retraction; a site is no longer barred then. The graph is re-evaluated afterwards. Repeated requests count
    once.
    """
    if not await retractions.restore_source(access.session, access.scope, retraction_id):
        raise NotFoundError("retraction", retraction_id)
    afterwards.work()
    return await get_retraction(access, retraction_id)


async def preview_retraction(
    access: OwnedAgent, body: Annotated[Retracted, Body()]
) -> RetractionPreview:
    """Returns what a retraction would cover and change now. It changes nothing."""
    try:
        if body.site is None:
            covered = await retractions.find_page(access.session, access.scope, body.source or "")
        else:
            covered = await retractions.find_site(access.session, access.scope, body.site)
    except retractions.NoSuchSourceError as error:
        raise NotFoundError("source", body.source) from error
    foreseen = await doubts.foresee_retraction(access.session, access.scope, set(covered.sources))
    return RetractionPreview(
        url=covered.name,
        site=body.site,
        pages=covered.pages,
        sources=len(covered.sources),
        unsupported=foreseen.unsupported,
        changed=foreseen.changed,
        analyses=foreseen.analyses,
        advice=foreseen.advice,
    )
