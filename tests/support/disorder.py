"""A bus that says everything one to five times, at any moment and in any order, some of it when all is long over."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from random import Random
from uuid import UUID

import pytest

from shared.events.envelope import Event
from shared.runtime.bus import Bus

MOST_TIMES = 5
LONGEST_PAUSE_SECONDS = 0.03
"""Between two things that one agent's events are let out by; what waits then overtakes what waited before."""
LATE_SHARE = 0.25
"""Of the copies behind an event's first, which are kept back until they are asked for."""
FIRST_NUMBER = 1000
"""Of the copies' ids, so that none is the reconciler's."""

Say = Callable[[Event, int], Awaitable[None]]


class Disorder:
    """Holds what is published for one agent, and lets it out at random."""

    def __init__(self, say: Say, seed: int) -> None:
        self.contradictions: list[tuple[Event, Event]] = []
        """Events that were published again and said something else."""
        self._say = say
        self._random = Random(seed)
        self._first_said: dict[UUID, Event] = {}
        self._held: list[tuple[Event, int]] = []
        self._kept_back: list[tuple[Event, int]] = []
        self._more = asyncio.Event()

    def take(self, event: Event) -> None:
        """What a publisher says, who believes it stored. Said again it is swallowed, as the bus itself would."""
        first = self._first_said.setdefault(event.event_id, event)
        if first is not event:
            if first != event:
                self.contradictions.append((first, event))
            return
        for number in range(self._random.randint(1, MOST_TIMES)):
            is_late = number > 0 and self._random.random() < LATE_SHARE
            (self._kept_back if is_late else self._held).append((event, number))
        self._more.set()

    def let_out_the_rest(self) -> None:
        self._held += self._kept_back
        self._kept_back.clear()
        if self._held:
            self._more.set()

    async def is_silent(self) -> bool:
        return not self._more.is_set()

    async def let_out(self) -> None:
        """Runs until it is cancelled."""
        while True:
            await self._more.wait()
            await asyncio.sleep(self._random.uniform(0, LONGEST_PAUSE_SECONDS))
            event, number = self._held.pop(self._random.randrange(len(self._held)))
            await self._say(event, FIRST_NUMBER + number)
            if not self._held:
                self._more.clear()


@asynccontextmanager
async def disordered(
    bus: Bus, seeds: Mapping[UUID, int], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[list[Disorder]]:
    """Every bus of this process in disorder, for each of these agents by a seed of its own, while the block runs."""
    publish = Bus.publish

    async def say(event: Event, number: int) -> None:
        await publish(bus, event, resend=number)

    of_agent = {agent_id: Disorder(say, seed) for agent_id, seed in seeds.items()}

    async def publish_in_disorder(actors: Bus, event: Event, *, resend: int = 0) -> None:
        if resend:  # the reconciler says again what it believes lost
            await publish(actors, event, resend=resend)
        else:
            of_agent[event.agent_id].take(event)

    letting_out = [asyncio.create_task(each.let_out()) for each in of_agent.values()]
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Bus, "publish", publish_in_disorder)
            yield list(of_agent.values())
    finally:
        for task in letting_out:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
