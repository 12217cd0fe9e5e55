"""Dead letters as tests make them: by real messages, on the real bus."""

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
from tests.support.waiting import until

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


def from_the_future(made: StartedIteration) -> bytes:
    """The request for an observe step, as a later version would make it."""
    request = json.loads(encode(derived_events.iteration_step_event(made.iteration, made.observe)))
    return json.dumps(request | {"type": "vigil.iteration.v2.started"}).encode()


async def say(bus: Bus, payload: bytes, subject: str = SUBJECT) -> None:
    await bus.publish_bytes(subject, payload, message_id=str(uuid4()))


async def told(bus: Bus, subject: str) -> list[bytes]:
    """Every message of that subject that is in the stream."""
    last = (await bus.jetstream.stream_info(STREAM)).state.last_seq
    messages = [await bus.jetstream.get_msg(STREAM, number) for number in range(1, last + 1)]
    return [message.data or b"" for message in messages if message.subject == subject]


async def rows(database: Database) -> list[DeadLetter]:
    async with database.transaction() as session:
        return list(await session.scalars(select(DeadLetter).order_by(DeadLetter.stored_at)))


async def listed(api: httpx.AsyncClient, **params: Any) -> list[dict[str, Any]]:
    answer = await api.get("/dead-letters", params=params)
    assert answer.status_code == 200, answer.text
    letters: list[dict[str, Any]] = answer.json()["items"]
    return letters


async def one_letter(api: httpx.AsyncClient) -> dict[str, Any]:
    """The only one, once it is there."""

    async def look() -> list[dict[str, Any]]:
        return await listed(api)

    (letter,) = await until(look, what="a dead letter to be kept")
    return letter


async def retried(api: httpx.AsyncClient, letter: dict[str, Any]) -> dict[str, Any]:
    """The letter, once its retry is asked for."""
    answer = await api.post(f"/dead-letters/{letter['id']}/retry")
    assert answer.status_code == 202, answer.text
    asked: dict[str, Any] = answer.json()
    assert asked["retry_requested_at"] is not None
    return asked


async def none_left(api: httpx.AsyncClient) -> None:
    async def look() -> bool:
        return await listed(api) == []

    await until(look, what="the dead letter to be gone")
