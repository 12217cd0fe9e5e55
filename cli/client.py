"""The api, as the commands use it."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote
from uuid import UUID

import httpx
from httpx_sse import EventSource, ServerSentEvent
from pydantic import TypeAdapter

from cli.errors import AwayError, CommandError
from shared.store.reading.conversation_shapes import MemoryView, MessageView, TurnView
from shared.store.reading.page import Page
from shared.store.reading.shapes import (
    AboutView,
    AgentDetails,
    AgentView,
    CallsView,
    ConclusionView,
    DeadLetterDetails,
    DeadLetterView,
    GraphView,
    InboxItemView,
    IterationDetails,
    IterationView,
)

TIMEOUT_SECONDS: Final = 30.0
"""More than the pause between two signs of life of an answer that goes on."""

T = TypeVar("T")


class ApiError(CommandError):
    """The api said no; its own words."""


class Client:
    """Every call raises ApiError where the api refuses, and AwayError where it cannot answer now."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(
            base_url=f"{url}/api/v1", timeout=TIMEOUT_SECONDS, trust_env=False
        )

    def about(self) -> AboutView:
        return self._ask(AboutView, "GET", "/about")

    def agents(self) -> list[AgentView]:
        return self._ask(list[AgentView], "GET", "/agents")

    def agent(self, reference: str) -> AgentDetails:
        return self._ask(AgentDetails, "GET", _agent(reference))

    def create_agent(
        self,
        mission: str,
        *,
        name: str | None = None,
        interval_seconds: int | None = None,
        models: dict[str, str] | None = None,
    ) -> AgentDetails:
        wanted = {
            "mission": mission,
            "name": name,
            "interval_seconds": interval_seconds,
            "models": models,
        }
        given = {key: value for key, value in wanted.items() if value is not None}
        return self._ask(AgentDetails, "POST", "/agents", json=given)

    def order(self, reference: str, order: str) -> AgentDetails:
        """`pause`, `resume` or `run`."""
        return self._ask(AgentDetails, "POST", f"{_agent(reference)}/{order}")

    def delete_agent(self, reference: str) -> None:
        self._send("DELETE", _agent(reference))

    def iterations(self, reference: str, limit: int = 20) -> list[IterationView]:
        path = f"{_agent(reference)}/iterations"
        return self._ask(list[IterationView], "GET", path, params={"limit": limit})

    def iteration(self, iteration_id: UUID) -> IterationDetails:
        return self._ask(IterationDetails, "GET", f"/iterations/{iteration_id}")

    def graph(self, reference: str, *, type_name: str | None = None, limit: int = 100) -> GraphView:
        params = {"limit": limit} | ({"type": type_name} if type_name else {})
        return self._ask(GraphView, "GET", f"{_agent(reference)}/graph", params=params)

    def analyses(self, reference: str, limit: int = 100) -> list[ConclusionView]:
        path = f"{_agent(reference)}/analyses"
        return self._ask(list[ConclusionView], "GET", path, params={"limit": limit})

    def advice(self, reference: str, limit: int = 100) -> list[ConclusionView]:
        path = f"{_agent(reference)}/advice"
        return self._ask(list[ConclusionView], "GET", path, params={"limit": limit})

    def calls(self, reference: str) -> CallsView:
        return self._ask(CallsView, "GET", f"{_agent(reference)}/calls")

    def inbox(self, *, unread: bool) -> list[InboxItemView]:
        return self._ask(list[InboxItemView], "GET", "/inbox", params={"unread": unread})

    def mark_read(self, item_id: UUID) -> InboxItemView:
        return self._ask(InboxItemView, "POST", f"/inbox/{item_id}/read")

    def dead_letters(
        self, *, actor: str | None = None, before: UUID | None = None, limit: int = 50
    ) -> list[DeadLetterView]:
        wanted = {"actor": actor, "before": before, "limit": limit}
        params = {key: str(value) for key, value in wanted.items() if value is not None}
        return self._ask(list[DeadLetterView], "GET", "/dead-letters", params=params)

    def dead_letter(self, reference: str) -> DeadLetterDetails:
        return self._ask(DeadLetterDetails, "GET", _letter(reference))

    def retry(self, reference: str) -> DeadLetterView:
        return self._ask(DeadLetterView, "POST", f"{_letter(reference)}/retry")

    def discard(self, reference: str) -> None:
        self._send("DELETE", _letter(reference))

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
                _raise_for(answer)
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

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _ask(self, shape: type[T], method: str, path: str, **request: Any) -> T:
        return TypeAdapter(shape).validate_json(self._send(method, path, **request).content)

    def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        with self._answered():
            answer = self._http.request(method, path, **request)
        _raise_for(answer)
        return answer

    @contextmanager
    def _answered(self) -> Iterator[None]:
        """Makes errors of what is done within."""
        try:
            yield
        except httpx.InvalidURL as error:
            raise CommandError(f"{self.url!r} is no URL: {error}") from error
        except httpx.UnsupportedProtocol as error:
            raise CommandError(f"{self.url!r} is no URL of an api: {error}") from error
        except httpx.TransportError as error:
            raise AwayError(
                f"no Vigil answers at {self.url}: {str(error) or type(error).__name__}"
            ) from error


def _raise_for(answer: httpx.Response) -> None:
    if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
        raise AwayError(_detail(answer))
    if answer.is_error:
        raise ApiError(_detail(answer))


def _agent(reference: str) -> str:
    return f"/agents/{quote(reference, safe='')}"


def _messages(agent: str) -> str:
    return f"{_agent(agent)}/conversation/messages"


def _memories(agent: str) -> str:
    return f"{_agent(agent)}/memories"


def _letter(reference: str) -> str:
    return f"/dead-letters/{quote(reference, safe='')}"


def _detail(answer: httpx.Response) -> str:
    try:
        told = answer.json()
    except ValueError:
        told = None
    if isinstance(told, dict) and isinstance(told.get("detail"), str):
        return str(told["detail"])
    return f"{answer.request.url} answers {answer.status_code} {answer.reason_phrase}"
