"""What an owner does with inbox items: decide, snooze, give feedback."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict

from services.api.auth.dependencies import Access
from services.api.http.openapi import length_in_schema
from services.api.http.problem_details import ConflictError, NotFoundError
from services.api.resources.inbox import model as notifications
from shared.agents.feedback import MAX_FEEDBACK_CHARS
from shared.enums import InboxKind, InboxOutcome
from shared.schemas.base import InboxItemResponse

MAX_SNOOZE: Final = timedelta(days=366)


def _soon(moment: datetime) -> datetime:
    if not timedelta(0) < moment - datetime.now(UTC) <= MAX_SNOOZE:
        raise ValueError("enter a time within the next year")
    return moment


class NewSnooze(BaseModel):
    """Until when an item is hidden."""

    model_config = ConfigDict(extra="forbid")

    until: Annotated[AwareDatetime, AfterValidator(_soon)]


def _feedback(text: str | None) -> str | None:
    """One paragraph; None if nothing is said."""
    words = " ".join((text or "").split())
    if len(words) > MAX_FEEDBACK_CHARS:
        raise ValueError(
            f"it has {len(words)} characters; at most {MAX_FEEDBACK_CHARS} are allowed"
        )
    if "\x00" in words:
        raise ValueError("the character NUL cannot be stored; leave it out")
    return words or None


FeedbackText = Annotated[
    str | None, AfterValidator(_feedback), length_in_schema(0, MAX_FEEDBACK_CHARS)
]


class NewFeedback(BaseModel):
    """What the owner says about an item. What is left out is deleted."""

    model_config = ConfigDict(extra="forbid")

    useful: bool | None = None
    text: FeedbackText = None


async def accept(access: Access, item_id: UUID) -> InboxItemResponse:
    """Raises NotFoundError, and ConflictError for a notice."""
    item = await find(access, item_id)
    if item.kind != InboxKind.ADVICE:
        raise ConflictError(
            "not-advice", "This is a notice, which cannot be accepted: dismiss it instead."
        )
    return await _decide(access, item_id, InboxOutcome.ACCEPTED)


async def dismiss(access: Access, item_id: UUID) -> InboxItemResponse:
    """Raises NotFoundError."""
    return await _decide(access, item_id, InboxOutcome.DISMISSED)


async def reopen(access: Access, item_id: UUID) -> InboxItemResponse:
    """Raises NotFoundError."""
    return _existing(await notifications.reopen(access.session, access.owner_id, item_id), item_id)


async def snooze(access: Access, item_id: UUID, until: datetime) -> InboxItemResponse:
    """Raises NotFoundError."""
    return _existing(
        await notifications.snooze(access.session, access.owner_id, item_id, until), item_id
    )


async def give_feedback(access: Access, item_id: UUID, feedback: NewFeedback) -> InboxItemResponse:
    """Raises NotFoundError."""
    item = await notifications.give_feedback(
        access.session, access.owner_id, item_id, feedback.useful, feedback.text
    )
    return _existing(item, item_id)


async def find(access: Access, item_id: UUID) -> InboxItemResponse:
    """Raises NotFoundError."""
    return _existing(
        await notifications.find_inbox_item(access.session, access.owner_id, item_id), item_id
    )


async def _decide(access: Access, item_id: UUID, outcome: InboxOutcome) -> InboxItemResponse:
    item = await notifications.decide(access.session, access.owner_id, item_id, outcome)
    return _existing(item, item_id)


def _existing(item: InboxItemResponse | None, item_id: UUID) -> InboxItemResponse:
    if item is None:
        raise NotFoundError("inbox item", item_id)
    return item
