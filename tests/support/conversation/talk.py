"""A conversation with an agent over a real socket, which a streamed answer needs."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from httpx_sse import ServerSentEvent, aconnect_sse

from tests.support.streams import Serving
from tests.support.waiting import wait_until


@dataclass
class AnswerStream:
    """The events of an answer stream, received over one or several connections."""

    events: list[ServerSentEvent] = field(default_factory=list)

    @property
    def last_event_id(self) -> str:
        return next((event.id for event in reversed(self.events) if event.id), "")

    @property
    def names(self) -> list[str]:
        return [event.event for event in self.events if event.data]

    def data_of(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(event.data) for event in self.events if event.event == name]

    @property
    def text(self) -> str:
        """The text, assembled by offsets as a client does; asserts that no chunk is missing or repeated."""
        text = ""
        for event in self.events:
            if event.event == "restart":
                text = ""
            if event.event == "text":
                chunk = json.loads(event.data)
                assert chunk["offset"] == len(text), "a chunk is missing or repeated"
                text += chunk["text"]
        return text

    @property
    def final_message(self) -> dict[str, Any] | None:
        """The message in the last event of the stream."""
        messages = [*self.data_of("complete"), *self.data_of("failed")]
        assert len(messages) <= 1
        return messages[0] if messages else None


@dataclass(frozen=True)
class Talk:
    """One owner's conversation with one agent."""

    api: Serving
    agent: str

    @property
    def url(self) -> str:
        return self.api.url

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.api.token}"}

    @property
    def path(self) -> str:
        return f"{self.url}/api/v1/agents/{self.agent}"

    async def says(self, content: str) -> dict[str, Any]:
        """Posts a message; returns the turn."""
        response = await self.asked("POST", "/conversation/messages", json={"content": content})
        assert response.status_code == 201, response.text
        turn: dict[str, Any] = response.json()
        return turn

    async def asked(self, method: str, path: str, **options: Any) -> httpx.Response:
        async with httpx.AsyncClient(verify=False, trust_env=False, headers=self.headers) as client:
            return await client.request(method, f"{self.path}{path}", **options)

    async def message(self, message_id: str) -> dict[str, Any]:
        response = await self.asked("GET", f"/conversation/messages/{message_id}")
        body: dict[str, Any] = response.raise_for_status().json()
        return body

    async def follow(
        self, message_id: str, stream: AnswerStream | None = None, *, characters: int | None = None
    ) -> AnswerStream:
        """Follows the answer from the position of `stream` to its end, or until it has so many characters."""
        stream = stream or AnswerStream()
        async with asyncio.timeout(30):
            while stream.final_message is None and (
                characters is None or len(stream.text) < characters
            ):
                await self._read_connection(message_id, stream, characters)
        return stream

    async def _read_connection(
        self, message_id: str, stream: AnswerStream, characters: int | None
    ) -> None:
        headers = self.headers | (
            {"Last-Event-ID": stream.last_event_id} if stream.last_event_id else {}
        )
        path = f"{self.path}/conversation/messages/{message_id}/stream"
        async with (
            httpx.AsyncClient(timeout=30, verify=False, trust_env=False) as client,
            aconnect_sse(client, "GET", path, headers=headers) as source,
        ):
            source.response.raise_for_status()
            async for event in source.aiter_sse():
                stream.events.append(event)
                if characters is not None and len(stream.text) >= characters:
                    return


async def completed(talk: Talk, message_ids: Sequence[str]) -> list[dict[str, Any]]:
    """The messages, once all of them have ended."""

    async def load_ended() -> list[dict[str, Any]] | None:
        loaded = [await talk.message(message_id) for message_id in message_ids]
        is_ended = all(message["status"] in ("complete", "failed") for message in loaded)
        return loaded if is_ended else None

    messages = await wait_until(load_ended, what="the answers to end")
    assert messages is not None
    return messages
