"""A phase that uses embedding search, and nodes with vectors, made as the workers make them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import func, select

from services.researcher.construction import embed_nodes
from shared.database.tables import Agent, Call, NodeEmbedding, Step
from shared.enums import Phase, StepKind, StepStatus
from shared.graph.tools import query_graph
from shared.llm.embeddings import Embeddings
from shared.llm.phase_run import PhaseRun
from shared.llm.provider import Model
from shared.llm.tool_loop import ToolLoop
from shared.runtime.providers import create_model, embedding_search_settings
from shared.runtime.settings import Settings
from shared.tools import Json
from shared.workflow.leases import Lease
from tests.support import claims
from tests.support.factories import make_iteration
from tests.support.graph.agent_graph import AgentGraph
from tests.support.sandbox_control import Sandbox

EMBEDDER = "sandbox-embedder"
QUESTION = "electrified vehicles"
"""None of its words occurs in a node; those of `MAKER` share parts of its words."""
MAKER = {"name": "Volta", "capital": "electric trucks, vehicle parts"}
OTHER = {"name": "Ghana", "capital": "Accra"}


@dataclass(frozen=True)
class EmbeddingCase:
    """A claimed step of the agent of `agent_graph`."""

    agent_graph: AgentGraph
    sandbox_control: Sandbox
    settings: Settings
    agent: Agent
    lease: Lease

    @classmethod
    async def of(
        cls, agent_graph: AgentGraph, sandbox_control: Sandbox, settings: Settings
    ) -> "EmbeddingCase":
        async with agent_graph.database.transaction() as session:
            agent = await session.get_one(Agent, agent_graph.scope.agent_id)
        started = await make_iteration(agent_graph.database, agent)
        lease = await _claim(agent_graph, started.observe.id)
        embedding = settings.model_copy(update={"embedding_model": EMBEDDER})
        return cls(agent_graph, sandbox_control, embedding, agent, lease)

    def without(self) -> "EmbeddingCase":
        """The same step where no embeddings are configured."""
        return replace(self, settings=self.settings.model_copy(update={"embedding_model": None}))

    async def next_step(self) -> "EmbeddingCase":
        """Another claimed step of the agent."""
        step_id = uuid4()
        async with self.agent_graph.database.transaction() as session:
            await session.insert(
                Step,
                id=step_id,
                agent_id=self.agent.id,
                iteration_id=self.lease.iteration_id,
                kind=StepKind.QUERY,
                index=step_id.int % 2**30,
                input={},
                status=StepStatus.PENDING,
            )
        return replace(self, lease=await _claim(self.agent_graph, step_id))

    @property
    def model(self) -> Model:
        return create_model(self.settings, self.agent_graph.database)

    def run(self, phase: Phase = Phase.GRAPH_CONSTRUCTION) -> PhaseRun:
        return PhaseRun(self.model, self.lease, self.agent, phase, "Go on.")

    async def embed(self, *own: UUID, sweeps: bool = True) -> None:
        """Embeds nodes as a researcher does at the end of its step."""
        run = self.run()
        await run.begin()
        embeddings = Embeddings(run, run.embedder) if run.embedder else None
        embedding_search = embedding_search_settings(self.settings)
        await embed_nodes(embeddings, self.agent_graph.scope, embedding_search, own, sweeps=sweeps)

    async def ask(self, *texts: str, **conditions: Any) -> list[Json]:
        """The results of queryGraph for each text, all requested in one response."""
        tool = query_graph(self.agent_graph.scope, embedding_search_settings(self.settings))
        self.sandbox_control.script(
            {
                "tool_calls": [
                    {"name": "queryGraph", "arguments": {"text": query, **conditions}}
                    for query in texts
                ]
            },
            {"content": "done"},
        )
        loop = ToolLoop(self.run(), [tool])
        await loop.run()
        return loop.results_of("queryGraph")

    async def names(self, question: str = QUESTION, **conditions: Any) -> list[str]:
        [answer] = await self.ask(question, **conditions)
        return [node["name"] for node in answer["nodes"]]

    async def embedded(self) -> set[UUID]:
        async with self.agent_graph.database.transaction() as session:
            return set(await session.scalars(select(NodeEmbedding.node_id)))

    async def calls(self) -> Sequence[Call]:
        """The calls of the embedding model."""
        async with self.agent_graph.database.transaction() as session:
            statement = select(Call).where(Call.model == EMBEDDER).order_by(Call.started_at)
            return (await session.scalars(statement)).all()

    async def vectors(self) -> int:
        async with self.agent_graph.database.transaction() as session:
            return await session.scalar(select(func.count()).select_from(NodeEmbedding)) or 0


async def _claim(agent_graph: AgentGraph, step_id: UUID) -> Lease:
    async with agent_graph.database.transaction() as session:
        claim = await claims.claimed(session, step_id, "test")
    return claim.lease


async def fill(agent_graph: AgentGraph) -> UUID:
    """Adds one node near the question and one that is not; returns the id of the near one."""
    maker = await agent_graph.node(**MAKER)
    await agent_graph.node(**OTHER)
    return maker
