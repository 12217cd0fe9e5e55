"""What people order of destinations: made, tested, stopped, given another secret."""

from datetime import timedelta
from http import HTTPStatus
from typing import Annotated, Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from sqlalchemy.ext.asyncio import AsyncSession

from services.api.http.problem_details import ConflictError, NotFoundError, ProblemError
from services.api.queries import agents as reading_agents
from services.api.queries import notifications as reading
from shared.enums import DestinationKind
from shared.errors import PermanentError
from shared.notifications import destinations as store
from shared.notifications import webhooks
from shared.notifications.smtp import address
from shared.notifications.webhooks import new_secret
from shared.runtime.settings import Settings
from shared.schemas.notifications import CreatedDestination, DestinationDetails, NewSecret
from shared.workflow.iterations import clock

OVERLAP: Final = timedelta(hours=24)
"""For which a secret that was replaced signs too, so that receivers can be told the new one in peace."""


class NewDestination(BaseModel):
    """Where inbox items are sent from now on: of one agent (its id or name), or of all."""

    model_config = ConfigDict(extra="forbid")

    kind: DestinationKind
    address: Annotated[str, StringConstraints(min_length=1, max_length=2000)]
    """An http or https URL, or a mail address."""
    agent: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None


class DestinationChange(BaseModel):
    model_config = ConfigDict(extra="forbid")

    active: Annotated[bool, Field(description="Whether anything is sent there")]


async def create(
    session: AsyncSession, owner_id: UUID, wanted: NewDestination, settings: Settings
) -> CreatedDestination:
    """Raises ProblemError."""
    agent_id = await _agent_id(session, owner_id, wanted.agent)
    given = _checked(wanted, settings)
    if await store.count(session, owner_id) >= store.MOST:
        raise ConflictError(
            "too-many-destinations", f"There are {store.MOST} destinations: delete one first."
        )
    made = await store.create(session, owner_id, kind=wanted.kind, address=given, agent_id=agent_id)
    if made is None:
        raise ConflictError("destination-exists", "There is such a destination already.")
    secret = None
    if wanted.kind is DestinationKind.WEBHOOK:
        secret = new_secret()
        await store.give_secret(session, made, secret, overlap=timedelta())
    found = await find(session, owner_id, made)
    return CreatedDestination(**found.model_dump(exclude={"deliveries"}), secret=secret)


async def find(session: AsyncSession, owner_id: UUID, destination_id: UUID) -> DestinationDetails:
    """Raises NotFoundError."""
    found = await reading.find_destination(session, owner_id, destination_id)
    if found is None:
        raise NotFoundError("destination", destination_id)
    return found


async def rotate_secret(session: AsyncSession, destination: DestinationDetails) -> NewSecret:
    """Raises ConflictError where nothing is signed."""
    if destination.kind != DestinationKind.WEBHOOK:
        raise ConflictError("no-secret", "Mails are not signed: only a webhook has a secret.")
    secret = new_secret()
    await store.give_secret(session, destination.id, secret, overlap=OVERLAP)
    return NewSecret(secret=secret, previous_signs_until=await clock(session) + OVERLAP)


async def _agent_id(session: AsyncSession, owner_id: UUID, reference: str | None) -> UUID | None:
    if reference is None:
        return None
    found = await reading_agents.find(session, owner_id, reference)
    if found is None:
        raise NotFoundError("agent", reference)
    return found.id


def _checked(wanted: NewDestination, settings: Settings) -> str:
    try:
        if wanted.kind is DestinationKind.WEBHOOK:
            return webhooks.checked(wanted.address, private=settings.webhook_private)
        given = address(wanted.address.strip()).addr_spec
    except PermanentError as error:
        raise ProblemError(
            HTTPStatus.UNPROCESSABLE_ENTITY, "bad-address", f"address: {error}."
        ) from error
    if settings.smtp_url is None:
        raise ConflictError(
            "mail-off",
            "This installation sends no mail: its operator sets VIGIL_SMTP_URL and VIGIL_MAIL_FROM.",
        )
    return given
