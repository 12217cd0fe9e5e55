"""Following the bus for a person."""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from cli.address import Address
from cli.client import Client
from cli.errors import BadInputError, CommandError
from cli.installation import api_url, nats_credentials, nats_url
from cli.show.console import err, out
from cli.show.events import line_of, short
from shared.events.models import EVENTS
from shared.events.tail import Told, follow, listening


def subject_pattern(written: str) -> str:
    """What was written as a NATS subject: a noun alone means all of its events. Raises BadInputError."""
    nouns = {event.subject.partition(".")[0] for event in EVENTS}
    pattern = f"{written}.*" if written in nouns else written
    if pattern != ">" and not any(_matches(pattern, event.subject) for event in EVENTS):
        known = ", ".join(event.subject for event in EVENTS)
        raise BadInputError(f"no event is named {written!r}; there are {known}")
    return pattern


def _matches(pattern: str, subject: str) -> bool:
    wanted, given = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        wanted, given = wanted[:-1], given[: len(wanted) - 1]
    return len(wanted) == len(given) and all(
        token in ("*", word) for token, word in zip(wanted, given, strict=True)
    )


@dataclass
class Names:
    """Agents' names by id, read anew where one is not known. Without an api there are none."""

    client: Client | None
    known: dict[UUID, str] = field(default_factory=dict)

    async def of(self, agent_id: UUID) -> str:
        if agent_id not in self.known:
            await self.read()
        return self.known.setdefault(agent_id, short(agent_id))

    async def read(self) -> None:
        if self.client is None:
            return
        try:
            agents = await asyncio.to_thread(self.client.agents)
        except CommandError:
            return  # names are a convenience: the bus is followed without them
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

    async def run(self) -> None:
        """For ever. Raises VigilError where the bus, or the agent that is named, cannot be found."""
        bus, client = nats_url(self.data), self._client()
        wanted = client.agent(self.agent).id if client and self.agent else None
        names = Names(client)
        async with listening(bus, nats_credentials()) as nats:
            if not (self.from_start or self.since_seconds):
                err().print(f"[quiet]listening at {bus}; --since 10m tells what was before[/]")
            async for told in follow(
                nats,
                self.pattern,
                from_sequence=1 if self.from_start else None,
                since=self._since(),
            ):
                if wanted is None or (told.event is not None and told.event.agent_id == wanted):
                    await self._print(told, names)

    def _client(self) -> Client | None:
        """None where only the bus is known, and no agent is asked for by name."""
        try:
            return Client(api_url(self.url, self.data))
        except CommandError:
            if self.agent:
                raise
            return None

    def _since(self) -> datetime | None:
        if self.since_seconds is None:
            return None
        return datetime.now(UTC) - timedelta(seconds=self.since_seconds)

    async def _print(self, told: Told, names: Names) -> None:
        if self.as_json:
            print(told.payload.decode(errors="replace"), flush=True)
            return
        name = await names.of(told.event.agent_id) if told.event else "?"
        out().print(line_of(told, name), soft_wrap=True)
