"""The events of an installation over HTTP, across every break of the connection."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from httpx_sse import ServerSentEvent

from cli.client.client import Client
from cli.errors import AwayError
from cli.render.console import err
from shared.events.stream_reader import Told

COME_AGAIN_SECONDS: Final = 1.0
GAP: Final = "gap"
END: Final = "end"


@dataclass(frozen=True)
class Begin:
    """Behind that sequence of the stream, or since that moment; neither: from now on."""

    after: int | None = None
    since: datetime | None = None


class Streaming:
    """The events of `agent`, or of all that are the caller's, whose names match `pattern`."""

    def __init__(self, client: Client, agent: str | None, pattern: str, begin: Begin) -> None:
        self._client = client
        self._agent = agent
        self._pattern = pattern
        self._begin = begin
        self._is_away = False

    def events(self) -> Iterator[Told]:
        """For ever. Raises ApiError where the api refuses, and AwayError where it does not answer at first."""
        connected = False
        while True:
            try:
                for sent in self._client.events(self._agent, self._parameters()):
                    connected = True
                    yield from self._told(sent)
            except AwayError as error:
                if not connected:
                    raise
                self._say_away(error)
            time.sleep(COME_AGAIN_SECONDS)

    def _parameters(self) -> dict[str, str]:
        wanted = {
            "type": self._pattern,
            "after": self._begin.after,
            "since": self._begin.since.isoformat() if self._begin.since else None,
        }
        return {key: str(value) for key, value in wanted.items() if value is not None}

    def _told(self, sent: ServerSentEvent) -> Iterator[Told]:
        self._is_away = False
        if sent.event == GAP and self._begin != Begin(after=0):
            _say_gap(json.loads(sent.data))
        if sent.id:
            self._begin = replace(self._begin, after=int(sent.id), since=None)
        if sent.data and sent.event not in (GAP, END):
            yield _as_told(sent)

    def _say_away(self, error: AwayError) -> None:
        if not self._is_away:
            self._is_away = True
            err().print(f"[quiet]{error}; going on when it is back[/]", soft_wrap=True)


def _as_told(sent: ServerSentEvent) -> Told:
    """When the stream stored it is not sent; when it happened is told by the event itself."""
    told = Told(int(sent.id), sent.event, datetime.now(UTC), sent.data.encode())
    return replace(told, told_at=told.event.occurred_at) if told.event else told


def _say_gap(gap: dict[str, Any]) -> None:
    if gap["last"] is None:
        what = "the stream was made anew: what it held before is lost"
    else:
        what = f"events {gap['first']} to {gap['last']} are no longer kept"
    err().print(f"[warn]{what}[/]", soft_wrap=True)
