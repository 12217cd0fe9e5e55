"""The API client of the commands: a class for each resource group, combined in `Client`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any
from urllib.parse import quote
from uuid import UUID

from httpx_sse import ServerSentEvent

from cli.client.http import Connection, agent_path
from shared.schemas.accounts import MeView, NewTokenView, SignInLinkView, TokenView, UserView
from shared.schemas.agents import ConfigurationDetails, PromptsView, PromptView, TypesView
from shared.schemas.base import (
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
)
from shared.schemas.conclusions import InvestigationRequestView
from shared.schemas.conversation import MemoryView, MessageView, TurnView
from shared.schemas.costs import AllowanceView, BudgetView, CostsBy, CostsView
from shared.schemas.graph import (
    DuplicateView,
    EdgeDetails,
    EdgeTypeDetails,
    MergeView,
    NeighbourhoodView,
    NodeDetails,
    NodeTypeDetails,
)
from shared.schemas.iterations import CallView, Marked
from shared.schemas.notifications import (
    CreatedDestination,
    DeliveryView,
    DestinationDetails,
    DestinationView,
    NewSecret,
)
from shared.schemas.operations import DeadLetterDetails, DeadLetterView
from shared.schemas.provenance import (
    RetractionView,
    SourceDetails,
    SourceView,
    VerificationPage,
    VerificationView,
)


class Agents(Connection):
    def agents(
        self, *, state: str | None = None, search: str | None = None, limit: int | None = None
    ) -> Iterable[AgentView]:
        """Sorted by name. Lists are fetched page by page as they are iterated; `limit` None is all."""
        return self._pages(AgentView, "/agents", limit, state=state, search=search)

    def agent(self, reference: str) -> AgentDetails:
        return self._ask(AgentDetails, "GET", agent_path(reference))

    def create_agent(
        self,
        mission: str,
        *,
        name: str | None = None,
        interval_seconds: int | None = None,
        models: dict[str, str] | None = None,
        feedback_rounds: int | None = None,
    ) -> AgentDetails:
        body = {
            "mission": mission,
            "name": name,
            "interval_seconds": interval_seconds,
            "models": models,
            "feedback_rounds": feedback_rounds,
        }
        body = {key: value for key, value in body.items() if value is not None}
        return self._ask(AgentDetails, "POST", "/agents", json=body)

    def change_agent(
        self, reference: str, changes_of: Callable[[AgentDetails], dict[str, Any]]
    ) -> AgentDetails:
        """Sends the changes that `changes_of` returns for the agent. Refused if it was changed in the meantime."""
        path = agent_path(reference)
        response = self._send("GET", path)
        changes = changes_of(AgentDetails.model_validate_json(response.content))
        headers = {"If-Match": response.headers["etag"]}
        return self._ask(AgentDetails, "PATCH", path, json=changes, headers=headers)

    def order(self, reference: str, order: str) -> AgentDetails:
        """`order` is `pause`, `resume` or `run`."""
        return self._ask(AgentDetails, "POST", f"{agent_path(reference)}/{order}")

    def configure(
        self, reference: str, *, mission: str | None = None, keep: Sequence[str] = ()
    ) -> AgentDetails:
        body = {"keep": list(keep)} | ({"mission": mission} if mission else {})
        return self._ask(AgentDetails, "POST", f"{agent_path(reference)}/configure", json=body)

    def configuration(self, reference: str) -> ConfigurationDetails:
        return self._ask(ConfigurationDetails, "GET", f"{agent_path(reference)}/configuration")

    def prompts(self, reference: str) -> PromptsView:
        return self._ask(PromptsView, "GET", f"{agent_path(reference)}/prompts")

    def prompt_history(self, reference: str, *, phase: str | None = None) -> Iterable[PromptView]:
        """All versions, newest first."""
        path = f"{agent_path(reference)}/prompts/history"
        return self._pages(PromptView, path, None, phase=phase)

    def edit_prompt(self, reference: str, phase: str, prompt: str, *, version: int) -> PromptsView:
        """Refused if the prompts are no longer at this `version`."""
        return self._ask(
            PromptsView,
            "PUT",
            f"{agent_path(reference)}/prompts/{quote(phase, safe='')}",
            json={"prompt": prompt},
            # The part before the dot of the ETag they were read with.
            headers={"If-Match": f'"{version}."'},
        )

    def delete_agent(self, reference: str) -> None:
        self._send("DELETE", agent_path(reference))

    def iterations(
        self, reference: str, limit: int | None = 20, *, status: str | None = None
    ) -> Iterable[IterationView]:
        path = f"{agent_path(reference)}/iterations"
        return self._pages(IterationView, path, limit, status=status)

    def iteration(self, iteration_id: UUID) -> IterationDetails:
        return self._ask(IterationDetails, "GET", f"/iterations/{iteration_id}")

    def iteration_numbered(self, reference: str, number: int) -> IterationDetails:
        return self._ask(IterationDetails, "GET", f"{agent_path(reference)}/iterations/{number}")


class Conversations(Connection):
    def messages(self, agent: str, limit: int | None = 50) -> Iterable[MessageView]:
        """Newest first."""
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
        """The events of the answer after `last_event_id`, until the connection ends."""
        headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
        return self._stream(f"{_messages(agent)}/{message_id}/stream", headers=headers)

    def memories(self, agent: str, *, forgotten: bool = False) -> Iterable[MemoryView]:
        return self._pages(MemoryView, _memories(agent), None, forgotten=forgotten)

    def remember(self, agent: str, kind: str, content: str) -> MemoryView:
        body = {"kind": kind, "content": content}
        return self._ask(MemoryView, "POST", _memories(agent), json=body)

    def forget(self, agent: str, memory_id: UUID) -> None:
        self._send("DELETE", f"{_memories(agent)}/{memory_id}")


def _messages(agent: str) -> str:
    return f"{agent_path(agent)}/conversation/messages"


def _memories(agent: str) -> str:
    return f"{agent_path(agent)}/memories"


class Inbox(Connection):
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

    def destinations(self) -> list[DestinationView]:
        return list(self._pages(DestinationView, "/destinations", None))

    def destination(self, destination_id: UUID) -> DestinationDetails:
        return self._ask(DestinationDetails, "GET", _destination(destination_id))

    def create_destination(
        self, kind: str, address: str, *, agent: str | None = None
    ) -> CreatedDestination:
        body = {"kind": kind, "address": address, "agent": agent}
        return self._ask(CreatedDestination, "POST", "/destinations", json=body)

    def activate_destination(self, destination_id: UUID, *, active: bool) -> DestinationDetails:
        path = _destination(destination_id)
        return self._ask(DestinationDetails, "PATCH", path, json={"active": active})

    def rotate_secret(self, destination_id: UUID) -> NewSecret:
        return self._ask(NewSecret, "POST", f"{_destination(destination_id)}/rotate-secret")

    def test_destination(self, destination_id: UUID) -> DeliveryView:
        return self._ask(DeliveryView, "POST", f"{_destination(destination_id)}/test")

    def delete_destination(self, destination_id: UUID) -> None:
        self._send("DELETE", _destination(destination_id))

    def delivery(self, delivery: DeliveryView) -> DeliveryView:
        """The present state of the delivery."""
        return self._ask(DeliveryView, "GET", _delivery(delivery))

    def failed_deliveries(self, destination_id: UUID) -> list[DeliveryView]:
        path = f"{_destination(destination_id)}/deliveries"
        return list(self._pages(DeliveryView, path, None, status="failed"))

    def retry_delivery(self, delivery: DeliveryView) -> DeliveryView:
        return self._ask(DeliveryView, "POST", f"{_delivery(delivery)}/retry")


def _destination(destination_id: UUID) -> str:
    return f"/destinations/{destination_id}"


def _delivery(delivery: DeliveryView) -> str:
    return f"{_destination(delivery.destination_id)}/deliveries/{delivery.id}"


class OfInstallation(Connection):
    def about(self) -> AboutView:
        return self._ask(AboutView, "GET", "/about")

    def outside(self) -> OutsideView:
        return self._ask(OutsideView, "GET", "/about/outside")

    def events(self, agent: str | None, parameters: Mapping[str, str]) -> Iterator[ServerSentEvent]:
        """Events of one agent or of all, until the connection ends."""
        path = "/events" if agent is None else f"{agent_path(agent)}/events"
        return self._stream(path, params=parameters)

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


def _letter(reference: str) -> str:
    return f"/dead-letters/{quote(reference, safe='')}"


class Knowledge(Connection):
    def graph(self, reference: str, *, type_name: str | None = None, limit: int = 100) -> GraphView:
        params = {"limit": limit} | ({"type": type_name} if type_name else {})
        return self._ask(GraphView, "GET", f"{agent_path(reference)}/graph", params=params)

    def nodes(
        self, reference: str, limit: int | None = 50, **filters: str | None
    ) -> Iterable[NodeView]:
        """`filters`: type, search, updated_since."""
        return self._pages(NodeView, f"{agent_path(reference)}/nodes", limit, **filters)

    def edges(
        self, reference: str, limit: int | None = 50, **filters: str | None
    ) -> Iterable[EdgeView]:
        """`filters`: type, source_id, target_id, node_id, updated_since."""
        return self._pages(EdgeView, f"{agent_path(reference)}/edges", limit, **filters)

    def neighbourhood(
        self, reference: str, node_id: UUID, *, depth: int, limit: int
    ) -> NeighbourhoodView:
        path = f"{agent_path(reference)}/nodes/{node_id}/neighbourhood"
        params = {"depth": depth, "limit": limit}
        return self._ask(NeighbourhoodView, "GET", path, params=params)

    def node(self, reference: str, node_id: UUID) -> NodeDetails:
        return self._ask(NodeDetails, "GET", f"{agent_path(reference)}/nodes/{node_id}")

    def types(self, reference: str) -> TypesView:
        return TypesView(
            node_types=list(self.node_types(reference)), edge_types=list(self.edge_types(reference))
        )

    def edge(self, reference: str, edge_id: UUID) -> EdgeDetails:
        return self._ask(EdgeDetails, "GET", f"{agent_path(reference)}/edges/{edge_id}")

    def node_types(self, reference: str) -> Iterable[NodeTypeDetails]:
        return self._pages(NodeTypeDetails, f"{agent_path(reference)}/node-types", None)

    def edge_types(self, reference: str) -> Iterable[EdgeTypeDetails]:
        return self._pages(EdgeTypeDetails, f"{agent_path(reference)}/edge-types", None)

    def analyses(self, reference: str, limit: int | None = 100) -> Iterable[ConclusionView]:
        return self._pages(ConclusionView, f"{agent_path(reference)}/analyses", limit)

    def advice(self, reference: str, limit: int | None = 100) -> Iterable[ConclusionView]:
        return self._pages(ConclusionView, f"{agent_path(reference)}/advice", limit)

    def investigations(
        self, reference: str, *, only_open: bool = False, limit: int | None = 100
    ) -> Iterable[InvestigationRequestView]:
        path = f"{agent_path(reference)}/investigation-requests"
        is_open = "true" if only_open else None
        return self._pages(InvestigationRequestView, path, limit, open=is_open)

    def conclusion(self, reference: str, kind: str, node_id: UUID) -> ConclusionView:
        """`kind` is `analyses` or `advice`."""
        return self._ask(ConclusionView, "GET", f"{agent_path(reference)}/{kind}/{node_id}")


class Merges(Connection):
    def duplicates(self, agent: str, limit: int | None = 50) -> Iterable[DuplicateView]:
        """Duplicate candidates, most recently changed first."""
        return self._pages(DuplicateView, f"{agent_path(agent)}/duplicates", limit)

    def merges(self, agent: str, limit: int | None = 50) -> Iterable[MergeView]:
        """Newest first."""
        return self._pages(MergeView, f"{agent_path(agent)}/merges", limit)

    def merge(self, agent: str, *, kept: UUID, merged: UUID, reason: str) -> MergeView:
        body = {"kept": str(kept), "merged": str(merged), "reason": reason}
        return self._ask(MergeView, "POST", f"{agent_path(agent)}/merges", json=body)

    def undo_merge(self, agent: str, merge_id: UUID) -> MergeView:
        return self._ask(MergeView, "POST", f"{agent_path(agent)}/merges/{merge_id}/undo")


class Proof(Connection):
    def verification(self, conclusion_id: UUID) -> VerificationView:
        return self._ask(VerificationView, "GET", f"/conclusions/{conclusion_id}/verification")

    def verification_pages(self, agent: str, rows: int) -> Iterator[VerificationPage]:
        """The check of everything the agent knows, `rows` rows a page."""
        cursor: str | None = None
        while True:
            params = {"limit": str(rows)} | ({"cursor": cursor} if cursor else {})
            path = f"{agent_path(agent)}/verification"
            page = self._ask(VerificationPage, "GET", path, params=params)
            yield page
            if (cursor := page.next) is None:
                return

    def export(self, agent: str, file_format: str) -> Iterator[bytes]:
        """Everything the agent knows, in chunks. `file_format` is jsonl, graphml or prov."""
        return self._download(f"{agent_path(agent)}/export", params={"format": file_format})


class Sources(Connection):
    def sources(
        self,
        agent: str,
        limit: int | None = 50,
        *,
        page_url: str | None = None,
        retracted: bool | None = None,
    ) -> Iterable[SourceView]:
        """Most recently fetched first."""
        path = f"{agent_path(agent)}/sources"
        return self._pages(SourceView, path, limit, url=page_url, retracted=retracted)

    def source(self, agent: str, source_id: UUID) -> SourceDetails:
        return self._ask(SourceDetails, "GET", f"{agent_path(agent)}/sources/{source_id}")

    def retractions(
        self,
        agent: str,
        limit: int | None = 50,
        *,
        standing: bool | None = None,
        source: str | None = None,
    ) -> Iterable[RetractionView]:
        """Newest first; `source` is a URL or the id of a source."""
        path = _retractions(agent)
        return self._pages(RetractionView, path, limit, standing=standing, source=source)

    def retraction(self, agent: str, retraction_id: UUID) -> RetractionView:
        return self._ask(RetractionView, "GET", f"{_retractions(agent)}/{retraction_id}")

    def retract(self, agent: str, source: str, reason: str) -> RetractionView:
        body = {"source": source, "reason": reason}
        return self._ask(RetractionView, "POST", _retractions(agent), json=body)

    def restore(self, agent: str, retraction_id: UUID) -> RetractionView:
        return self._ask(RetractionView, "POST", f"{_retractions(agent)}/{retraction_id}/restore")


def _retractions(agent: str) -> str:
    return f"{agent_path(agent)}/retractions"


class Spending(Connection):
    def calls(self, reference: str) -> CallsView:
        return self._ask(CallsView, "GET", f"{agent_path(reference)}/calls/summary")

    def calls_made(self, reference: str) -> Iterable[CallView]:
        """Single calls, newest first."""
        return self._pages(CallView, f"{agent_path(reference)}/calls", None)

    def costs(self, reference: str | None, *, by: CostsBy, since: date | None) -> CostsView:
        """Costs of one agent or of all, with every group."""
        path = "/costs" if reference is None else f"{agent_path(reference)}/costs"
        params = {"by": by} | ({} if since is None else {"since": since.isoformat()})
        view = self._ask(CostsView, "GET", path, params=params)
        while view.next is not None:
            more = self._ask(CostsView, "GET", path, params={**params, "cursor": view.next})
            view = more.model_copy(update={"groups": [*view.groups, *more.groups]})
        return view

    def budget(self, reference: str) -> BudgetView:
        return self._ask(BudgetView, "GET", f"{agent_path(reference)}/budget")

    def set_budget(self, reference: str, caps: dict[str, float | int | None]) -> BudgetView:
        return self._ask(BudgetView, "PUT", f"{agent_path(reference)}/budget", json=caps)

    def installation_budget(self) -> AllowanceView:
        return self._ask(AllowanceView, "GET", "/budget")

    def set_installation_budget(self, caps: dict[str, float | int | None]) -> AllowanceView:
        return self._ask(AllowanceView, "PUT", "/budget", json=caps)


class Accounts(Connection):
    def me(self) -> MeView:
        return self._ask(MeView, "GET", "/me")

    def make_link(self, user: str | None = None) -> SignInLinkView:
        """A sign-in link for the caller, or for another user."""
        path = "/me" if user is None else _user(user)
        return self._ask(SignInLinkView, "POST", f"{path}/sign-in-links")

    def tokens(self) -> list[TokenView]:
        return list(self._pages(TokenView, "/tokens", None))

    def create_token(
        self, name: str, *, scopes: Sequence[str], expires_in_days: int | str | None
    ) -> NewTokenView:
        """`expires_in_days` None is the API's default."""
        body = {"name": name, "scopes": scopes or None, "expires_in_days": expires_in_days}
        present = {key: value for key, value in body.items() if value is not None}
        return self._ask(NewTokenView, "POST", "/tokens", json=present)

    def revoke_token(self, token_id: UUID) -> None:
        self._send("DELETE", f"/tokens/{token_id}")

    def users(self) -> list[UserView]:
        return list(self._pages(UserView, "/users", None))

    def add_user(self, name: str, *, email: str | None, operator: bool) -> UserView:
        body = {"name": name, "email": email, "operator": operator}
        return self._ask(UserView, "POST", "/users", json=body)

    def user(self, reference: str) -> UserView:
        return self._ask(UserView, "GET", _user(reference))

    def order_user(self, reference: str, order: str) -> UserView:
        """`order` is `disable` or `enable`."""
        return self._ask(UserView, "POST", f"{_user(reference)}/{order}")

    def remove_user(self, reference: str) -> None:
        self._send("DELETE", _user(reference))


def _user(reference: str) -> str:
    return f"/users/{quote(reference, safe='')}"


class Client(
    Agents,
    Accounts,
    Knowledge,
    Merges,
    Proof,
    Sources,
    Conversations,
    Inbox,
    Spending,
    OfInstallation,
):
    """Every method raises ApiError if the API refuses, and AwayError if it does not answer at the moment."""
