"""Retractions as people ask for them, and the work that follows from them, done beside the requests."""

import asyncio
from functools import partial
from typing import Annotated, Final
from uuid import UUID

from fastapi import BackgroundTasks, Depends, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from services.api.auth.dependencies import AgentAccess
from services.api.http.openapi import length_told
from services.api.http.problem_details import NotFoundError
from services.api.queries import provenance as reading
from shared.database.engine import Database
from shared.graph.retraction import retractions
from shared.graph.retraction.propagation import lift, work_off
from shared.runtime.background import whatever_happens
from shared.schemas.provenance import RetractionView

LOOK_AGAIN_SECONDS: Final = 2.0
REFERENCE_CHARACTERS: Final = 4_000
BECAUSE_CHARACTERS: Final = 500


def _reference(text: str) -> str:
    return _said(text.strip(), REFERENCE_CHARACTERS)


def _because(text: str) -> str:
    return _said(" ".join(text.split()), BECAUSE_CHARACTERS)


def _said(text: str, longest: int) -> str:
    if not 1 <= len(text) <= longest:
        raise ValueError(f"it has {len(text)} characters, and 1 to {longest} can be taken")
    if "\x00" in text:
        raise ValueError("the character NUL cannot be stored; leave it out")
    return text


Because = Annotated[str, AfterValidator(_because), length_told(1, BECAUSE_CHARACTERS)]


class NewRetraction(BaseModel):
    """That a page is not to be believed."""

    model_config = ConfigDict(extra="forbid")

    source: Annotated[
        str,
        AfterValidator(_reference),
        length_told(1, REFERENCE_CHARACTERS),
        Field(
            description="A URL, for all versions of it that were read; or a source's id, for one"
        ),
    ]
    because: Because


class Retracting:
    """Works off what is due, soon after it was asked for, and what a process before this one left behind.

    And lifts the doubts that came of it, where new evidence puts an end to them.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Something is due. Lost, it is found at the next look."""
        self._asked.set()

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await whatever_happens(
                partial(work_off, self._database), "retractions wait for the next look"
            )
            await whatever_happens(
                partial(lift, self._database), "doubts to be lifted wait for the next look"
            )
            self._asked.clear()
            try:
                async with asyncio.timeout(LOOK_AGAIN_SECONDS):
                    await self._asked.wait()
            except TimeoutError:
                continue


class AfterCommit:
    """Has the work begun once the request's transaction is committed and its answer sent."""

    def __init__(self, request: Request, tasks: BackgroundTasks) -> None:
        self._retracting: Retracting = request.app.state.retracting
        self._tasks = tasks

    def work(self) -> None:
        self._tasks.add_task(self._retracting.ask)


Afterwards = Annotated[AfterCommit, Depends()]


async def retract(access: AgentAccess, wanted: NewRetraction) -> RetractionView:
    """Raises NotFoundError where nothing was read there."""
    try:
        made = await retractions.retract(
            access.session, access.scope, wanted.source, wanted.because
        )
    except retractions.NoSuchSourceError as error:
        raise NotFoundError("source", wanted.source) from error
    return await found(access, made)


async def restore(access: AgentAccess, retraction_id: UUID) -> RetractionView:
    if not await retractions.restore(access.session, access.scope, retraction_id):
        raise NotFoundError("retraction", retraction_id)
    return await found(access, retraction_id)


async def found(access: AgentAccess, retraction_id: UUID) -> RetractionView:
    view = await reading.find(access.session, access.owner_id, access.agent.id, retraction_id)
    if view is None:
        raise NotFoundError("retraction", retraction_id)
    return view
