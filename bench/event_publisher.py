"""Publishes many agents' events at a steady rate, while others are done things to."""

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from uuid import UUID, uuid4

from shared.events.models import QueryCompleted
from shared.runtime.bus import Bus

AT_ONCE: Final = 64
"""Events of a burst that are under way to NATS at the same time."""


class Publisher:
    """Each agent's events in turn, each with a number; `told` are an agent's."""

    def __init__(self, bus: Bus, agent_ids: Sequence[UUID]) -> None:
        self.told: dict[str, list[int]] = {str(agent_id): [] for agent_id in agent_ids}
        self._bus = bus
        self._agent_ids = agent_ids

    async def steadily(self, numbers: range, per_second: float) -> None:
        began = time.monotonic()
        for count, number in enumerate(numbers):
            due = began + count / per_second
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await self._one(number)

    async def at_once(self, numbers: range) -> None:
        """As fast as NATS takes them."""
        for first in range(numbers.start, numbers.stop, AT_ONCE):
            some = range(first, min(first + AT_ONCE, numbers.stop))
            await asyncio.gather(*(self._one(number) for number in some))

    async def _one(self, number: int) -> None:
        agent_id = self._agent_ids[number % len(self._agent_ids)]
        self.told[str(agent_id)].append(number)
        await self._bus.publish(
            QueryCompleted.of(
                agent_id=agent_id,
                iteration_id=uuid4(),
                step_id=uuid4(),
                occurred_at=datetime.now(UTC),
                nodes=number,
                edges=0,
            )
        )
