"""Messages that could not be handled, and steps that failed for good: looked at, retried, discarded."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Path

from services.api.auth.dependencies import Access, Owned
from services.api.http.dependencies import Page, Paging
from services.api.http.problem_details import ConflictError, NotFoundError, problems
from services.api.queries import operations
from shared.database.tables import DeadLetter
from shared.schemas.operations import DeadLetterDetails, DeadLetterView
from shared.workflow import dead_letters as store

router = APIRouter(prefix="/dead-letters", tags=["dead letters"])


async def _found(
    access: Owned,
    letter: Annotated[str, Path(description="The letter's id, or as much of it as is its own")],
) -> DeadLetterDetails:
    return await _find(access, letter)


Found = Annotated[DeadLetterDetails, Depends(_found, scope="function")]


@router.get("")
async def list_all(access: Owned, paging: Paging, actor: str | None = None) -> Page[DeadLetterView]:
    """The newest first; of one actor, where it is given."""
    return await operations.seen_by(access.session, access.caller, paging, actor=actor)


@router.get("/{letter}", responses=problems(HTTPStatus.CONFLICT))
async def show(found: Found) -> DeadLetterDetails:
    return found


@router.post(
    "/{letter}/retry", status_code=HTTPStatus.ACCEPTED, responses=problems(HTTPStatus.CONFLICT)
)
async def retry(access: Owned, found: Found) -> DeadLetterView:
    """Asks for the message to be published again, the failed step to be tried again.

    The scheduler does it, and then the letter is gone; what fails again comes back. Asking twice asks for one.
    """
    if found.refusal is not None:
        raise ConflictError("not-retried", f"Not retried: {found.refusal}.")
    await store.ask_for_retry(access.session, await _row(access, found))
    return await _find(access, str(found.id))


@router.delete(
    "/{letter}", status_code=HTTPStatus.NO_CONTENT, responses=problems(HTTPStatus.CONFLICT)
)
async def discard(access: Owned, found: Found) -> None:
    """Gone for good, with a retry that has not begun. A step that failed stays failed."""
    await store.discard(access.session, await _row(access, found))


async def _find(access: Access, reference: str) -> DeadLetterDetails:
    found = await operations.find(access.session, access.caller, reference)
    if not found:
        raise NotFoundError("dead letter", reference)
    if len(found) > 1:
        raise ConflictError(
            "ambiguous", f"Several dead letters begin with {reference!r}: write more of the id."
        )
    return found[0]


async def _row(access: Access, found: DeadLetterDetails) -> DeadLetter:
    return await access.session.get_one(DeadLetter, found.id)
