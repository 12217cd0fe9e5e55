"""Serialization of events."""

import re
from typing import Final
from uuid import UUID

from pydantic import BaseModel, ValidationError

from shared.errors import PermanentError
from shared.events.envelope import Event
from shared.events.models import EVENTS
from shared.version import vigil_version

MAX_NAME_CHARS: Final = 100
"""Maximum length of an unknown event name in an error: it may contain anything."""

_BY_TYPE = {event.wire_type: event for event in EVENTS}
_SUBJECTS = {event.subject for event in EVENTS}
_VERSIONED = re.compile(r"vigil\.(?P<noun>\w+)\.v(?P<version>\d{1,9})\.(?P<verb>\w+)")


class _Head(BaseModel):
    type: str


class _Envelope(BaseModel):
    agent_id: UUID


def encode(event: Event) -> bytes:
    """`event` as JSON; fields that are None are omitted."""
    return event.model_dump_json(exclude_none=True).encode()


def decode(payload: bytes) -> Event:
    """Parses `payload`.

    Raises PermanentError with code `unreadable_event` or `unknown_event` for what this version cannot parse.
    """
    try:
        wire_type = _Head.model_validate_json(payload).type
    except ValidationError as error:
        raise PermanentError("unreadable_event", f"not an event: {_describe(error)}") from error
    if wire_type not in _BY_TYPE:
        raise PermanentError("unknown_event", _unknown(wire_type))
    try:
        return _BY_TYPE[wire_type].model_validate_json(payload)
    except ValidationError as error:
        raise PermanentError(
            "unreadable_event", f"not a {wire_type}: {_describe(error)}"
        ) from error


def agent_id_of(payload: bytes) -> UUID | None:
    """The agent id in the payload of any version of an event; None if it is not an event."""
    try:
        return _Envelope.model_validate_json(payload).agent_id
    except ValidationError:
        return None


def _unknown(wire_type: str) -> str:
    does_not_know = f"this version of Vigil ({vigil_version()}) does not know"
    match = _VERSIONED.fullmatch(wire_type)
    if match and f"{match['noun']}.{match['verb']}" in _SUBJECTS:
        return (
            f"{does_not_know} version {match['version']} of {match['noun']}.{match['verb']}: "
            "a newer version sent it; upgrade, then retry"
        )
    return (
        f"{does_not_know} the event {wire_type[:MAX_NAME_CHARS]!r}: if a newer version sent it, upgrade, then retry; "
        "otherwise find the program that publishes on this subject"
    )


def _describe(error: ValidationError) -> str:
    return "; ".join(
        ": ".join([*map(str, detail["loc"]), detail["msg"]])
        for detail in error.errors(include_url=False, include_input=False, include_context=False)
    )
