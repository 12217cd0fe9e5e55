"""The API client of the commands: a class for each resource group, combined in `Client`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any
from urllib.parse import quote
from uuid import UUID

from httpx_sse import ServerSentEvent

from cli.client.http import Connection, agent_path
from shared.schemas.accounts import (
    MeResponse,
    NewTokenResponse,
    SignInLinkResponse,
    TokenResponse,
    UserResponse,
)
from shared.schemas.agents import (
    ConfigurationDetails,
    PromptResponse,
    PromptsResponse,
    TypesResponse,
)
from shared.schemas.base import (
    AboutResponse,
    AgentDetails,
    AgentResponse,
    CallsSummary,
    ConclusionResponse,
    EdgeResponse,
    GraphResponse,
    InboxItemResponse,
    IterationDetails,
    IterationSummary,
    NodeResponse,
    ProvidersResponse,
)
from shared.schemas.conclusions import InvestigationRequestResponse
from shared.schemas.conversation import ConversationTurn, MemoryResponse, MessageResponse
from shared.schemas.costs import (
    BudgetResponse,
    BudgetUsage,
    CostsBy,
    CostsResponse,
    ForecastResponse,
)
from shared.schemas.graph import (
    DuplicatePair,
    EdgeDetails,
    EdgeTypeDetails,
    MergeResponse,
    NeighbourhoodResponse,
    NodeDetails,
    NodeTypeDetails,
)
from shared.schemas.iterations import CallResponse, Marked
from shared.schemas.notifications import (
    CreatedDestination,
    DeliveryResponse,
    DestinationDetails,
    DestinationResponse,
    NewSecret,
)
from shared.schemas.operations import (
    DeadLetterDetails,
    DeadLetterResponse,
    ServiceLoadsResponse,
)
from shared.schemas.provenance import (
    RetractionResponse,
    SourceDetails,
    SourceResponse,
    VerificationPage,
    VerificationResponse,
)


class Agents(Connection):
    def agents(
        self, *, state: str | None = None, search: str | None = None, limit: int | None = None
    ) -> Iterable[AgentResponse]:
        """Sorted by name. Lists are fetched page by page as they are iterated; `limit` None is all."""
        return self._pages(AgentResponse, "/agents", limit, state=state, search=search)

    def agent(self, reference: str) -> AgentDetails:
        return self._ask(AgentDetails, "GET", agent_path(reference))

    def create_agent(
        self,
        mission: str,
        *,
        name: str | None = None,
        interval_seconds: int | None = None,
        max_interval_seconds: int | None = None,
        models: dict[str, str] | None = None,
        feedback_rounds: int | None = None,
        advice_from_one_analysis: bool | None = None,
        entailment_usd_per_day: float | None = None,
        entailment_share: float | None = None,
        preferred_domains: Sequence[str] | None = None,
        barred_domains: Sequence[str] | None = None,
    ) -> AgentDetails:
        body = {
            "mission": mission,
            "name": name,
            "interval_seconds": interval_seconds,
            "max_interval_seconds": max_interval_seconds,
            "models": models,
            "feedback_rounds": feedback_rounds,
            "advice_from_one_analysis": advice_from_one_analysis,
            "entailment_usd_per_day": entailment_usd_per_day,
            "entailment_share": entailment_share,
            "preferred_domains": preferred_domains,
            "barred_domains": barred_domains,
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

    def prompts(self, reference: str) -> PromptsResponse:
        return self._ask(PromptsResponse, "GET", f"{agent_path(reference)}/prompts")

    def prompt_history(
        self, reference: str, *, phase: str | None = None
    ) -> Iterable[PromptResponse]:
        """All versions, newest first."""
        path = f"{agent_path(reference)}/prompts/history"
        return self._pages(PromptResponse, path, None, phase=phase)

    def edit_prompt(
        self, reference: str, phase: str, prompt: str, *, version: int
    ) -> PromptsResponse:
        """Refused if the prompts are no longer at this `version`."""
        return self._ask(
            PromptsResponse,
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
    ) -> Iterable[IterationSummary]:
        path = f"{agent_path(reference)}/iterations"
        return self._pages(IterationSummary, path, limit, status=status)

    def iteration(self, iteration_id: UUID) -> IterationDetails:
        return self._ask(IterationDetails, "GET", f"/iterations/{iteration_id}")

    def iteration_numbered(self, reference: str, number: int) -> IterationDetails:
        return self._ask(IterationDetails, "GET", f"{agent_path(reference)}/iterations/{number}")


class Conversations(Connection):
    def messages(self, agent: str, limit: int | None = 50) -> Iterable[MessageResponse]:
        """Newest first."""
        return self._pages(MessageResponse, _messages(agent), limit)

    def message(self, agent: str, message_id: UUID) -> MessageResponse:
        return self._ask(MessageResponse, "GET", f"{_messages(agent)}/{message_id}")

    def say(self, agent: str, content: str) -> ConversationTurn:
        return self._ask(ConversationTurn, "POST", _messages(agent), json={"content": content})

    def retry_answer(self, agent: str, message_id: UUID) -> MessageResponse:
        return self._ask(MessageResponse, "POST", f"{_messages(agent)}/{message_id}/retry")

    def answer(
        self, agent: str, message_id: UUID, last_event_id: str | None
    ) -> Iterator[ServerSentEvent]:
        """The events of the answer after `last_event_id`, until the connection ends."""
        headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
        return self._stream(f"{_messages(agent)}/{message_id}/stream", headers=headers)

    def memories(self, agent: str, *, forgotten: bool = False) -> Iterable[MemoryResponse]:
        return self._pages(MemoryResponse, _memories(agent), None, forgotten=forgotten)

    def remember(self, agent: str, kind: str, content: str) -> MemoryResponse:
        body = {"kind": kind, "content": content}
        return self._ask(MemoryResponse, "POST", _memories(agent), json=body)

    def forget(self, agent: str, memory_id: UUID) -> None:
        self._send("DELETE", f"{_memories(agent)}/{memory_id}")


def _messages(agent: str) -> str:
    return f"{agent_path(agent)}/conversation/messages"


def _memories(agent: str) -> str:
    return f"{agent_path(agent)}/memories"


class Inbox(Connection):
    def inbox(
        self, *, unread: bool, agent_id: UUID | None = None, limit: int | None = 50
    ) -> Iterable[InboxItemResponse]:
        return self._pages(InboxItemResponse, "/inbox", limit, unread=unread, agent_id=agent_id)

    def inbox_item(self, item_id: UUID) -> InboxItemResponse:
        return self._ask(InboxItemResponse, "GET", f"/inbox/{item_id}")

    def mark(self, item_id: UUID, *, read: bool) -> InboxItemResponse:
        order = "read" if read else "unread"
        return self._ask(InboxItemResponse, "POST", f"/inbox/{item_id}/{order}")

    def mark_all_read(self) -> Marked:
        return self._ask(Marked, "POST", "/inbox/read")

    def destinations(self) -> list[DestinationResponse]:
        return list(self._pages(DestinationResponse, "/destinations", None))

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

    def test_destination(self, destination_id: UUID) -> DeliveryResponse:
        return self._ask(DeliveryResponse, "POST", f"{_destination(destination_id)}/test")

    def delete_destination(self, destination_id: UUID) -> None:
        self._send("DELETE", _destination(destination_id))

    def delivery(self, delivery: DeliveryResponse) -> DeliveryResponse:
        """The present state of the delivery."""
        return self._ask(DeliveryResponse, "GET", _delivery(delivery))

    def failed_deliveries(self, destination_id: UUID) -> list[DeliveryResponse]:
        path = f"{_destination(destination_id)}/deliveries"
        return list(self._pages(DeliveryResponse, path, None, status="failed"))

    def retry_delivery(self, delivery: DeliveryResponse) -> DeliveryResponse:
        return self._ask(DeliveryResponse, "POST", f"{_delivery(delivery)}/retry")


def _destination(destination_id: UUID) -> str:
    return f"/destinations/{destination_id}"


def _delivery(delivery: DeliveryResponse) -> str:
    return f"{_destination(delivery.destination_id)}/deliveries/{delivery.id}"


class OfInstallation(Connection):
    def about(self) -> AboutResponse:
        return self._ask(AboutResponse, "GET", "/about")

    def service_loads(self) -> ServiceLoadsResponse:
        """For operators."""
        return self._ask(ServiceLoadsResponse, "GET", "/services")

    def providers(self) -> ProvidersResponse:
        return self._ask(ProvidersResponse, "GET", "/about/providers")

    def events(self, agent: str | None, parameters: Mapping[str, str]) -> Iterator[ServerSentEvent]:
        """Events of one agent or of all, until the connection ends."""
        path = "/events" if agent is None else f"{agent_path(agent)}/events"
        return self._stream(path, params=parameters)

    def dead_letters(
        self, *, service: str | None = None, limit: int | None = 50
    ) -> Iterable[DeadLetterResponse]:
        return self._pages(DeadLetterResponse, "/dead-letters", limit, service=service)

    def dead_letter(self, reference: str) -> DeadLetterDetails:
        return self._ask(DeadLetterDetails, "GET", _dead_letter(reference))

    def retry(self, reference: str) -> DeadLetterResponse:
        return self._ask(DeadLetterResponse, "POST", f"{_dead_letter(reference)}/retry")

    def discard(self, reference: str) -> None:
        self._send("DELETE", _dead_letter(reference))


def _dead_letter(reference: str) -> str:
    return f"/dead-letters/{quote(reference, safe='')}"


class Knowledge(Connection):
    def graph(
        self, reference: str, *, type_name: str | None = None, limit: int = 100
    ) -> GraphResponse:
        params = {"limit": limit} | ({"type": type_name} if type_name else {})
        return self._ask(GraphResponse, "GET", f"{agent_path(reference)}/graph", params=params)

    def nodes(
        self, reference: str, limit: int | None = 50, **filters: str | None
    ) -> Iterable[NodeResponse]:
        """`filters`: type, search, updated_since."""
        return self._pages(NodeResponse, f"{agent_path(reference)}/nodes", limit, **filters)

    def edges(
        self, reference: str, limit: int | None = 50, **filters: str | None
    ) -> Iterable[EdgeResponse]:
        """`filters`: type, source_id, target_id, node_id, updated_since."""
        return self._pages(EdgeResponse, f"{agent_path(reference)}/edges", limit, **filters)

    def neighbourhood(
        self, reference: str, node_id: UUID, *, depth: int, limit: int
    ) -> NeighbourhoodResponse:
        path = f"{agent_path(reference)}/nodes/{node_id}/neighbourhood"
        params = {"depth": depth, "limit": limit}
        return self._ask(NeighbourhoodResponse, "GET", path, params=params)

    def node(self, reference: str, node_id: UUID) -> NodeDetails:
        return self._ask(NodeDetails, "GET", f"{agent_path(reference)}/nodes/{node_id}")

    def types(self, reference: str) -> TypesResponse:
        return TypesResponse(
            node_types=list(self.node_types(reference)), edge_types=list(self.edge_types(reference))
        )

    def edge(self, reference: str, edge_id: UUID) -> EdgeDetails:
        return self._ask(EdgeDetails, "GET", f"{agent_path(reference)}/edges/{edge_id}")

    def node_types(self, reference: str) -> Iterable[NodeTypeDetails]:
        return self._pages(NodeTypeDetails, f"{agent_path(reference)}/node-types", None)

    def edge_types(self, reference: str) -> Iterable[EdgeTypeDetails]:
        return self._pages(EdgeTypeDetails, f"{agent_path(reference)}/edge-types", None)

    def analyses(self, reference: str, limit: int | None = 100) -> Iterable[ConclusionResponse]:
        return self._pages(ConclusionResponse, f"{agent_path(reference)}/analyses", limit)

    def advice(self, reference: str, limit: int | None = 100) -> Iterable[ConclusionResponse]:
        return self._pages(ConclusionResponse, f"{agent_path(reference)}/advice", limit)

    def investigations(
        self, reference: str, *, only_open: bool = False, limit: int | None = 100
    ) -> Iterable[InvestigationRequestResponse]:
        path = f"{agent_path(reference)}/investigation-requests"
        is_open = "true" if only_open else None
        return self._pages(InvestigationRequestResponse, path, limit, open=is_open)

    def conclusion(self, reference: str, kind: str, node_id: UUID) -> ConclusionResponse:
        """`kind` is `analyses` or `advice`."""
        return self._ask(ConclusionResponse, "GET", f"{agent_path(reference)}/{kind}/{node_id}")


class Merges(Connection):
    def duplicates(self, agent: str, limit: int | None = 50) -> Iterable[DuplicatePair]:
        """Duplicate candidates, most recently changed first."""
        return self._pages(DuplicatePair, f"{agent_path(agent)}/duplicates", limit)

    def merges(self, agent: str, limit: int | None = 50) -> Iterable[MergeResponse]:
        """Newest first."""
        return self._pages(MergeResponse, f"{agent_path(agent)}/merges", limit)

    def merge(self, agent: str, *, kept: UUID, merged: UUID, reason: str) -> MergeResponse:
        body = {"kept": str(kept), "merged": str(merged), "reason": reason}
        return self._ask(MergeResponse, "POST", f"{agent_path(agent)}/merges", json=body)

    def undo_merge(self, agent: str, merge_id: UUID) -> MergeResponse:
        return self._ask(MergeResponse, "POST", f"{agent_path(agent)}/merges/{merge_id}/undo")


class Proof(Connection):
    def verification(self, conclusion_id: UUID) -> VerificationResponse:
        return self._ask(VerificationResponse, "GET", f"/conclusions/{conclusion_id}/verification")

    def verification_pages(
        self, agent: str, rows: int, since: str | None = None
    ) -> Iterator[VerificationPage]:
        """The check of everything the agent knows, `rows` rows a page; with `since`, of its history only."""
        cursor: str | None = None
        while True:
            params = {"limit": str(rows)} | ({"cursor": cursor} if cursor else {})
            params |= {"since": since} if since else {}
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
    ) -> Iterable[SourceResponse]:
        """Most recently fetched first."""
        path = f"{agent_path(agent)}/sources"
        return self._pages(SourceResponse, path, limit, url=page_url, retracted=retracted)

    def source(self, agent: str, source_id: UUID) -> SourceDetails:
        return self._ask(SourceDetails, "GET", f"{agent_path(agent)}/sources/{source_id}")

    def retractions(
        self,
        agent: str,
        limit: int | None = 50,
        *,
        active: bool | None = None,
        source: str | None = None,
    ) -> Iterable[RetractionResponse]:
        """Newest first; `source` is a URL or the id of a source."""
        path = _retractions(agent)
        return self._pages(RetractionResponse, path, limit, active=active, source=source)

    def retraction(self, agent: str, retraction_id: UUID) -> RetractionResponse:
        return self._ask(RetractionResponse, "GET", f"{_retractions(agent)}/{retraction_id}")

    def retract(self, agent: str, source: str, reason: str) -> RetractionResponse:
        body = {"source": source, "reason": reason}
        return self._ask(RetractionResponse, "POST", _retractions(agent), json=body)

    def restore(self, agent: str, retraction_id: UUID) -> RetractionResponse:
        return self._ask(
            RetractionResponse, "POST", f"{_retractions(agent)}/{retraction_id}/restore"
        )


def _retractions(agent: str) -> str:
    return f"{agent_path(agent)}/retractions"


class Spending(Connection):
    def calls(self, reference: str) -> CallsSummary:
        return self._ask(CallsSummary, "GET", f"{agent_path(reference)}/calls/summary")

    def calls_made(self, reference: str) -> Iterable[CallResponse]:
        """Single calls, newest first."""
        return self._pages(CallResponse, f"{agent_path(reference)}/calls", None)

    def costs(self, reference: str | None, *, by: CostsBy, since: date | None) -> CostsResponse:
        """Costs of one agent or of all, with every group."""
        path = "/costs" if reference is None else f"{agent_path(reference)}/costs"
        params = {"by": by} | ({} if since is None else {"since": since.isoformat()})
        view = self._ask(CostsResponse, "GET", path, params=params)
        while view.next is not None:
            more = self._ask(CostsResponse, "GET", path, params={**params, "cursor": view.next})
            view = more.model_copy(update={"groups": [*view.groups, *more.groups]})
        return view

    def forecast(self, interval_seconds: int, model: str | None = None) -> ForecastResponse:
        """What a usual agent costs in a day."""
        params = {"interval_seconds": interval_seconds} | (
            {} if model is None else {"model": model}
        )
        return self._ask(ForecastResponse, "GET", "/forecast", params=params)

    def budget(self, reference: str) -> BudgetResponse:
        return self._ask(BudgetResponse, "GET", f"{agent_path(reference)}/budget")

    def set_budget(self, reference: str, caps: dict[str, float | int | None]) -> BudgetResponse:
        return self._ask(BudgetResponse, "PUT", f"{agent_path(reference)}/budget", json=caps)

    def installation_budget(self) -> BudgetUsage:
        return self._ask(BudgetUsage, "GET", "/budget")

    def set_installation_budget(self, caps: dict[str, float | int | None]) -> BudgetUsage:
        return self._ask(BudgetUsage, "PUT", "/budget", json=caps)


class Accounts(Connection):
    def me(self) -> MeResponse:
        return self._ask(MeResponse, "GET", "/me")

    def make_link(self, user: str | None = None) -> SignInLinkResponse:
        """A sign-in link for the caller, or for another user."""
        path = "/me" if user is None else _user(user)
        return self._ask(SignInLinkResponse, "POST", f"{path}/sign-in-links")

    def tokens(self) -> list[TokenResponse]:
        return list(self._pages(TokenResponse, "/tokens", None))

    def create_token(
        self, name: str, *, scopes: Sequence[str], expires_in_days: int | str | None
    ) -> NewTokenResponse:
        """`expires_in_days` None is the API's default."""
        body = {"name": name, "scopes": scopes or None, "expires_in_days": expires_in_days}
        present = {key: value for key, value in body.items() if value is not None}
        return self._ask(NewTokenResponse, "POST", "/tokens", json=present)

    def revoke_token(self, token_id: UUID) -> None:
        self._send("DELETE", f"/tokens/{token_id}")

    def users(self) -> list[UserResponse]:
        return list(self._pages(UserResponse, "/users", None))

    def add_user(self, name: str, *, email: str | None, operator: bool) -> UserResponse:
        body = {"name": name, "email": email, "operator": operator}
        return self._ask(UserResponse, "POST", "/users", json=body)

    def user(self, reference: str) -> UserResponse:
        return self._ask(UserResponse, "GET", _user(reference))

    def order_user(self, reference: str, order: str) -> UserResponse:
        """`order` is `disable` or `enable`."""
        return self._ask(UserResponse, "POST", f"{_user(reference)}/{order}")

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
