"""Untrusted text: each parser returns a value or raises its own error."""

import base64
import json
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

import pytest

from cli.config.durations import parse_day, parse_seconds
from cli.errors import BadInputError
from services.api.streaming.answer_stream import BadPositionError, StreamPosition
from shared.agents import agents, configuration
from shared.database import pagination
from shared.database.text import error_text, storable
from shared.errors import PermanentError
from shared.events.codec import agent_id_of, decode
from shared.graph.provenance import claims
from shared.graph.validation import normalize_name
from shared.notifications.smtp import parse_address
from shared.notifications.webhooks import validate_url
from shared.retry_after import retry_after_seconds
from shared.tools import ToolRefusalError
from tests.support.hostile import JSON, STRINGS

Reader = Callable[[str], Any]
Refusals = tuple[type[Exception], ...]

READERS: Final[dict[str, tuple[Reader, Refusals]]] = {
    "published": (claims.parse_published, ()),
    "beginning": (claims.parse_period_start, (ValueError,)),
    "end": (claims.parse_period_end, (ValueError,)),
    "duration": (parse_seconds, (BadInputError,)),
    "day": (parse_day, (BadInputError,)),
    "retry-after": (lambda text: retry_after_seconds(text, at_most=60), ()),
    "webhook": (lambda text: validate_url(text, private=False), (PermanentError,)),
    "webhook host": (
        lambda text: validate_url(f"http://{text}/", private=False),
        (PermanentError,),
    ),
    "webhook port": (
        lambda text: validate_url(f"http://a:{text}/", private=False),
        (PermanentError,),
    ),
    "mail address": (parse_address, (PermanentError,)),
    "mail domain": (lambda text: parse_address(f"a@{text}"), (PermanentError,)),
    "name of a node": (normalize_name, (ToolRefusalError,)),
    "name of an agent": (agents.validate_name, (ValueError,)),
    "prompt": (configuration.validate_prompt, (ValueError,)),
    "place": (StreamPosition.read, (BadPositionError,)),
    "storable": (lambda text: storable(text).encode(), ()),
    "error": (lambda text: error_text(text).encode(), ()),
    "cursor": (
        lambda text: pagination.decode_cursor("list", [int], text),
        (pagination.InvalidCursorError,),
    ),
}
_ID: Final = "00000000-0000-0000-0000-000000000000"
WHOLE: Final = (
    f'{{"type": "vigil.plan.v1.failed", "event_id": "{_ID}", "agent_id": "{_ID}", "error": "x",'
    f' "iteration_id": "{_ID}", "step_id": "{_ID}", "correlation_id": "{_ID}", "occurred_at": %s}}'
)
WRAPPINGS: Final = (
    "%s",
    '{"type": %s}',
    '{"type": "vigil.query.v1.completed", "event_id": %s}',
    '{"agent_id": %s}',
    WHOLE,
)


def refusal_message(parse: Callable[[], Any], *refusals: type[Exception]) -> str:
    """Return the message of the refusal, or an empty string. Other errors propagate."""
    try:
        parse()
    except refusals as refusal:
        return str(refusal)
    return ""


@pytest.mark.parametrize("kind", READERS)
def test_a_text_is_parsed_or_refused(kind: str) -> None:
    parse, refusals = READERS[kind]
    for text in STRINGS:
        message = refusal_message(partial(parse, text), *refusals)
        assert "Exceeds the limit" not in message, text[:40]


@pytest.mark.parametrize("kind", [int, str, UUID, datetime])
def test_a_cursor_is_parsed_or_refused(kind: type) -> None:
    values = [json.dumps(string).encode() for string in STRINGS]
    for value in (*values, *JSON, *(string.encode("utf-8", "surrogatepass") for string in STRINGS)):
        whole = b'[1,"list",' + value + b"]"
        cursor = base64.urlsafe_b64encode(whole).rstrip(b"=").decode()
        parse = partial(pagination.decode_cursor, "list", [kind], cursor)
        assert len(refusal_message(parse, pagination.InvalidCursorError)) < 300


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_a_bus_message_is_parsed_or_refused(wrapping: str) -> None:
    texts = [json.dumps(string).encode() for string in STRINGS]
    for value in (*texts, *JSON):
        payload = wrapping.encode() % value
        agent_id_of(payload)
        assert (
            refusal_message(partial(decode, payload), PermanentError).encode() or wrapping == WHOLE
        )
