"""Commands of notification destinations: create, rotate the secret."""

from datetime import timedelta
from http import HTTPStatus
from typing import Annotated, Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from services.api.http.problem_details import ConflictError, NotFoundError, ProblemError
from services.api.resources.agents import model as reading_agents
from services.api.resources.destinations import model as reading
from shared.database.transaction import Transaction
from shared.enums import DestinationKind
from shared.errors import PermanentError
from shared.notifications import destinations as store
from shared.notifications import webhooks
from shared.notifications.smtp import parse_address
from shared.notifications.webhooks import new_secret
from shared.runtime.settings import Settings
from shared.schemas.notifications import CreatedDestination, DestinationDetails, NewSecret
from shared.workflow.iterations import database_time

SECRET_OVERLAP: Final = timedelta(hours=24)
"""How long a replaced secret still signs deliveries too, so that receivers have time to change it."""


class NewDestination(BaseModel):
    """Where inbox items are sent from now on: of one agent (its id or name), or of all."""

    model_config = ConfigDict(extra="forbid")

    kind: DestinationKind
    address: Annotated[str, StringConstraints(min_length=1, max_length=2000)]
    """An http or https URL, or a mail address."""
    agent: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None


class DestinationChange(BaseModel):
    model_config = ConfigDict(extra="forbid")

    active: Annotated[bool, Field(description="Whether inbox items are sent to it")]


async def create_destination(
    session: Transaction, owner_id: UUID, new_destination: NewDestination, settings: Settings
) -> CreatedDestination:
    """Creates a destination. Raises ProblemError."""
    agent_id = await _agent_id(session, owner_id, new_destination.agent)
    checked_address = _validated_address(new_destination, settings)
    if await store.lock_and_count(session, owner_id) >= store.MAX_DESTINATIONS:
        raise ConflictError(
            "too-many-destinations",
            f"You have {store.MAX_DESTINATIONS} destinations, the maximum: delete one first.",
        )
    destination_id = await store.create(
        session, owner_id, kind=new_destination.kind, address=checked_address, agent_id=agent_id
    )
    if destination_id is None:
        raise ConflictError(
            "destination-exists",
            "This destination already exists, for the same agent or for all agents.",
        )
    secret = None
    if new_destination.kind is DestinationKind.WEBHOOK:
        secret = new_secret()
        await store.rotate_secret(session, destination_id, secret, overlap=timedelta())
    destination = await get_destination(session, owner_id, destination_id)
    return CreatedDestination(**destination.model_dump(exclude={"deliveries"}), secret=secret)


async def get_destination(
    session: Transaction, owner_id: UUID, destination_id: UUID
) -> DestinationDetails:
    """Returns the destination. Raises NotFoundError."""
    destination = await reading.find_destination(session, owner_id, destination_id)
    if destination is None:
        raise NotFoundError("destination", destination_id)
    return destination


async def rotate_secret(session: Transaction, destination: DestinationDetails) -> NewSecret:
    """Replaces the signing secret. Raises ConflictError where the destination has none."""
    if destination.kind != DestinationKind.WEBHOOK:
        raise ConflictError("no-secret", "Emails are not signed: only webhooks have a secret.")
    secret = new_secret()
    await store.rotate_secret(session, destination.id, secret, overlap=SECRET_OVERLAP)
    return NewSecret(
        secret=secret, previous_signs_until=await database_time(session) + SECRET_OVERLAP
    )


async def _agent_id(session: Transaction, owner_id: UUID, reference: str | None) -> UUID | None:
    if reference is None:
        return None
    agent = await reading_agents.find_agent(session, owner_id, reference)
    if agent is None:
        raise NotFoundError("agent", reference)
    return agent.id


def _validated_address(new_destination: NewDestination, settings: Settings) -> str:
    try:
        if new_destination.kind is DestinationKind.WEBHOOK:
            return webhooks.validate_url(new_destination.address, private=settings.webhook_private)
        plain_address = parse_address(new_destination.address.strip()).addr_spec
    except PermanentError as error:
        reason = str(error)
        detail = f"{reason[:1].upper()}{reason[1:]}."
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "bad-address", detail) from error
    if settings.smtp_url is None:
        raise ConflictError(
            "mail-off",
            "This installation has no mail server: ask its operator to set VIGIL_SMTP_URL and VIGIL_MAIL_FROM.",
        )
    return plain_address
