"""The api, as the commands use it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote
from uuid import UUID

import httpx
from httpx_sse import EventSource, ServerSentEvent
from pydantic import TypeAdapter

from cli.api import Api
from cli.errors import AwayError, CommandError
from shared.store.reading.configuring_shapes import (
    ConfigurationDetails,
    PromptsView,
    PromptView,
    TypesView,
)
from shared.store.reading.conversation_shapes import MemoryView, MessageView, TurnView
from shared.store.reading.cost_shapes import AllowanceView, BudgetView, CostsBy, CostsView
from shared.store.reading.destination_shapes import (
    CreatedDestination,
    DeliveryView,
    DestinationDetails,
    DestinationView,
    NewSecret,
)
from shared.store.reading.graph_shapes import (
    EdgeTypeDetails,
    NeighbourhoodView,
    NodeDetails,
    NodeTypeDetails,
)
from shared.store.reading.letter_shapes import DeadLetterDetails, DeadLetterView
from shared.store.reading.page import LARGEST_PAGE, Page
from shared.store.reading.shapes import (
    AboutView,
    AgentDetails,
    AgentView,
    CallsView,
    ConclusionView,
    EdgeView,
    GraphView,
    InboxItemView,
    IterationDetails,
    IterationView,
    NodeView,
    OutsideView,
    View,
)
from shared.store.reading.work_shapes import Marked

TIMEOUT_SECONDS: Final = 30.0
"""More than the pause between two signs of life of an answer that goes on."""

T = TypeVar("T")
S = TypeVar("S", bound=View)


class ApiError(CommandError):
    """The api said no; its own words."""


class Client:
    """Every call raises ApiError where the api refuses, and AwayError where it cannot answer now."""

    def __init__(self, api: Api) -> None:
        self.url = api.url
        shown = {} if api.token is None else {"Authorization": f"Bearer {api.token}"}
        self._http = httpx.Client(
            base_url=f"{api.url}/api/v1", headers=shown, timeout=TIMEOUT_SECONDS, trust_env=False
        )

    def about(self) -> AboutView:
        return self._ask(AboutView, "GET", "/about")

    def outside(self) -> OutsideView:
        return self._ask(OutsideView, "GET", "/about/outside")

    def agents(
        self, *, state: str | None = None, search: str | None = None, limit: int | None = None
    ) -> Iterable[AgentView]:
        """By name. Lists are read page by page, as far as they are looked at; `limit` None is all of them."""
        return self._pages(AgentView, "/agents", limit, state=state, search=search)

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

    def change_agent(
        self, reference: str, changes_of: Callable[[AgentDetails], dict[str, Any]]
    ) -> AgentDetails:
        """Changes it by what `changes_of` makes of it, only where nobody has changed it since."""
        path = _agent(reference)
        read = self._send("GET", path)
        changes = changes_of(AgentDetails.model_validate_json(read.content))
        tag = {"If-Match": read.headers["etag"]}
        return self._ask(AgentDetails, "PATCH", path, json=changes, headers=tag)

    def order(self, reference: str, order: str) -> AgentDetails:
        """`pause`, `resume` or `run`."""
        return self._ask(AgentDetails, "POST", f"{_agent(reference)}/{order}")

    def configure(
        self, reference: str, *, mission: str | None = None, keep: Sequence[str] = ()
    ) -> AgentDetails:
        wanted = {"keep": list(keep)} | ({"mission": mission} if mission else {})
        return self._ask(AgentDetails, "POST", f"{_agent(reference)}/configure", json=wanted)

    def configuration(self, reference: str) -> ConfigurationDetails:
        return self._ask(ConfigurationDetails, "GET", f"{_agent(reference)}/configuration")

    def prompts(self, reference: str) -> PromptsView:
        return self._ask(PromptsView, "GET", f"{_agent(reference)}/prompts")

    def prompt_history(
        self, reference: str, *, phase: str | None = None, cursor: str | None = None
    ) -> Page[PromptView]:
        wanted = {"phase": phase, "cursor": cursor}
        params = {key: value for key, value in wanted.items() if value is not None}
        path = f"{_agent(reference)}/prompts/history"
        return self._ask(Page[PromptView], "GET", path, params=params)

    def edit_prompt(self, reference: str, phase: str, prompt: str, *, version: int) -> PromptsView:
        """Refused where the prompts are not of that `version` any more."""
        return self._ask(
            PromptsView,
            "PUT",
            f"{_agent(reference)}/prompts/{quote(phase, safe='')}",
            json={"prompt": prompt},
            # What stands before the dot of the ETag that they were read with.
            headers={"If-Match": f'"{version}."'},
        )

    def types(self, reference: str) -> TypesView:
        return TypesView(
            node_types=list(self.node_types(reference)), edge_types=list(self.edge_types(reference))
        )

    def delete_agent(self, reference: str) -> None:
        self._send("DELETE", _agent(reference))

    def iterations(
        self, reference: str, limit: int | None = 20, *, status: str | None = None
    ) -> Iterable[IterationView]:
        path = f"{_agent(reference)}/iterations"
        return self._pages(IterationView, path, limit, status=status)

    def iteration(self, iteration_id: UUID) -> IterationDetails:
        return self._ask(IterationDetails, "GET", f"/iterations/{iteration_id}")

    def iteration_numbered(self, reference: str, number: int) -> IterationDetails:
        return self._ask(IterationDetails, "GET", f"{_agent(reference)}/iterations/{number}")

    def graph(self, reference: str, *, type_name: str | None = None, limit: int = 100) -> GraphView:
        params = {"limit": limit} | ({"type": type_name} if type_name else {})
        return self._ask(GraphView, "GET", f"{_agent(reference)}/graph", params=params)

    def nodes(
        self, reference: str, limit: int | None = 50, **filters: str | None
    ) -> Iterable[NodeView]:
        """`filters`: type, search, updated_since."""
        return self._pages(NodeView, f"{_agent(reference)}/nodes", limit, **filters)

    def edges(
        self, reference: str, limit: int | None = 50, **filters: str | None
    ) -> Iterable[EdgeView]:
        """`filters`: type, source_id, target_id, node_id, updated_since."""
        return self._pages(EdgeView, f"{_agent(reference)}/edges", limit, **filters)

    def neighbourhood(
        self, reference: str, node_id: UUID, *, depth: int, limit: int
    ) -> NeighbourhoodView:
        path = f"{_agent(reference)}/nodes/{node_id}/neighbourhood"
        params = {"depth": depth, "limit": limit}
        return self._ask(NeighbourhoodView, "GET", path, params=params)

    def node(self, reference: str, node_id: UUID) -> NodeDetails:
        return self._ask(NodeDetails, "GET", f"{_agent(reference)}/nodes/{node_id}")

    def node_types(self, reference: str) -> Iterable[NodeTypeDetails]:
        return self._pages(NodeTypeDetails, f"{_agent(reference)}/node-types", None)

    def edge_types(self, reference: str) -> Iterable[EdgeTypeDetails]:
        return self._pages(EdgeTypeDetails, f"{_agent(reference)}/edge-types", None)

    def analyses(self, reference: str, limit: int | None = 100) -> Iterable[ConclusionView]:
        return self._pages(ConclusionView, f"{_agent(reference)}/analyses", limit)

    def advice(self, reference: str, limit: int | None = 100) -> Iterable[ConclusionView]:
        return self._pages(ConclusionView, f"{_agent(reference)}/advice", limit)

    def conclusion(self, reference: str, kind: str, node_id: UUID) -> ConclusionView:
        """`kind` is `analyses` or `advice`."""
        return self._ask(ConclusionView, "GET", f"{_agent(reference)}/{kind}/{node_id}")

    def calls(self, reference: str) -> CallsView:
        return self._ask(CallsView, "GET", f"{_agent(reference)}/calls/summary")

    def costs(self, reference: str | None, *, by: CostsBy, since: date | None) -> CostsView:
        """Of one agent or all, with every group."""
        path = "/costs" if reference is None else f"{_agent(reference)}/costs"
        params = {"by": by} | ({} if since is None else {"since": since.isoformat()})
        told = self._ask(CostsView, "GET", path, params=params)
        while told.next is not None:
            more = self._ask(CostsView, "GET", path, params={**params, "cursor": told.next})
            told = more.model_copy(update={"groups": [*told.groups, *more.groups]})
        return told

    def budget(self, reference: str) -> BudgetView:
        return self._ask(BudgetView, "GET", f"{_agent(reference)}/budget")

    def set_budget(self, reference: str, caps: dict[str, float | int | None]) -> BudgetView:
        return self._ask(BudgetView, "PUT", f"{_agent(reference)}/budget", json=caps)

    def installation_budget(self) -> AllowanceView:
        return self._ask(AllowanceView, "GET", "/budget")

    def set_installation_budget(self, caps: dict[str, float | int | None]) -> AllowanceView:
        return self._ask(AllowanceView, "PUT", "/budget", json=caps)

    def inbox(
        self, *, unread: bool, agent_id: UUID | None = None, limit: int | None = 50
    ) -> Iterable[InboxItemView]:
        return self._pages(InboxItemView, "/inbox", limit, unread=unread, agent_id=agent_id)

    def inbox_item(self, item_id: UUID) -> InboxItemView:
        return self._ask(InboxItemView, "GET", f"/inbox/{item_id}")

    def mark(self, item_id: UUID, *, read: bool) -> InboxItemView:
        order = "read" if read else "unread"
        return self._ask(InboxItemView, "POST", f"/inbox/{item_id}/{order}")

    def mark_all_read(self) -> Marked:
        return self._ask(Marked, "POST", "/inbox/read")

    def dead_letters(
        self, *, actor: str | None = None, limit: int | None = 50
    ) -> Iterable[DeadLetterView]:
        return self._pages(DeadLetterView, "/dead-letters", limit, actor=actor)

    def dead_letter(self, reference: str) -> DeadLetterDetails:
        return self._ask(DeadLetterDetails, "GET", _letter(reference))

    def retry(self, reference: str) -> DeadLetterView:
        return self._ask(DeadLetterView, "POST", f"{_letter(reference)}/retry")

    def discard(self, reference: str) -> None:
        self._send("DELETE", _letter(reference))

    def destinations(self) -> list[DestinationView]:
        """All of them: an owner has few."""
        params = {"limit": LARGEST_PAGE}
        return self._ask(Page[DestinationView], "GET", "/destinations", params=params).items

    def destination(self, destination_id: UUID) -> DestinationDetails:
        return self._ask(DestinationDetails, "GET", _destination(destination_id))

    def create_destination(
        self, kind: str, address: str, *, agent: str | None = None
    ) -> CreatedDestination:
        given = {"kind": kind, "address": address, "agent": agent}
        return self._ask(CreatedDestination, "POST", "/destinations", json=given)

    def activate_destination(self, destination_id: UUID, *, active: bool) -> DestinationDetails:
        path = _destination(destination_id)
        return self._ask(DestinationDetails, "PATCH", path, json={"active": active})

    def rotate_secret(self, destination_id: UUID) -> NewSecret:
        return self._ask(NewSecret, "POST", f"{_destination(destination_id)}/rotate-secret")

    def test_destination(self, destination_id: UUID) -> DeliveryView:
        return self._ask(DeliveryView, "POST", f"{_destination(destination_id)}/test")

    def delete_destination(self, destination_id: UUID) -> None:
        self._send("DELETE", _destination(destination_id))

    def delivery(self, known: DeliveryView) -> DeliveryView:
        """As it is now."""
        return self._ask(DeliveryView, "GET", _delivery(known))

    def failed_deliveries(self, destination_id: UUID) -> list[DeliveryView]:
        """All of them, page by page."""
        path, found, cursor = f"{_destination(destination_id)}/deliveries", [], ""
        while True:
            params = {"status": "failed", "limit": LARGEST_PAGE} | (
                {"cursor": cursor} if cursor else {}
            )
            page = self._ask(Page[DeliveryView], "GET", path, params=params)
            found += page.items
            if page.next is None:
                return found
            cursor = page.next

    def retry_delivery(self, known: DeliveryView) -> DeliveryView:
        return self._ask(DeliveryView, "POST", f"{_delivery(known)}/retry")

    def events(self, agent: str | None, parameters: Mapping[str, str]) -> Iterator[ServerSentEvent]:
        """Of one agent or of all, until the connection ends."""
        path = "/events" if agent is None else f"{_agent(agent)}/events"
        with self._answered(), self._http.stream("GET", path, params=parameters) as answer:
            if answer.is_error:
                answer.read()
                _raise_for(self.url, answer)
            yield from EventSource(answer).iter_sse()

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
                _raise_for(self.url, answer)
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

    def _pages(
        self, shape: type[S], path: str, limit: int | None, **filters: object
    ) -> Iterator[S]:
        """Each page is asked for when the one before it has been read to its end."""
        given = {name: str(value) for name, value in filters.items() if value is not None}
        left, cursor = limit, None
        while left is None or left > 0:
            size = LARGEST_PAGE if left is None else min(left, LARGEST_PAGE)
            params = given | {"limit": str(size)} | ({"cursor": cursor} if cursor else {})
            page = self._ask(Page[shape], "GET", path, params=params)  # type: ignore[valid-type]  # at run time only
            yield from page.items
            left = None if left is None else left - len(page.items)
            if (cursor := page.next) is None:
                return

    def _ask(self, shape: type[T], method: str, path: str, **request: Any) -> T:
        return TypeAdapter(shape).validate_json(self._send(method, path, **request).content)

    def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        with self._answered():
            answer = self._http.request(method, path, **request)
        _raise_for(self.url, answer)
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


def _raise_for(url: str, answer: httpx.Response) -> None:
    if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
        raise AwayError(_detail(answer))
    if answer.status_code == HTTPStatus.UNAUTHORIZED:
        raise ApiError(
            f"{url} does not let us in. {_detail(answer)} Then `vigil login --url {url}`, "
            "or give the token by VIGIL_TOKEN."
        )
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


def _destination(destination_id: UUID) -> str:
    return f"/destinations/{destination_id}"


def _delivery(known: DeliveryView) -> str:
    return f"{_destination(known.destination_id)}/deliveries/{known.id}"


def _detail(answer: httpx.Response) -> str:
    try:
        told = answer.json()
    except ValueError:
        told = None
    if isinstance(told, dict) and isinstance(told.get("detail"), str):
        return str(told["detail"])
    return f"{answer.request.url} answers {answer.status_code} {answer.reason_phrase}"
