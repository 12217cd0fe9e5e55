"""Reads what the stream keeps, by place, without a consumer: as much at a time as is asked for."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from shared.errors import TransientError
from shared.events.queues import Queue, queues
from shared.events.tail import Stored, Told, stored
from shared.events.topology import STREAM

ANSWER_SECONDS: Final = 5.0
_STATUS: Final = "Status"
_NO_MORE: Final = "204"
_NONE: Final = "404"


@dataclass(frozen=True)
class History:
    """The stream over one connection. What NATS does not answer in time is a TransientError."""

    client: Client

    async def held(self) -> Stored | None:
        """None where there is no stream."""
        return await stored(self.client)

    async def queues(self) -> list[Queue]:
        """How much waits for each actor."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await queues(self.client)
        except (NatsError, TimeoutError) as error:
            raise TransientError(f"NATS does not tell what waits: {error!r}") from error

    async def after(self, sequence: int, *, most: int, most_bytes: int) -> list[Told]:
        """The oldest events behind `sequence`, in order: at least one where there is any.

        With more than one replica of the stream, one that lags may answer: none may then mean none yet.
        """
        return await self._ask(seq=sequence + 1, batch=most, max_bytes=most_bytes)

    async def last_before(self, moment: datetime) -> int | None:
        """Sequence of what stands before the first event since `moment`; None where there is none since then."""
        found = await self._ask(start_time=moment.astimezone(UTC).isoformat(), batch=1)
        return found[0].sequence - 1 if found else None

    async def _ask(self, **request: Any) -> list[Told]:
        try:
            async with aclosing(self._answers(request)) as answers:
                return [_told(message) async for message in answers]
        except (NatsError, TimeoutError) as error:
            raise TransientError(f"NATS does not read its stream back: {error!r}") from error

    async def _answers(self, request: dict[str, Any]) -> AsyncGenerator[Msg, None]:
        inbox = self.client.new_inbox()
        subscription = await self.client.subscribe(inbox)
        try:
            asked = json.dumps(request).encode()
            await self.client.publish(f"$JS.API.DIRECT.GET.{STREAM}", asked, reply=inbox)
            while True:
                message = await subscription.next_msg(timeout=ANSWER_SECONDS)
                status = (message.headers or {}).get(_STATUS)
                if status in (_NO_MORE, _NONE):
                    return
                if status is not None:
                    raise TransientError(f"NATS does not read its stream back: {status}")
                yield message
        finally:
            await subscription.unsubscribe()


def _told(message: Msg) -> Told:
    headers = message.headers or {}
    return Told(
        int(headers["Nats-Sequence"]),
        headers["Nats-Subject"],
        datetime.fromisoformat(headers["Nats-Time-Stamp"]),
        message.data,
    )
