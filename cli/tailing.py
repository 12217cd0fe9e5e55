"""Following the bus for a person."""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from cli.client.client import Client
from cli.client.target import Address
from cli.config.discovery import api_url, nats_of
from cli.errors import BadInputError, CommandError
from cli.render.console import err, harmless_json, out
from cli.render.iterations import line_of, short
from cli.streaming import Begin, Streaming
from shared.events.stream_reader import Told, follow, listening, pattern_of


def subject_pattern(written: str) -> str:
    """What was written as a NATS subject: a noun alone means all of its events. Raises BadInputError."""
    try:
        return pattern_of(written)
    except ValueError as error:
        raise BadInputError(str(error)) from error


@dataclass
class Names:
    """Agents' names by id, read anew where one is not known. Without an api there are none."""

    client: Client | None
    known: dict[UUID, str] = field(default_factory=dict)

    def of(self, agent_id: UUID) -> str:
        if agent_id not in self.known:
            self.read()
        return self.known.setdefault(agent_id, short(agent_id))

    def read(self) -> None:
        if self.client is None:
            return
        try:
            agents = self.client.agents()
        except CommandError:
            return  # names are a convenience: events are followed without them
        self.known |= {agent.id: agent.name for agent in agents}


@dataclass(frozen=True)
class Tail:
    pattern: str
    agent: str | None
    since_seconds: int | None
    from_start: bool
    as_json: bool
    url: Address | None
    data: Path | None

    def run(self) -> None:
        """For ever. Raises VigilError where the events, or the agent that is named, cannot be found.

        An installation that is named by its URL is asked over HTTP; the bus is listened to where it is at hand.
        """
        if self.url and "VIGIL_NATS_URL" not in os.environ:
            self._follow_api(Client(api_url(self.url, self.data)))
        else:
            asyncio.run(self._follow_bus())

    def _follow_api(self, client: Client) -> None:
        names = Names(client)
        agent = str(client.agent(self.agent).id) if self.agent else None
        streaming = Streaming(client, agent, self.pattern, self._begin())
        self._say_where(client.url)
        for told in streaming.events():
            self._print(told, names)

    async def _follow_bus(self) -> None:
        names = Names(self._client())
        async for told in self._of_bus():
            # Not on the loop: names are asked for over HTTP.
            await asyncio.to_thread(self._print, told, names)

    async def _of_bus(self) -> AsyncIterator[Told]:
        (bus, credentials), client = nats_of(self.data), self._client()
        wanted = client.agent(self.agent).id if client and self.agent else None
        begin = self._begin()
        async with listening(bus, credentials) as nats:
            self._say_where(bus)
            async for told in follow(
                nats,
                self.pattern,
                from_sequence=None if begin.after is None else begin.after + 1,
                since=begin.since,
            ):
                if wanted is None or told.agent_id == wanted:
                    yield told

    def _client(self) -> Client | None:
        """None where only the bus is known, and no agent is asked for by name."""
        try:
            return Client(api_url(self.url, self.data))
        except CommandError:
            if self.agent:
                raise
            return None

    def _begin(self) -> Begin:
        if self.from_start:
            return Begin(after=0)
        if self.since_seconds is None:
            return Begin()
        return Begin(since=datetime.now(UTC) - timedelta(seconds=self.since_seconds))

    def _say_where(self, where: str) -> None:
        if not (self.from_start or self.since_seconds):
            err().print(f"[quiet]listening at {where}; --since 10m tells what was before[/]")

    def _print(self, told: Told, names: Names) -> None:
        if self.as_json:
            print(harmless_json(told.payload.decode(errors="replace")), flush=True)
            return
        name = names.of(told.event.agent_id) if told.event else "?"
        out().print(line_of(told, name), soft_wrap=True)
