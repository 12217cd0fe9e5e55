"""A phase that looks for things by embedding_search, and nodes that have vectors, as workers make both."""

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
from shared.llm.phase_run import Model, PhaseRun
from shared.llm.tool_loop import ToolLoop
from shared.runtime.providers import create_model, embedding_search_settings
from shared.runtime.settings import Settings
from shared.tools import Json
from shared.workflow import leases
from shared.workflow.leases import Claimed, Lease
from tests.support.graph.world import World
from tests.support.levers import Sandbox
from tests.support.making import make_iteration

EMBEDDER = "sandbox-embedder"
QUESTION = "electrified vehicles"
"""Its words stand nowhere; those of `MAKER` are made of the same pieces."""
MAKER = {"name": "Volta", "capital": "electric trucks, vehicle parts"}
OTHER = {"name": "Ghana", "capital": "Accra"}


@dataclass(frozen=True)
class Seeker:
    """Whatever step is at work on the agent of `world`."""

    world: World
    levers: Sandbox
    settings: Settings
    agent: Agent
    lease: Lease

    @classmethod
    async def of(cls, world: World, levers: Sandbox, settings: Settings) -> "Seeker":
        async with world.database.transaction() as session:
            agent = await session.get_one(Agent, world.scope.agent_id)
        made = await make_iteration(world.database, agent)
        lease = await _claimed(world, made.observe.id)
        embedding = settings.model_copy(update={"embedding_model": EMBEDDER})
        return cls(world, levers, embedding, agent, lease)

    def without(self) -> "Seeker":
        """The same where no embeddings are configured."""
        return replace(self, settings=self.settings.model_copy(update={"embedding_model": None}))

    async def next_step(self) -> "Seeker":
        """Another of the agent's."""
        step_id = uuid4()
        async with self.world.database.transaction() as session:
            session.add(
                Step(
                    id=step_id,
                    agent_id=self.agent.id,
                    iteration_id=self.lease.iteration_id,
                    kind=StepKind.QUERY,
                    index=step_id.int % 2**30,
                    input={},
                    status=StepStatus.PENDING,
                )
            )
        return replace(self, lease=await _claimed(self.world, step_id))

    @property
    def model(self) -> Model:
        return create_model(self.settings, self.world.database)

    def run(self, phase: Phase = Phase.GRAPH_CONSTRUCTION) -> PhaseRun:
        return PhaseRun(self.model, self.lease, self.agent, phase, "Go on.")

    async def embed(self, *own: UUID, sweeps: bool = True) -> None:
        """As a researcher's step ends."""
        run = self.run()
        await run.begin()
        embeddings = Embeddings(run, run.embedder) if run.embedder else None
        embedding_search = embedding_search_settings(self.settings)
        await embed_nodes(embeddings, self.world.scope, embedding_search, own, sweeps=sweeps)

    async def ask(self, *texts: str, **conditions: Any) -> list[Json]:
        """What queryGraph gives to each, asked in one breath."""
        tool = query_graph(self.world.scope, embedding_search_settings(self.settings))
        self.levers.script(
            {
                "tool_calls": [
                    {"name": "queryGraph", "arguments": {"text": each, **conditions}}
                    for each in texts
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
        async with self.world.database.transaction() as session:
            return set(await session.scalars(select(NodeEmbedding.node_id)))

    async def calls(self) -> Sequence[Call]:
        """Of the embedding model."""
        async with self.world.database.transaction() as session:
            of_model = select(Call).where(Call.model == EMBEDDER).order_by(Call.started_at)
            return (await session.scalars(of_model)).all()

    async def vectors(self) -> int:
        async with self.world.database.transaction() as session:
            return await session.scalar(select(func.count()).select_from(NodeEmbedding)) or 0


async def _claimed(world: World, step_id: UUID) -> Lease:
    async with world.database.transaction() as session:
        claim = await leases.claim(session, step_id, "test")
    assert isinstance(claim, Claimed)
    return claim.lease


async def fill(world: World) -> UUID:
    """One node that is near to the question, and one that is not; the former's id."""
    maker = await world.node(**MAKER)
    await world.node(**OTHER)
    return maker
