"""The API client of the commands: requests that several of them send. Others call `get`, `post` … of the Connection."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any, Literal
from uuid import UUID

from cli.client.http import Connection, NotFoundError, url_path
from cli.references import Named, as_uuid, find
from shared.schemas.accounts import MeResponse, SignInLinkResponse
from shared.schemas.agents import ConfigurationDetails, PromptsResponse, TypesResponse
from shared.schemas.base import (
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
from shared.schemas.graph import EdgeTypeDetails, NodeTypeDetails
from shared.schemas.operations import DeadLetterResponse
from shared.schemas.provenance import PageCheckResponse, RetractionResponse, VerificationResponse


class Client(Connection):
    """Lists are fetched page by page as they are iterated; `limit` None is all."""

    def agents(
        self, *, state: str | None = None, search: str | None = None, limit: int | None = None
    ) -> Iterable[AgentResponse]:
        """Sorted by name."""
        return self.pages(AgentResponse, "/agents", limit, state=state, search=search)

    def agent(self, reference: str) -> AgentDetails:
        """The agent with this id or name, or the beginning of one. Raises CommandError, which lists candidates."""
        try:
            return self.get(AgentDetails, url_path("agents", reference))
        except NotFoundError:
            if as_uuid(reference) is not None:
                raise
        agents = [Named(each.id, [each.name]) for each in self.agents()]
        found = find("agent", reference, agents, lambda each: each, see="vigil agent list")
        return self.get(AgentDetails, url_path("agents", found.names[0]))

    def agent_name(self, reference: str) -> str:
        """The name of the agent that `reference` begins, or `reference` if it is an id. Raises CommandError."""
        if as_uuid(reference) is not None:
            return reference
        if reference not in self._agent_names:
            self._agent_names[reference] = self.agent(reference).name
        return self._agent_names[reference]

    @cached_property
    def _agent_names(self) -> dict[str, str]:
        """Names by the references that were looked up."""
        return {}

    def agent_path(self, reference: str, *parts: object) -> str:
        """The path of an agent, or of something below it. Raises CommandError."""
        return url_path("agents", self.agent_name(reference), *parts)

    def create_agent(self, mission: str, **settings: Any) -> AgentDetails:
        """`settings` are fields of the API; one that is None is left out."""
        body = {name: value for name, value in settings.items() if value is not None}
        return self.post(AgentDetails, "/agents", {"mission": mission, **body})

    def order(self, reference: str, order: Literal["pause", "resume", "run"]) -> AgentDetails:
        return self.post(AgentDetails, self.agent_path(reference, order))

    def configuration(self, reference: str) -> ConfigurationDetails:
        return self.get(ConfigurationDetails, self.agent_path(reference, "configuration"))

    def prompts(self, reference: str) -> PromptsResponse:
        return self.get(PromptsResponse, self.agent_path(reference, "prompts"))

    def iterations(
        self, reference: str, limit: int | None = 20, *, status: str | None = None
    ) -> Iterable[IterationSummary]:
        path = self.agent_path(reference, "iterations")
        return self.pages(IterationSummary, path, limit, status=status)

    def iteration(self, iteration_id: UUID) -> IterationDetails:
        return self.get(IterationDetails, url_path("iterations", iteration_id))

    def graph(
        self, reference: str, *, type_name: str | None = None, limit: int = 100
    ) -> GraphResponse:
        path = self.agent_path(reference, "graph")
        return self.get(GraphResponse, path, limit=limit, type=type_name)

    def nodes(
        self, reference: str, limit: int | None = 50, **filters: str | None
    ) -> Iterable[NodeResponse]:
        """`filters`: type, search, id_prefix, updated_since."""
        return self.pages(NodeResponse, self.agent_path(reference, "nodes"), limit, **filters)

    def edges(
        self, reference: str, limit: int | None = 50, **filters: str | None
    ) -> Iterable[EdgeResponse]:
        """`filters`: type, source_id, target_id, node_id, id_prefix, updated_since."""
        return self.pages(EdgeResponse, self.agent_path(reference, "edges"), limit, **filters)

    def types(self, reference: str) -> TypesResponse:
        node_types = self.pages(NodeTypeDetails, self.agent_path(reference, "node-types"))
        edge_types = self.pages(EdgeTypeDetails, self.agent_path(reference, "edge-types"))
        return TypesResponse(node_types=list(node_types), edge_types=list(edge_types))

    def conclusions(
        self, reference: str, kind: Literal["analyses", "advice"], limit: int | None = 100
    ) -> Iterable[ConclusionResponse]:
        return self.pages(ConclusionResponse, self.agent_path(reference, kind), limit)

    def verification(self, conclusion_id: UUID) -> VerificationResponse:
        path = url_path("conclusions", conclusion_id, "verification")
        return self.get(VerificationResponse, path)

    def retractions(
        self,
        agent: str,
        limit: int | None = 50,
        *,
        active: bool | None = None,
        source: str | None = None,
    ) -> Iterable[RetractionResponse]:
        """Newest first; `source` is a URL, a domain or the id of a source."""
        path = self.agent_path(agent, "retractions")
        return self.pages(RetractionResponse, path, limit, active=active, source=source)

    def failed_checks(self, agent: str, limit: int) -> list[PageCheckResponse]:
        """Pages and feeds that could not be watched at the last check, by address."""
        path = self.agent_path(agent, "checks")
        return list(self.pages(PageCheckResponse, path, limit, failed=True))

    def restore(self, agent: str, retraction_id: UUID) -> RetractionResponse:
        path = self.agent_path(agent, "retractions", retraction_id, "restore")
        return self.post(RetractionResponse, path)

    def inbox(self, *, unread: bool, limit: int | None = 50) -> Iterable[InboxItemResponse]:
        return self.pages(InboxItemResponse, "/inbox", limit, unread=unread)

    def mark(self, item_id: UUID, *, read: bool) -> InboxItemResponse:
        return self.post(
            InboxItemResponse, url_path("inbox", item_id, "read" if read else "unread")
        )

    def providers(self) -> ProvidersResponse:
        return self.get(ProvidersResponse, "/about/providers")

    def is_sandbox(self) -> bool:
        """Whether the sandbox answers in place of the model and of the search service, so that nothing is billed."""
        providers = self.providers()
        return providers.model_is_sandbox and providers.search_is_sandbox

    def dead_letters(
        self, *, service: str | None = None, limit: int | None = 50
    ) -> Iterable[DeadLetterResponse]:
        return self.pages(DeadLetterResponse, "/dead-letters", limit, service=service)

    def calls(self, reference: str) -> CallsSummary:
        return self.get(CallsSummary, self.agent_path(reference, "calls", "summary"))

    def me(self) -> MeResponse:
        return self.get(MeResponse, "/me")

    def make_link(self, user: str | None = None) -> SignInLinkResponse:
        """A sign-in link for the caller, or for another user."""
        path = url_path("me") if user is None else url_path("users", user)
        return self.post(SignInLinkResponse, f"{path}/sign-in-links")
