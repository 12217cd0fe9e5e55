"""Talking with agents, and what they remember of it."""

from collections.abc import Iterator
from uuid import UUID

from httpx_sse import EventSource, ServerSentEvent

from cli.client.connection import Connection, agent_path, raise_for
from shared.store.reading.conversation_shapes import MemoryView, MessageView, TurnView
from shared.store.reading.page import Page


class Conversations(Connection):
    def messages(
        self, agent: str, *, cursor: str | None = None, limit: int = 50
    ) -> Page[MessageView]:
        params = {"limit": str(limit)} | ({"cursor": cursor} if cursor else {})
        return self._ask(Page[MessageView], "GET", _messages(agent), params=params)

    def message(self, agent: str, message_id: UUID) -> MessageView:
        return self._ask(MessageView, "GET", f"{_messages(agent)}/{message_id}")

    def say(self, agent: str, content: str) -> TurnView:
        return self._ask(TurnView, "POST", _messages(agent), json={"content": content})

    def retry_answer(self, agent: str, message_id: UUID) -> MessageView:
        return self._ask(MessageView, "POST", f"{_messages(agent)}/{message_id}/retry")

    def answer(
        self, agent: str, message_id: UUID, last_event_id: str | None
    ) -> Iterator[ServerSentEvent]:
        """What is said of it behind that event, until the connection ends."""
        headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
        path = f"{_messages(agent)}/{message_id}/stream"
        with self._answered(), self._http.stream("GET", path, headers=headers) as answer:
            if answer.is_error:
                answer.read()
                raise_for(self.url, answer)
            yield from EventSource(answer).iter_sse()

    def memories(
        self, agent: str, *, forgotten: bool = False, cursor: str | None = None
    ) -> Page[MemoryView]:
        params = {"forgotten": str(forgotten).lower()} | ({"cursor": cursor} if cursor else {})
        return self._ask(Page[MemoryView], "GET", _memories(agent), params=params)

    def remember(self, agent: str, kind: str, content: str) -> MemoryView:
        given = {"kind": kind, "content": content}
        return self._ask(MemoryView, "POST", _memories(agent), json=given)

    def forget(self, agent: str, memory_id: UUID) -> None:
        self._send("DELETE", f"{_memories(agent)}/{memory_id}")


def _messages(agent: str) -> str:
    return f"{agent_path(agent)}/conversation/messages"


def _memories(agent: str) -> str:
    return f"{agent_path(agent)}/memories"
