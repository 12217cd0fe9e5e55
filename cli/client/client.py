"""The API client of the commands: a class for each resource group, combined in `Client`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import cached_property
from typing import Any, Literal
from urllib.parse import quote
from uuid import UUID

from httpx_sse import ServerSentEvent

from cli.client.http import Connection, NotFoundError, agent_path
from cli.references import Named, as_uuid, find
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
    DistinctPairResponse,
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
    RetentionResponse,
    ServiceLoadsResponse,
)
from shared.schemas.provenance import (
    PageCheckResponse,
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
        """The agent with this id or name, or the beginning of one. Raises CommandError, which lists candidates."""
        try:
            return self._ask(AgentDetails, "GET", agent_path(reference))
        except NotFoundError:
            if as_uuid(reference) is not None:
                raise
        name = self._named_agent(reference)
        return self._ask(AgentDetails, "GET", agent_path(name))

    def agent_reference(self, reference: str) -> str:
        """The name of the agent that `reference` begins, or `reference` if it is an id. Raises CommandError."""
        if as_uuid(reference) is not None:
            return reference
        if reference not in self._agent_names:
            self._agent_names[reference] = self.agent(reference).name
        return self._agent_names[reference]

    def agent_path(self, reference: str) -> str:
        return agent_path(self.agent_reference(reference))

    def _named_agent(self, reference: str) -> str:
        agents = [Named(each.id, [each.name]) for each in self.agents()]
        see = "vigil agent list"
        return find("agent", reference, agents, lambda each: each, see=see).names[0]

    @cached_property
    def _agent_names(self) -> dict[str, str]:
        """Names by the references that were looked up."""
        return {}

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
        corpus: str | None = None,
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
            "corpus": corpus,
        }
        body = {key: value for key, value in body.items() if value is not None}
        return self._ask(AgentDetails, "POST", "/agents", json=body)

    def change_agent(
        self, reference: str, changes_of: Callable[[AgentDetails], dict[str, Any]]
    ) -> AgentDetails:
        """Sends the changes that `changes_of` returns for the agent. Refused if it was changed in the meantime."""
        path = self.agent_path(reference)
        response = self._send("GET", path)
        changes = changes_of(AgentDetails.model_validate_json(response.content))
        if (etag := response.headers.get("etag")) is None:
            raise self.not_understood()
        headers = {"If-Match": etag}
        return self._ask(AgentDetails, "PATCH", path, json=changes, headers=headers)

    def order(self, reference: str, order: str) -> AgentDetails:
        """`order` is `pause`, `resume` or `run`."""
        return self._ask(AgentDetails, "POST", f"{self.agent_path(reference)}/{order}")

    def configure(
        self, reference: str, *, mission: str | None = None, keep: Sequence[str] = ()
    ) -> AgentDetails:
        body = {"keep": list(keep)} | ({"mission": mission} if mission else {})
        return self._ask(AgentDetails, "POST", f"{self.agent_path(reference)}/configure", json=body)

    def configuration(self, reference: str) -> ConfigurationDetails:
        return self._ask(ConfigurationDetails, "GET", f"{self.agent_path(reference)}/configuration")

    def prompts(self, reference: str) -> PromptsResponse:
        return self._ask(PromptsResponse, "GET", f"{self.agent_path(reference)}/prompts")

    def prompt_history(
        self, reference: str, *, phase: str | None = None
    ) -> Iterable[PromptResponse]:
        """Show all versions, newest first."""
        path = f"{self.agent_path(reference)}/prompts/history"
        return self._pages(PromptResponse, path, None, phase=phase)

    def edit_prompt(
        self, reference: str, phase: str, prompt: str, *, version: int
    ) -> PromptsResponse:
        """Refused if the prompts are no longer at this `version`."""
        return self._ask(
            PromptsResponse,
            "PUT",
            f"{self.agent_path(reference)}/prompts/{quote(phase, safe='')}",
            json={"prompt": prompt},
            # The part before the dot of the ETag they were read with.
            headers={"If-Match": f'"{version}."'},
        )

    def delete_agent(self, reference: str) -> None:
        self._send("DELETE", self.agent_path(reference))

    def iterations(
        self, reference: str, limit: int | None = 20, *, status: str | None = None
    ) -> Iterable[IterationSummary]:
        path = f"{self.agent_path(reference)}/iterations"
        return self._pages(IterationSummary, path, limit, status=status)

    def iteration(self, iteration_id: UUID) -> IterationDetails:
        return self._ask(IterationDetails, "GET", f"/iterations/{iteration_id}")

    def iteration_numbered(self, reference: str, number: int) -> IterationDetails:
        return self._ask(
            IterationDetails, "GET", f"{self.agent_path(reference)}/iterations/{number}"
        )


class Conversations(Agents):
    def messages(self, agent: str, limit: int | None = 50) -> Iterable[MessageResponse]:
        """Newest first."""
        return self._pages(
            MessageResponse, f"{self.agent_path(agent)}/conversation/messages", limit
        )

    def message(self, agent: str, message_id: UUID) -> MessageResponse:
        return self._ask(
            MessageResponse, "GET", f"{self.agent_path(agent)}/conversation/messages/{message_id}"
        )

    def say(self, agent: str, content: str) -> ConversationTurn:
        return self._ask(
            ConversationTurn,
            "POST",
            f"{self.agent_path(agent)}/conversation/messages",
            json={"content": content},
        )

    def retry_answer(self, agent: str, message_id: UUID) -> MessageResponse:
        return self._ask(
            MessageResponse,
            "POST",
            f"{self.agent_path(agent)}/conversation/messages/{message_id}/retry",
        )

    def answer(
        self, agent: str, message_id: UUID, last_event_id: str | None
    ) -> Iterator[ServerSentEvent]:
        """The events of the answer after `last_event_id`, until the connection ends."""
        headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
        return self._stream(
            f"{self.agent_path(agent)}/conversation/messages/{message_id}/stream", headers=headers
        )

    def memories(self, agent: str, *, forgotten: bool = False) -> Iterable[MemoryResponse]:
        return self._pages(
            MemoryResponse, f"{self.agent_path(agent)}/memories", None, forgotten=forgotten
        )

    def remember(self, agent: str, kind: str, content: str) -> MemoryResponse:
        body = {"kind": kind, "content": content}
        return self._ask(MemoryResponse, "POST", f"{self.agent_path(agent)}/memories", json=body)

    def forget(self, agent: str, memory_id: UUID) -> None:
        self._send("DELETE", f"{self.agent_path(agent)}/memories/{memory_id}")


class Inbox(Agents):
    def inbox(
        self, *, unread: bool, agent_id: UUID | None = None, limit: int | None = 50
    ) -> Iterable[InboxItemResponse]:
        return self._pages(InboxItemResponse, "/inbox", limit, unread=unread, agent_id=agent_id)

    def inbox_item(self, item_id: UUID) -> InboxItemResponse:
        return self._ask(InboxItemResponse, "GET", f"/inbox/{item_id}")

    def mark(self, item_id: UUID, *, read: bool) -> InboxItemResponse:
        order = "read" if read else "unread"
        return self._ask(InboxItemResponse, "POST", f"/inbox/{item_id}/{order}")

    def decide(
        self, item_id: UUID, outcome: Literal["accept", "dismiss", "reopen"]
    ) -> InboxItemResponse:
        return self._ask(InboxItemResponse, "POST", f"/inbox/{item_id}/{outcome}")

    def snooze(self, item_id: UUID, until: datetime) -> InboxItemResponse:
        body = {"until": until.isoformat()}
        return self._ask(InboxItemResponse, "POST", f"/inbox/{item_id}/snooze", json=body)

    def give_feedback(
        self, item_id: UUID, *, useful: bool | None, text: str | None
    ) -> InboxItemResponse:
        body = {"useful": useful, "text": text}
        return self._ask(InboxItemResponse, "POST", f"/inbox/{item_id}/feedback", json=body)

    def mark_all_read(self) -> Marked:
        return self._ask(Marked, "POST", "/inbox/read")

    def destinations(self) -> list[DestinationResponse]:
        return list(self._pages(DestinationResponse, "/destinations", None))

    def destination(self, destination_id: UUID) -> DestinationDetails:
        return self._ask(DestinationDetails, "GET", _destination(destination_id))

    def create_destination(
        self, kind: str, address: str, *, agent: str | None = None
    ) -> CreatedDestination:
        body = {"kind": kind, "address": address, "agent": agent and self.agent_reference(agent)}
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


class OfInstallation(Agents):
    def about(self) -> AboutResponse:
        return self._ask(AboutResponse, "GET", "/about")

    def service_loads(self) -> ServiceLoadsResponse:
        """For operators."""
        return self._ask(ServiceLoadsResponse, "GET", "/services")

    def retention(self) -> RetentionResponse:
        """For operators."""
        return self._ask(RetentionResponse, "GET", "/retention")

    def providers(self) -> ProvidersResponse:
        return self._ask(ProvidersResponse, "GET", "/about/providers")

    def is_sandbox(self) -> bool:
        """Whether the sandbox answers in place of the model and of the search service, so that nothing is billed."""
        providers = self.providers()
        return providers.model_is_sandbox and providers.search_is_sandbox

    def events(self, agent: str | None, parameters: Mapping[str, str]) -> Iterator[ServerSentEvent]:
        """Events of one agent or of all, until the connection ends."""
        path = "/events" if agent is None else f"{self.agent_path(agent)}/events"
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


class Knowledge(Agents):
    def graph(
        self, reference: str, *, type_name: str | None = None, limit: int = 100
    ) -> GraphResponse:
        params = {"limit": limit} | ({"type": type_name} if type_name else {})
        return self._ask(GraphResponse, "GET", f"{self.agent_path(reference)}/graph", params=params)

    def nodes(
        self, reference: str, limit: int | None = 50, **filters: str | None
    ) -> Iterable[NodeResponse]:
        """`filters`: type, search, updated_since."""
        return self._pages(NodeResponse, f"{self.agent_path(reference)}/nodes", limit, **filters)

    def edges(
        self, reference: str, limit: int | None = 50, **filters: str | None
    ) -> Iterable[EdgeResponse]:
        """`filters`: type, source_id, target_id, node_id, updated_since."""
        return self._pages(EdgeResponse, f"{self.agent_path(reference)}/edges", limit, **filters)

    def neighbourhood(
        self, reference: str, node_id: UUID, *, depth: int, limit: int
    ) -> NeighbourhoodResponse:
        path = f"{self.agent_path(reference)}/nodes/{node_id}/neighbourhood"
        params = {"depth": depth, "limit": limit}
        return self._ask(NeighbourhoodResponse, "GET", path, params=params)

    def node(self, reference: str, node_id: UUID) -> NodeDetails:
        return self._ask(NodeDetails, "GET", f"{self.agent_path(reference)}/nodes/{node_id}")

    def types(self, reference: str) -> TypesResponse:
        return TypesResponse(
            node_types=list(self.node_types(reference)), edge_types=list(self.edge_types(reference))
        )

    def edge(self, reference: str, edge_id: UUID) -> EdgeDetails:
        return self._ask(EdgeDetails, "GET", f"{self.agent_path(reference)}/edges/{edge_id}")

    def node_types(self, reference: str) -> Iterable[NodeTypeDetails]:
        return self._pages(NodeTypeDetails, f"{self.agent_path(reference)}/node-types", None)

    def edge_types(self, reference: str) -> Iterable[EdgeTypeDetails]:
        return self._pages(EdgeTypeDetails, f"{self.agent_path(reference)}/edge-types", None)

    def analyses(self, reference: str, limit: int | None = 100) -> Iterable[ConclusionResponse]:
        return self._pages(ConclusionResponse, f"{self.agent_path(reference)}/analyses", limit)

    def advice(self, reference: str, limit: int | None = 100) -> Iterable[ConclusionResponse]:
        return self._pages(ConclusionResponse, f"{self.agent_path(reference)}/advice", limit)

    def investigations(
        self, reference: str, *, only_open: bool = False, limit: int | None = 100
    ) -> Iterable[InvestigationRequestResponse]:
        path = f"{self.agent_path(reference)}/investigation-requests"
        is_open = "true" if only_open else None
        return self._pages(InvestigationRequestResponse, path, limit, open=is_open)

    def conclusion(self, reference: str, kind: str, node_id: UUID) -> ConclusionResponse:
        """`kind` is `analyses` or `advice`."""
        return self._ask(
            ConclusionResponse, "GET", f"{self.agent_path(reference)}/{kind}/{node_id}"
        )


class Merges(Agents):
    def duplicates(self, agent: str, limit: int | None = 50) -> Iterable[DuplicatePair]:
        """Duplicate candidates, most recently changed first."""
        return self._pages(DuplicatePair, f"{self.agent_path(agent)}/duplicates", limit)

    def distinct_pairs(
        self, agent: str, limit: int | None = None
    ) -> Iterable[DistinctPairResponse]:
        """Newest first."""
        return self._pages(DistinctPairResponse, f"{agent_path(agent)}/distinct-pairs", limit)

    def declare_distinct(self, agent: str, one: UUID, other: UUID) -> DistinctPairResponse:
        body = {"one": str(one), "other": str(other)}
        return self._ask(
            DistinctPairResponse, "POST", f"{agent_path(agent)}/distinct-pairs", json=body
        )

    def forget_distinct(self, agent: str, pair_id: UUID) -> None:
        self._send("DELETE", f"{agent_path(agent)}/distinct-pairs/{pair_id}")

    def merges(self, agent: str, limit: int | None = 50) -> Iterable[MergeResponse]:
        """Newest first."""
        return self._pages(MergeResponse, f"{self.agent_path(agent)}/merges", limit)

    def merge(self, agent: str, *, kept: UUID, merged: UUID, reason: str) -> MergeResponse:
        body = {"kept": str(kept), "merged": str(merged), "reason": reason}
        return self._ask(MergeResponse, "POST", f"{self.agent_path(agent)}/merges", json=body)

    def undo_merge(self, agent: str, merge_id: UUID) -> MergeResponse:
        return self._ask(MergeResponse, "POST", f"{self.agent_path(agent)}/merges/{merge_id}/undo")


class Proof(Agents):
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
            path = f"{self.agent_path(agent)}/verification"
            page = self._ask(VerificationPage, "GET", path, params=params)
            yield page
            if (cursor := page.next) is None:
                return

    def export(self, agent: str, file_format: str) -> Iterator[bytes]:
        """Everything the agent knows, in chunks. `file_format` is jsonl, graphml or prov."""
        return self._download(f"{self.agent_path(agent)}/export", params={"format": file_format})


class Sources(Agents):
    def sources(
        self,
        agent: str,
        limit: int | None = 50,
        *,
        page_url: str | None = None,
        retracted: bool | None = None,
    ) -> Iterable[SourceResponse]:
        """Most recently fetched first."""
        path = f"{self.agent_path(agent)}/sources"
        return self._pages(SourceResponse, path, limit, url=page_url, retracted=retracted)

    def failed_checks(self, agent: str, limit: int | None) -> Iterable[PageCheckResponse]:
        """Pages and feeds that could not be watched at the last check, by address."""
        return self._pages(
            PageCheckResponse, f"{self.agent_path(agent)}/checks", limit, failed=True
        )

    def source(self, agent: str, source_id: UUID) -> SourceDetails:
        return self._ask(SourceDetails, "GET", f"{self.agent_path(agent)}/sources/{source_id}")

    def retractions(
        self,
        agent: str,
        limit: int | None = 50,
        *,
        active: bool | None = None,
        source: str | None = None,
    ) -> Iterable[RetractionResponse]:
        """Newest first; `source` is a URL or the id of a source."""
        path = f"{self.agent_path(agent)}/retractions"
        return self._pages(RetractionResponse, path, limit, active=active, source=source)

    def retraction(self, agent: str, retraction_id: UUID) -> RetractionResponse:
        return self._ask(
            RetractionResponse, "GET", f"{self.agent_path(agent)}/retractions/{retraction_id}"
        )

    def retract(self, agent: str, source: str, reason: str) -> RetractionResponse:
        body = {"source": source, "reason": reason}
        return self._ask(
            RetractionResponse, "POST", f"{self.agent_path(agent)}/retractions", json=body
        )

    def restore(self, agent: str, retraction_id: UUID) -> RetractionResponse:
        return self._ask(
            RetractionResponse,
            "POST",
            f"{self.agent_path(agent)}/retractions/{retraction_id}/restore",
        )


class Spending(Agents):
    def calls(self, reference: str) -> CallsSummary:
        return self._ask(CallsSummary, "GET", f"{self.agent_path(reference)}/calls/summary")

    def calls_made(self, reference: str) -> Iterable[CallResponse]:
        """Single calls, newest first."""
        return self._pages(CallResponse, f"{self.agent_path(reference)}/calls", None)

    def costs(self, reference: str | None, *, by: CostsBy, since: date | None) -> CostsResponse:
        """Costs of one agent or of all, with every group."""
        path = "/costs" if reference is None else f"{self.agent_path(reference)}/costs"
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
        return self._ask(BudgetResponse, "GET", f"{self.agent_path(reference)}/budget")

    def set_budget(self, reference: str, caps: dict[str, float | int | None]) -> BudgetResponse:
        return self._ask(BudgetResponse, "PUT", f"{self.agent_path(reference)}/budget", json=caps)

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
