"""Talking with an agent as its owner does, over a real socket: an answer that goes on needs one."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from httpx_sse import ServerSentEvent, aconnect_sse

from tests.support.streams import Serving
from tests.support.waiting import until


@dataclass
class Heard:
    """What came by a stream, in one connection or several."""

    told: list[ServerSentEvent] = field(default_factory=list)

    @property
    def place(self) -> str:
        return next((each.id for each in reversed(self.told) if each.id), "")

    @property
    def names(self) -> list[str]:
        return [each.event for each in self.told if each.data]

    def of(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(each.data) for each in self.told if each.event == name]

    @property
    def text(self) -> str:
        """Put together as a client does: by offsets, so that what came twice or not at all shows."""
        said = ""
        for each in self.told:
            if each.event == "restart":
                said = ""
            if each.event == "text":
                piece = json.loads(each.data)
                assert piece["offset"] == len(said), "a piece is missing, or came twice"
                said += piece["text"]
        return said

    @property
    def ended(self) -> dict[str, Any] | None:
        """The message as the stream told it at its end."""
        found = [*self.of("complete"), *self.of("failed")]
        assert len(found) <= 1
        return found[0] if found else None


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
        """The turn as the api tells it."""
        answer = await self.asked("POST", "/conversation/messages", json={"content": content})
        assert answer.status_code == 201, answer.text
        turn: dict[str, Any] = answer.json()
        return turn

    async def asked(self, method: str, path: str, **given: Any) -> httpx.Response:
        async with httpx.AsyncClient(trust_env=False, headers=self.headers) as client:
            return await client.request(method, f"{self.path}{path}", **given)

    async def message(self, message_id: str) -> dict[str, Any]:
        answer = await self.asked("GET", f"/conversation/messages/{message_id}")
        found: dict[str, Any] = answer.raise_for_status().json()
        return found

    async def hears(
        self, message_id: str, heard: Heard | None = None, *, characters: int | None = None
    ) -> Heard:
        """Follows the answer, from where `heard` stands, to its end or until so many characters of it are there."""
        heard = heard or Heard()
        async with asyncio.timeout(30):
            while heard.ended is None and (characters is None or len(heard.text) < characters):
                await self._connected(message_id, heard, characters)
        return heard

    async def _connected(self, message_id: str, heard: Heard, characters: int | None) -> None:
        headers = self.headers | ({"Last-Event-ID": heard.place} if heard.place else {})
        path = f"{self.path}/conversation/messages/{message_id}/stream"
        async with (
            httpx.AsyncClient(timeout=30, trust_env=False) as client,
            aconnect_sse(client, "GET", path, headers=headers) as source,
        ):
            source.response.raise_for_status()
            async for sent in source.aiter_sse():
                heard.told.append(sent)
                if characters is not None and len(heard.text) >= characters:
                    return


async def completed(talk: Talk, message_ids: Sequence[str]) -> list[dict[str, Any]]:
    """The messages, once all of them have ended."""

    async def look() -> list[dict[str, Any]] | None:
        found = [await talk.message(each) for each in message_ids]
        return found if all(each["status"] in ("complete", "failed") for each in found) else None

    ended = await until(look, what="the answers to end")
    assert ended is not None
    return ended
