"""`vigil tail`: the events of the installation, as its API streams them."""

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final
from uuid import UUID

import typer
from httpx_sse import ServerSentEvent

from cli.client.client import Client
from cli.command import api_command
from cli.config.durations import parse_seconds
from cli.errors import AwayError, BadInputError, CommandError
from cli.render.console import err, harmless_json, out, short_id
from cli.render.events import line_of
from shared.events.stream_reader import (
    StoredEvent,
    StreamPosition,
    parse_subject_pattern,
)

RECONNECT_SECONDS: Final = 1.0
GAP: Final = "gap"
END: Final = "end"


@api_command
def tail(
    client: Client,
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
) -> None:
    """Follow events from now, or from an earlier time, until Ctrl-C.

    The events come from the API; lost connections are restored.
    """
    subject, start = subject_pattern(pattern), Start()
    if from_start:
        start = _BEGINNING
    elif since is not None:
        start = Start(since=datetime.now(UTC) - timedelta(seconds=parse_seconds(since)))
    with suppress(KeyboardInterrupt):
        names = AgentNames(client)
        agent_id = str(client.agent(agent).id) if agent else None
        if start == Start():
            err().print(
                f"[quiet]listening at {client.url}; use --since 10m to include earlier events[/]"
            )
        for event in ApiEventStream(client, agent_id, subject, start).events():
            if as_json:
                print(harmless_json(event.payload.decode(errors="replace")), flush=True)
            else:
                name = names.name_of(event.event.agent_id) if event.event else "?"
                out().print(line_of(event, name))


def subject_pattern(text: str) -> str:
    """The NATS subject pattern for it; a noun alone means all of its events. Raises BadInputError."""
    try:
        return parse_subject_pattern(text)
    except ValueError as error:
        raise BadInputError(str(error)) from error


@dataclass
class AgentNames:
    """Names of agents by id, reloaded when an id is unknown."""

    client: Client
    names: dict[UUID, str] = field(default_factory=dict)

    def name_of(self, agent_id: UUID) -> str:
        if agent_id not in self.names:
            with suppress(CommandError):  # names are a convenience: events are shown without them
                self.names |= {agent.id: agent.name for agent in self.client.agents()}
        return self.names.setdefault(agent_id, short_id(agent_id))


@dataclass(frozen=True)
class Start:
    """Where to start: after a position in the stream, or at a moment. Neither means from now on."""

    after: StreamPosition | None = None
    since: datetime | None = None


_BEGINNING: Final = Start(after=StreamPosition(0))


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
        path = "/events" if self._agent is None else self._client.agent_path(self._agent, "events")
        while True:
            try:
                for event in self._client.stream(path, **self._parameters()):
                    connected = True
                    yield from self._handle(event)
            except ValueError as error:
                raise self._client.not_understood() from error
            except AwayError as error:
                if not connected:
                    raise
                if not self._is_away:
                    self._is_away = True
                    err().print(f"[quiet]{error}; reconnecting[/]")
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
            gap = json.loads(event.data)
            if gap["last"] is None:
                text = "the stream was recreated: its earlier events are lost"
            else:
                text = f"events {gap['first']} to {gap['last']} are no longer stored"
            err().print(f"[warn]{text}[/]")
        if event.id:
            self._start = replace(self._start, after=StreamPosition.parse(event.id), since=None)
        if event.data and event.event not in (GAP, END):
            yield _stored_event(event)


def _stored_event(event: ServerSentEvent) -> StoredEvent:
    """As read from the stream."""
    position = StreamPosition.parse(event.id)
    stored_at = position.stored_at or datetime.now(UTC)
    return StoredEvent(position.sequence, event.event, stored_at, event.data.encode())
