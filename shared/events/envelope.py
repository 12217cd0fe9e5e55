"""The base class of all events."""

from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Self
from uuid import NAMESPACE_URL, UUID, uuid5

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict

EVENT_NAMESPACE = uuid5(NAMESPACE_URL, "urn:vigil:event")


def in_utc(moment: datetime) -> datetime:
    """`moment` in UTC. Raises ValueError if it is then before year 1 or after year 9999."""
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{moment.isoformat()} is out of range") from error


Utc = Annotated[AwareDatetime, AfterValidator(in_utc)]


def event_id(event_type: str, *subject_ids: UUID) -> UUID:
    """A deterministic id: the same for every publication of the same fact, so that duplicates are recognized."""
    return uuid5(EVENT_NAMESPACE, "/".join([event_type, *(str(part) for part in subject_ids)]))


class Event(BaseModel):
    """Base of all events. Frozen; unknown fields are ignored, so that an older service can read newer events.

    Only optional fields may be added to a released event; a changed meaning needs a new version of its type.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    subject: ClassVar[str]
    """NATS subject, which is also the event's name; contains no ids."""
    wire_type: ClassVar[str]
    """Versioned name on the wire, as in `vigil.query.v1.completed`."""

    identity: ClassVar[tuple[str, ...]]
    """The fields that identify the fact; the event id is derived from them."""
    belongs_to: ClassVar[str]
    """The field whose id becomes the correlation id."""

    event_id: UUID
    type: str
    occurred_at: Utc
    """When the fact was committed, by the database's clock."""
    agent_id: UUID
    correlation_id: UUID
    """The iteration, or the step for a step without iteration."""

    @classmethod
    def of(cls, **facts: Any) -> Self:
        """Creates the event for `facts`; its id depends on the facts only."""
        return cls(
            event_id=event_id(cls.wire_type, *(facts[field] for field in cls.identity)),
            type=cls.wire_type,
            correlation_id=facts[cls.belongs_to],
            **facts,
        )

    def __init_subclass__(cls, *, subject: str | None = None, version: int = 1) -> None:
        super().__init_subclass__()
        if subject is not None:
            noun, verb = subject.split(".")
            cls.subject = subject
            cls.wire_type = f"vigil.{noun}.v{version}.{verb}"
