"""What every event carries, whatever it says."""

from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Self
from uuid import NAMESPACE_URL, UUID, uuid5

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict

EVENT_NAMESPACE = uuid5(NAMESPACE_URL, "urn:vigil:event")


def in_utc(moment: datetime) -> datetime:
    """Raises ValueError where the moment, in UTC, is before the year 1 or after the year 9999."""
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{moment.isoformat()} is out of range") from error


Utc = Annotated[AwareDatetime, AfterValidator(in_utc)]


def event_id(event_type: str, *subject_ids: UUID) -> UUID:
    """The same for every publication of the same fact, so that the bus and every reader can tell doubles apart."""
    return uuid5(EVENT_NAMESPACE, "/".join([event_type, *(str(part) for part in subject_ids)]))


class Event(BaseModel):
    """Base of all events. Frozen; unknown fields are ignored, so that an older actor understands a newer event.

    Only optional fields may ever be added to a released event; a changed meaning is a new version of its type.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    subject: ClassVar[str]
    """NATS subject, which is also the event's name; holds no ids."""
    wire_type: ClassVar[str]
    """Versioned name on the wire, as in `vigil.query.v1.completed`."""

    identity: ClassVar[tuple[str, ...]]
    """The fields that make this fact this one; the event's id is derived from them."""
    belongs_to: ClassVar[str]
    """The field with the id of what all of this belongs to."""

    event_id: UUID
    type: str
    occurred_at: Utc
    """When the fact was committed, by the database's clock."""
    agent_id: UUID
    correlation_id: UUID
    """The iteration, or the step of none, that all of this belongs to."""
    traceparent: str | None = None
    """W3C trace context of the publisher."""

    @classmethod
    def of(cls, **facts: Any) -> Self:
        """The event that tells `facts`; it has the same id whenever and by whomever it is built."""
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
