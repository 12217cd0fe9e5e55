"""Bytes to events and back."""

import re
from typing import Final
from uuid import UUID

from pydantic import BaseModel, ValidationError

from shared.errors import PermanentError
from shared.events.envelope import Event
from shared.events.models import EVENTS
from shared.version import vigil_version

NAME_CHARACTERS: Final = 100
"""What is told of the name of an event that is not known: it may be anything."""

_BY_TYPE = {event.wire_type: event for event in EVENTS}
_SUBJECTS = {event.subject for event in EVENTS}
_VERSIONED = re.compile(r"vigil\.(?P<noun>\w+)\.v(?P<version>\d{1,9})\.(?P<verb>\w+)")


class _Head(BaseModel):
    type: str


class _Envelope(BaseModel):
    agent_id: UUID


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
        raise PermanentError("unreadable_event", f"not an event: {_faults(error)}") from error
    if wire_type not in _BY_TYPE:
        raise PermanentError("unknown_event", _unknown(wire_type))
    try:
        return _BY_TYPE[wire_type].model_validate_json(payload)
    except ValidationError as error:
        raise PermanentError("unreadable_event", f"not a {wire_type}: {_faults(error)}") from error


def agent_of(payload: bytes) -> UUID | None:
    """Whom the event is about, in whatever version it is; None where it is no event."""
    try:
        return _Envelope.model_validate_json(payload).agent_id
    except ValidationError:
        return None


def _unknown(wire_type: str) -> str:
    does_not_know = f"this version of Vigil ({vigil_version()}) does not know"
    named = _VERSIONED.fullmatch(wire_type)
    if named and f"{named['noun']}.{named['verb']}" in _SUBJECTS:
        return (
            f"{does_not_know} version {named['version']} of {named['noun']}.{named['verb']}: "
            "a newer one has sent it; upgrade, then retry"
        )
    return (
        f"{does_not_know} the event {wire_type[:NAME_CHARACTERS]!r}: if a newer one has sent it, upgrade, then retry; "
        "else look for whoever publishes here"
    )


def _faults(error: ValidationError) -> str:
    return "; ".join(
        ": ".join([*map(str, fault["loc"]), fault["msg"]])
        for fault in error.errors(include_url=False, include_input=False, include_context=False)
    )
