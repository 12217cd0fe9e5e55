"""Messages that could not be handled, and steps that failed for good: looked at, retried, discarded."""

from http import HTTPStatus
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query

from services.api.access import Access, Owned
from services.api.problems import ConflictError, NotFoundError
from shared.store import dead_letters as store
from shared.store.reading import dead_letters
from shared.store.reading.shapes import DeadLetterDetails, DeadLetterView
from shared.store.tables import DeadLetter

router = APIRouter(prefix="/dead-letters", tags=["dead letters"])


async def _found(
    access: Owned,
    letter: Annotated[str, Path(description="The letter's id, or as much of it as is its own")],
) -> DeadLetterDetails:
    return await _find(access, letter)


Found = Annotated[DeadLetterDetails, Depends(_found, scope="function")]


@router.get("")
async def list_all(
    access: Owned,
    actor: str | None = None,
    before: UUID | None = None,
    limit: Annotated[int, Query(ge=1, le=dead_letters.MAX_LIMIT)] = 50,
) -> list[DeadLetterView]:
    """The newest first; `before` is the id of the letter after which to go on."""
    if before is not None:
        await _find(access, str(before))
    return await dead_letters.seen_by(
        access.session, access.caller, actor=actor, before=before, limit=limit
    )


@router.get("/{letter}")
async def show(found: Found) -> DeadLetterDetails:
    return found


@router.post("/{letter}/retry", status_code=HTTPStatus.ACCEPTED)
async def retry(access: Owned, found: Found) -> DeadLetterView:
    """Asks for the message to be published again, the failed step to be tried again.

    The scheduler does it, and then the letter is gone; what fails again comes back. Asking twice asks for one.
    """
    if found.refusal is not None:
        raise ConflictError("not-retried", f"Not retried: {found.refusal}.")
    await store.ask_for_retry(access.session, await _row(access, found))
    return await _find(access, str(found.id))


@router.delete("/{letter}", status_code=HTTPStatus.NO_CONTENT)
async def discard(access: Owned, found: Found) -> None:
    """Gone for good, with a retry that has not begun. A step that failed stays failed."""
    await store.discard(access.session, await _row(access, found))


async def _find(access: Access, reference: str) -> DeadLetterDetails:
    found = await dead_letters.find(access.session, access.caller, reference)
    if not found:
        raise NotFoundError("dead letter", reference)
    if len(found) > 1:
        raise ConflictError(
            "ambiguous", f"Several dead letters begin with {reference!r}: write more of the id."
        )
    return found[0]


async def _row(access: Access, found: DeadLetterDetails) -> DeadLetter:
    return await access.session.get_one(DeadLetter, found.id)
