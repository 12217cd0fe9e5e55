"""Server-Sent Events, as bytes."""

import json
from typing import Final

from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from services.api.events.window import Gap
from shared.events.tail import Told

RETRY_MILLISECONDS: Final = 1000
"""When a listener that was cut off should come again."""
GAP: Final = "gap"
END: Final = "end"
KEEP_ALIVE: Final = KEEPALIVE_COMMENT
OPENING: Final = format_sse_event(comment="vigil", retry=RETRY_MILLISECONDS)


def event(told: Told) -> bytes:
    """Its sequence, its name, and the event itself as it stands on the bus."""
    data = told.payload.decode(errors="replace")
    return format_sse_event(id=str(told.sequence), event=told.subject, data_str=data)


def place(sequence: int) -> bytes:
    """Where a listener stands that was sent nothing yet, so that it can come back there. It is not told as an event."""
    return format_sse_event(id=str(sequence))


def gap(found: Gap) -> bytes:
    data = {"why": found.why, "first": found.first, "last": found.last}
    return format_sse_event(id=str(found.resume_after), event=GAP, data_str=json.dumps(data))


def end(why: str, detail: str) -> bytes:
    return format_sse_event(event=END, data_str=json.dumps({"why": why, "detail": detail}))
