"""A bus that delivers each event one to five times, at random times and in random order, some copies very late."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from random import Random
from uuid import UUID

import pytest

from shared.events.envelope import Event
from shared.runtime.bus import Bus

MAX_COPIES = 5
MAX_PAUSE_SECONDS = 0.03
"""The longest pause between two deliveries of one agent's events, in which later events may overtake."""
LATE_SHARE = 0.25
"""Share of the repeated copies that are held back until `deliver_rest`."""
FIRST_NUMBER = 1000
"""First number in the copies' message ids, which differ from the reconciler's."""

Deliver = Callable[[Event, int], Awaitable[None]]


class EventShuffler:
    """Holds the events of one agent, and delivers them at random."""

    def __init__(self, deliver: Deliver, seed: int) -> None:
        self.contradictions: list[tuple[Event, Event]] = []
        """Events that were published again with different content."""
        self._deliver = deliver
        self._random = Random(seed)
        self._first_events: dict[UUID, Event] = {}
        self._held: list[tuple[Event, int]] = []
        self._held_back: list[tuple[Event, int]] = []
        self._has_events = asyncio.Event()

    def take(self, event: Event) -> None:
        """Accept a published event. A repeated one is dropped, as by the bus itself."""
        first = self._first_events.setdefault(event.event_id, event)
        if first is not event:
            if first != event:
                self.contradictions.append((first, event))
            return
        for number in range(self._random.randint(1, MAX_COPIES)):
            is_late = number > 0 and self._random.random() < LATE_SHARE
            (self._held_back if is_late else self._held).append((event, number))
        self._has_events.set()

    def deliver_rest(self) -> None:
        self._held += self._held_back
        self._held_back.clear()
        if self._held:
            self._has_events.set()

    async def is_silent(self) -> bool:
        return not self._has_events.is_set()

    async def deliver_events(self) -> None:
        """Deliver events until cancelled."""
        while True:
            await self._has_events.wait()
            await asyncio.sleep(self._random.uniform(0, MAX_PAUSE_SECONDS))
            event, number = self._held.pop(self._random.randrange(len(self._held)))
            await self._deliver(event, FIRST_NUMBER + number)
            if not self._held:
                self._has_events.clear()


@asynccontextmanager
async def shuffled(
    bus: Bus, seeds: Mapping[UUID, int], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[list[EventShuffler]]:
    """Disorder every bus of this process for these agents, each by its own seed, during the block."""
    publish = Bus.publish

    async def deliver(event: Event, number: int) -> None:
        await publish(bus, event, resend=number)

    disorders = {agent_id: EventShuffler(deliver, seed) for agent_id, seed in seeds.items()}

    async def publish_shuffled(services: Bus, event: Event, *, resend: int = 0) -> None:
        if resend:  # the reconciler republishes missed messages
            await publish(services, event, resend=resend)
        else:
            disorders[event.agent_id].take(event)

    tasks = [asyncio.create_task(shuffler.deliver_events()) for shuffler in disorders.values()]
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Bus, "publish", publish_shuffled)
            yield list(disorders.values())
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
