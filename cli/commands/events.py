"""`vigil tail`: the events of the bus, read from NATS directly or over HTTP."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import UUID

import typer
from httpx_sse import ServerSentEvent

from cli.client.client import Client
from cli.client.target import Address
from cli.config.discovery import api_url, nats_of
from cli.config.durations import parse_seconds
from cli.errors import AwayError, BadInputError, CommandError
from cli.options import Data, Url
from cli.render.console import err, harmless_json, out
from cli.render.iterations import line_of, short
from shared.events.stream_reader import (
    StoredEvent,
    StreamPosition,
    connect_reader,
    follow,
    parse_subject_pattern,
)

RECONNECT_SECONDS: Final = 1.0
GAP: Final = "gap"
END: Final = "end"


def tail(
    pattern: Annotated[
        str,
        typer.Argument(
            help="Events to show, such as analysis, 'query.*' or '*.failed'.", show_default="all"
        ),
    ] = ">",
    agent: Annotated[
        str | None, typer.Option(metavar="NAME", help="Include only this agent.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Start this far in the past, such as 10m, 2h or 1d."),
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Start from the oldest stored event.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each event as one line of JSON, unchanged.")
    ] = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Follow events from now, or from an earlier time, until Ctrl-C.

    With --url, the events come from the API of that installation; lost connections are restored.
    """
    options = Tail(
        pattern=subject_pattern(pattern),
        agent=agent,
        since_seconds=parse_seconds(since) if since else None,
        from_start=from_start,
        as_json=as_json,
        url=url,
        data=data,
    )
    with suppress(KeyboardInterrupt):
        options.run()


def subject_pattern(text: str) -> str:
    """The NATS subject pattern for it; a noun alone means all of its events. Raises BadInputError."""
    try:
        return parse_subject_pattern(text)
    except ValueError as error:
        raise BadInputError(str(error)) from error


@dataclass
class AgentNames:
    """Names of agents by id, reloaded when an id is unknown. Without a client, short ids are used."""

    client: Client | None
    names: dict[UUID, str] = field(default_factory=dict)

    def name_of(self, agent_id: UUID) -> str:
        if agent_id not in self.names:
            self._reload()
        return self.names.setdefault(agent_id, short(agent_id))

    def _reload(self) -> None:
        if self.client is None:
            return
        with suppress(CommandError):  # names are a convenience: events are shown without them
            self.names |= {agent.id: agent.name for agent in self.client.agents()}


@dataclass(frozen=True)
class Start:
    """Where to start: after a position in the stream, or at a moment. Neither means from now on."""

    after: StreamPosition | None = None
    since: datetime | None = None


_BEGINNING: Final = Start(after=StreamPosition(0))


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
        """Prints events until it is interrupted. Raises VigilError if the bus or the agent is not found.

        The API of an installation named by its URL is used; otherwise the bus itself.
        """
        if self.url and "VIGIL_NATS_URL" not in os.environ:
            self._follow_api(Client(api_url(self.url, self.data)))
        else:
            asyncio.run(self._follow_bus())

    def _follow_api(self, client: Client) -> None:
        names = AgentNames(client)
        agent = str(client.agent(self.agent).id) if self.agent else None
        stream = ApiEventStream(client, agent, self.pattern, self._start())
        self._print_source(client.url)
        for event in stream.events():
            self._print(event, names)

    async def _follow_bus(self) -> None:
        names = AgentNames(self._client())
        async for event in self._bus_events():
            # In a thread, because names are fetched over HTTP.
            await asyncio.to_thread(self._print, event, names)

    async def _bus_events(self) -> AsyncIterator[StoredEvent]:
        (bus, credentials), client = nats_of(self.data), self._client()
        agent_id = client.agent(self.agent).id if client and self.agent else None
        start = self._start()
        async with connect_reader(bus, credentials) as nats:
            self._print_source(bus)
            async for event in follow(
                nats,
                self.pattern,
                from_sequence=None if start.after is None else start.after.sequence + 1,
                since=start.since,
            ):
                if agent_id is None or event.agent_id == agent_id:
                    yield event

    def _client(self) -> Client | None:
        """None if only the bus is known, and no agent has to be looked up by name."""
        try:
            return Client(api_url(self.url, self.data))
        except CommandError:
            if self.agent:
                raise
            return None

    def _start(self) -> Start:
        if self.from_start:
            return _BEGINNING
        if self.since_seconds is None:
            return Start()
        return Start(since=datetime.now(UTC) - timedelta(seconds=self.since_seconds))

    def _print_source(self, url: str) -> None:
        if not (self.from_start or self.since_seconds):
            err().print(f"[quiet]listening at {url}; use --since 10m to include earlier events[/]")

    def _print(self, event: StoredEvent, names: AgentNames) -> None:
        if self.as_json:
            print(harmless_json(event.payload.decode(errors="replace")), flush=True)
            return
        name = names.name_of(event.event.agent_id) if event.event else "?"
        out().print(line_of(event, name), soft_wrap=True)


class ApiEventStream:
    """Events from the API whose names match `pattern`, of one agent or of all the user's agents.

    After a lost connection it continues behind the last event.
    """

    def __init__(self, client: Client, agent: str | None, pattern: str, start: Start) -> None:
        self._client = client
        self._agent = agent
        self._pattern = pattern
        self._start = start
        self._is_away = False

    def events(self) -> Iterator[StoredEvent]:
        """Never ends. Raises ApiError if the API refuses, and AwayError if the first connection fails."""
        connected = False
        while True:
            try:
                for event in self._client.events(self._agent, self._parameters()):
                    connected = True
                    yield from self._handle(event)
            except ValueError as error:
                raise self._client.not_understood() from error
            except AwayError as error:
                if not connected:
                    raise
                self._print_away(error)
            time.sleep(RECONNECT_SECONDS)

    def _parameters(self) -> dict[str, str]:
        parameters = {
            "type": self._pattern,
            "after": self._start.after,
            "since": self._start.since.isoformat() if self._start.since else None,
        }
        return {key: str(value) for key, value in parameters.items() if value is not None}

    def _handle(self, event: ServerSentEvent) -> Iterator[StoredEvent]:
        self._is_away = False
        if event.event == GAP and self._start != _BEGINNING:
            _print_gap(json.loads(event.data))
        if event.id:
            self._start = replace(self._start, after=StreamPosition.parse(event.id), since=None)
        if event.data and event.event not in (GAP, END):
            yield _stored_event(event)

    def _print_away(self, error: AwayError) -> None:
        if not self._is_away:
            self._is_away = True
            err().print(f"[quiet]{error}; reconnecting[/]", soft_wrap=True)


def _stored_event(event: ServerSentEvent) -> StoredEvent:
    """As read from the stream."""
    position = StreamPosition.parse(event.id)
    stored_at = position.stored_at or datetime.now(UTC)
    return StoredEvent(position.sequence, event.event, stored_at, event.data.encode())


def _print_gap(gap: dict[str, Any]) -> None:
    if gap["last"] is None:
        text = "the stream was recreated: its earlier events are lost"
    else:
        text = f"events {gap['first']} to {gap['last']} are no longer stored"
    err().print(f"[warn]{text}[/]", soft_wrap=True)
