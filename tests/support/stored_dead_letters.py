"""Dead letters from real messages on the real bus."""

import json
from typing import Any
from uuid import UUID, uuid4

import httpx
from sqlalchemy import select

from shared import derived_events
from shared.database.engine import Database
from shared.database.tables import DeadLetter
from shared.events.codec import encode
from shared.events.models import PlanProduced
from shared.events.topology import STREAM
from shared.runtime.bus import Bus
from shared.workflow.iterations import StartedIteration
from tests.support.waiting import wait_until

SUBJECT = "iteration.started"
UNREADABLE = b"\x00\xff what is this?"
UNKNOWN = b'{"type": "vigil.nothing.v1.happened", "detail": "\\u001b[31mred"}'
MISPLACED = encode(
    PlanProduced.of(
        agent_id=UUID(int=1),
        iteration_id=UUID(int=2),
        step_id=UUID(int=3),
        occurred_at="2026-01-01T00:00:00Z",
        queries=0,
        insights=0,
    )
)


def future_version_payload(start: StartedIteration) -> bytes:
    """The request for an observe step in a later event version."""
    request = json.loads(
        encode(derived_events.iteration_step_event(start.iteration, start.observe))
    )
    return json.dumps(request | {"type": "vigil.iteration.v2.started"}).encode()


async def publish_payload(bus: Bus, payload: bytes, subject: str = SUBJECT) -> None:
    await bus.publish_bytes(subject, payload, message_id=str(uuid4()))


async def stream_payloads(bus: Bus, subject: str) -> list[bytes]:
    """The payloads of that subject in the stream."""
    last = (await bus.jetstream.stream_info(STREAM)).state.last_seq
    messages = [await bus.jetstream.get_msg(STREAM, number) for number in range(1, last + 1)]
    return [message.data or b"" for message in messages if message.subject == subject]


async def rows(database: Database) -> list[DeadLetter]:
    async with database.transaction() as session:
        return list(await session.scalars(select(DeadLetter).order_by(DeadLetter.stored_at)))


async def list_letters(api: httpx.AsyncClient, **params: Any) -> list[dict[str, Any]]:
    response = await api.get("/dead-letters", params=params)
    assert response.status_code == 200, response.text
    dead_letters: list[dict[str, Any]] = response.json()["items"]
    return dead_letters


async def wait_for_letter(api: httpx.AsyncClient) -> dict[str, Any]:
    """Wait for the only dead letter; return it."""

    async def look() -> list[dict[str, Any]]:
        return await list_letters(api)

    (dead_letter,) = await wait_until(look, what="a dead letter to be stored")
    return dead_letter


async def request_retry(api: httpx.AsyncClient, dead_letter: dict[str, Any]) -> dict[str, Any]:
    """Request the letter's retry; return the updated letter."""
    response = await api.post(f"/dead-letters/{dead_letter['id']}/retry")
    assert response.status_code == 202, response.text
    updated: dict[str, Any] = response.json()
    assert updated["retry_requested_at"] is not None
    return updated


async def wait_until_none(api: httpx.AsyncClient) -> None:
    async def look() -> bool:
        return await list_letters(api) == []

    await wait_until(look, what="the dead letter to be gone")
