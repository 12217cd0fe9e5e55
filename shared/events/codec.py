"""Bytes to events and back."""

from pydantic import BaseModel, ValidationError

from shared.errors import PermanentError
from shared.events.envelope import Event
from shared.events.models import EVENTS

_BY_TYPE = {event.wire_type: event for event in EVENTS}


class _Head(BaseModel):
    type: str


def encode(event: Event) -> bytes:
    """`event` as JSON; what is None is left out."""
    return event.model_dump_json(exclude_none=True).encode()


def decode(payload: bytes) -> Event:
    """The event that `payload` holds.

    Raises PermanentError with code `unreadable_event` or `unknown_event` for what this version cannot understand.
    """
    try:
        wire_type = _Head.model_validate_json(payload).type
    except ValidationError as error:
        raise PermanentError("unreadable_event", f"not an event: {error}") from error
    if wire_type not in _BY_TYPE:
        raise PermanentError(
            "unknown_event",
            f"no event is named {wire_type!r} in this version of Vigil; update this actor, "
            "or look for whoever else publishes here",
        )
    try:
        return _BY_TYPE[wire_type].model_validate_json(payload)
    except ValidationError as error:
        raise PermanentError("unreadable_event", f"not a {wire_type}: {error}") from error
