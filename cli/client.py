"""The api, as the commands use it."""

from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote
from uuid import UUID

import httpx
from pydantic import TypeAdapter

from cli.errors import AwayError, CommandError
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
    View,
)
from shared.store.reading.work_shapes import Marked

TIMEOUT_SECONDS: Final = 30.0

T = TypeVar("T")
S = TypeVar("S", bound=View)


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
        try:
            answer = self._http.request(method, path, **request)
        except httpx.InvalidURL as error:
            raise CommandError(f"{self.url!r} is no URL: {error}") from error
        except httpx.UnsupportedProtocol as error:
            raise CommandError(f"{self.url!r} is no URL of an api: {error}") from error
        except httpx.TransportError as error:
            raise AwayError(
                f"no Vigil answers at {self.url}: {str(error) or type(error).__name__}"
            ) from error
        if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
            raise AwayError(_detail(answer))
        if answer.is_error:
            raise ApiError(_detail(answer))
        return answer


def _agent(reference: str) -> str:
    return f"/agents/{quote(reference, safe='')}"


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
