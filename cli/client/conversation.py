"""Talking with agents, and what they remember of it."""

from collections.abc import Iterable, Iterator
from uuid import UUID

from httpx_sse import ServerSentEvent

from cli.client.connection import Connection, agent_path
from shared.store.reading.conversation_shapes import MemoryView, MessageView, TurnView


class Conversations(Connection):
    def messages(self, agent: str, limit: int | None = 50) -> Iterable[MessageView]:
        """The newest first."""
        return self._pages(MessageView, _messages(agent), limit)

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
        return self._stream(f"{_messages(agent)}/{message_id}/stream", headers=headers)

    def memories(self, agent: str, *, forgotten: bool = False) -> Iterable[MemoryView]:
        return self._pages(MemoryView, _memories(agent), None, forgotten=forgotten)

    def remember(self, agent: str, kind: str, content: str) -> MemoryView:
        given = {"kind": kind, "content": content}
        return self._ask(MemoryView, "POST", _memories(agent), json=given)

    def forget(self, agent: str, memory_id: UUID) -> None:
        self._send("DELETE", f"{_memories(agent)}/{memory_id}")


def _messages(agent: str) -> str:
    return f"{agent_path(agent)}/conversation/messages"


def _memories(agent: str) -> str:
    return f"{agent_path(agent)}/memories"
