"""A user with an agent, and helpers that fill its graph."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from sqlalchemy import update

from shared.agents import agents
from shared.database import ids
from shared.database.engine import Database
from shared.database.tables import GraphEdge, GraphNode, Iteration, Step
from shared.database.tables.base import Base
from shared.enums import IterationStatus, Stage, StepKind, StepStatus
from shared.graph import elements, system_types, types
from shared.graph.conclusions import conclusions
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.provenance.sources import store_pages
from shared.graph.scope import GraphScope
from shared.graph.upsert import UpsertResult
from shared.graph.validation import Validators
from shared.tools import Json
from shared.workflow import investigations
from tests.support.factories import MISSION, make_owner, make_ready
from tests.support.forecast_terms import ADVICE_TERMS
from tests.support.graph.concurrent_writes import retried
from tests.support.table_rows import add

COUNTRY_SCHEMA = {
    "type": "object",
    "properties": {
        "summary": {"type": "string"},
        "population": {"type": "integer", "minimum": 0},
        "capital": {"type": "string"},
    },
    "required": ["summary"],
    "additionalProperties": False,
}
COUNTRY = {"summary": "A state."}
NAMES: Final = (
    "Ghana, Togo, Benin, Mali, Niger, Nigeria, Chad, Tchad, Peru, Oman, Fiji, Cuba, Iran, Laos, Côte d’Ivoire, "
    "Cote dIvoire, Ivory Coast, Gold Coast, North Ghana, South Ghana, Republic of Ghana, Northern Territory, "
    "Northern Territories, N.T., The Interior, Togoland, Aland, Borland, Corland, Volta, River town, Accra, Tema, "
    'Centre, Old rule, To"go, Bank of Ghana, Ghanaian Railways, Assini Port, Assini Cocoa, Assini Cocoa Holdings, '
    "Guayas Cocoa, Volkswagen, Volta Trucks, Toyota, Electra, Electrified Vehicles, Electrified Rail, "
    "Meta Platforms, Facebook, Another, Alphabet, Google, Nobody, Nvidia (NASDAQ: NVDA), NVIDIA (NVDA), Model 3, "
    "Model Y, Halden Cells, Orran Metals, Taiwan Semiconductor Manufacturing, Taiwan Semiconductor Manufacturer, "
    "Results of Q1 2025, Results of Q2 2025, Regulation 2019/1, Regulation 2019/2, Report of January, Report of June, "
    "Halden Batteriing, Halden Batterier, Halden Batterie, Halden Batteries, Halden Batteriery, Halden Batterii, "
    "A, B, C, D, E, One, Other, Third, Hub, Link, Far, Far too, Nearest, Gone, Rate up, Rate 100% up"
)
NUMBERED_NAMES: Final = (
    *(
        f"{name} {number}"
        for name in ("Near", "Far", "Far too", "Node", "Leaf", "Plant")
        for number in range(30)
    ),
    *(f"Land {number}, Country {number:02}" for number in range(30)),
    *(f"Country {number}" for number in range(60)),
    *(f"Spoke {number}" for number in range(220)),
)
PAGE: Final[Json] = {
    "url": "https://atlas.example/states",
    "title": f"An atlas of states: {NAMES}, {', '.join(NUMBERED_NAMES)}",
    "content": (
        "All that is written here of states, rivers and borders is so. Their people number "
        f"{', '.join(map(str, range(34)))} or 33,475,870, and the capitals are Abidjan, Accra, Bamako, Niamey and "
        "Cocoa of Assini. Their shares add up to 101 percent. "
        "One border is 1,098 km long, another one 1 km or 2 km, since 1914, 2022 or 1 January 2023."
    ),
    "published_date": "2024-05-01",
}
"""Its title has the names that tests write, its text the values."""
EVIDENCE_INPUTS = (EvidenceInput(PAGE["url"], PAGE["content"]),)
"""For tests that do not depend on the evidence."""


@dataclass(frozen=True)
class AgentGraph:
    database: Database
    scope: GraphScope
    validators: Validators

    async def store_search_results(self, *answers: Json) -> None:
        """Store the pages of search answers, by default `PAGE`."""
        async with self.database.transaction() as session:
            for answer in answers or ({"results": [PAGE]},):
                await store_pages(session, self.scope, answer)

    async def add_node(
        self,
        name: str,
        properties: Json = COUNTRY,
        evidence: Sequence[EvidenceInput] = EVIDENCE_INPUTS,
        type_name: str = "Country",
        **options: Any,
    ) -> UpsertResult:
        async with self.database.transaction() as session:
            return await elements.add_node(
                session,
                self.scope,
                self.validators,
                type_name=type_name,
                name=name,
                properties=properties,
                evidence=evidence,
                **options,
            )

    @retried
    async def node(self, name: str, type_name: str = "Country", **properties: Any) -> UUID:
        return (await self.add_node(name, {**COUNTRY, **properties}, type_name=type_name)).id

    async def unproven(self, name: str, type_name: str = "Country", **properties: Any) -> UUID:
        """A node from before evidence was stored: it has neither evidence nor a seal."""
        node_id = ids.node_id(self.scope.agent_id, type_name, name)
        all_properties = {**COUNTRY, **properties}
        columns = {"agent_id": self.scope.agent_id, "type": type_name, "name": name}
        async with self.database.transaction() as session:
            await session.insert(GraphNode, id=node_id, properties=all_properties, **columns)
        return node_id

    async def unproven_nodes(self, names: Sequence[str], **properties: Any) -> list[UUID]:
        """Many such nodes, each updated after the one before. Written as rows: `add_node` takes 20 ms."""
        node_ids = [ids.node_id(self.scope.agent_id, "Country", name) for name in names]
        rows = [{"id": each, "name": name} for each, name in zip(node_ids, names, strict=True)]
        await self._insert_all(GraphNode, "Country", rows, {**COUNTRY, **properties})
        return node_ids

    async def unproven_edges(self, pairs: Sequence[tuple[UUID, UUID]]) -> list[UUID]:
        """The same for edges."""
        edge_ids = [uuid4() for _ in pairs]
        rows = [
            {"id": each, "source_id": source, "target_id": target}
            for each, (source, target) in zip(edge_ids, pairs, strict=True)
        ]
        await self._insert_all(GraphEdge, "borders", rows, {})
        return edge_ids

    async def _insert_all(
        self, table: type[Base], type_name: str, rows: Sequence[Json], properties: Json
    ) -> None:
        columns = {"agent_id": self.scope.agent_id, "type": type_name, "properties": properties}
        now = datetime.now(UTC)
        async with self.database.transaction() as session:
            await session.insert_all(
                table,
                [
                    {**columns, **row, "updated_at": now + timedelta(microseconds=place)}
                    for place, row in enumerate(rows)
                ],
            )

    async def add_edge(
        self,
        source_id: UUID,
        target_id: UUID,
        properties: Json,
        evidence: Sequence[EvidenceInput] = EVIDENCE_INPUTS,
        type_name: str = "borders",
    ) -> UpsertResult:
        async with self.database.transaction() as session:
            return await elements.add_edge(
                session,
                self.scope,
                self.validators,
                type_name=type_name,
                source_id=source_id,
                target_id=target_id,
                properties=properties,
                evidence=evidence,
            )

    @retried
    async def edge(self, source_id: UUID, target_id: UUID, type_name: str = "borders") -> UUID:
        return (await self.add_edge(source_id, target_id, {}, type_name=type_name)).id

    async def analysis(
        self, content: str, name: str, *, summary: str = "It grows.", confidence: float = 0.5
    ) -> UUID:
        async with self.database.transaction() as session:
            return await conclusions.add_analysis(
                session,
                self.scope,
                name=name,
                kind="pattern",
                summary=summary,
                content=content,
                confidence=confidence,
            )

    async def advice(
        self,
        content: str,
        name: str = "Wait",
        action: str = "HOLD",
        *,
        scope: GraphScope | None = None,
        **options: Any,
    ) -> UUID:
        """`scope` has the run, if it is not the graph's own."""
        async with self.database.transaction() as session:
            return await conclusions.add_advice(
                session,
                scope or self.scope,
                name=name,
                action=action,
                summary="Wait.",
                content=content,
                **{**ADVICE_TERMS, **options},
            )

    async def advice_on(self, node_id: UUID, **options: Any) -> UUID:
        """Advice that cites two analyses of the node."""
        analyses = [await self.analysis(f"[node:{node_id}]", name) for name in ("Big", "Bigger")]
        return await self.advice(" ".join(f"[node:{each}]" for each in analyses), **options)

    async def node_type(self, name: str) -> None:
        async with self.database.transaction() as session:
            await types.create_node_type(
                session,
                self.scope,
                self.validators,
                name=name,
                description=f"A {name} of the world",
                properties_schema=COUNTRY_SCHEMA,
                example_properties=COUNTRY,
                created_by="test",
            )

    async def edge_type(self, name: str, **ends: list[str]) -> None:
        async with self.database.transaction() as session:
            await types.create_edge_type(
                session,
                self.scope,
                name=name,
                description=f"what {name} says",
                source_types=ends.get("source_types", []),
                target_types=ends.get("target_types", []),
                created_by="test",
            )

    async def touch(self, node_id: UUID, **values: Any) -> None:
        """Overwrite columns of a node, mostly its `updated_at`."""
        async with self.database.transaction() as session:
            await session.execute(update(GraphNode).where(GraphNode.id == node_id).values(**values))

    async def iteration(
        self, number: int, *, queries: list[str], missing: list[str] | None = None
    ) -> None:
        """Add a completed iteration with these objectives, and one insight that lacks `missing`."""
        iteration_id = uuid4()
        async with self.database.transaction() as session:
            await session.insert(
                Iteration,
                id=iteration_id,
                agent_id=self.scope.agent_id,
                number=number,
                why="due",
                status=IterationStatus.COMPLETED,
                stage=Stage.ENDED,
                deadline_at=datetime.now(UTC),
            )
            for index, text in enumerate(queries):
                step_input = {"objective": text}
                await add(
                    session,
                    self._completed_step(iteration_id, StepKind.QUERY, index, step_input, {}),
                )
            if missing:
                insight = self._completed_step(
                    iteration_id, StepKind.INSIGHT, 0, {}, {"missing": missing}
                )
                await add(session, insight)
                for text in missing:
                    missing_data = investigations.MissingData(text, "It is lacking.")
                    await investigations.create_request(
                        self.scope.agent_id, iteration_id, insight.id, missing_data
                    ).execute(session)

    def _completed_step(
        self,
        iteration_id: UUID,
        kind: StepKind,
        index: int,
        step_input: dict[str, Any],
        result: dict[str, Any],
    ) -> Step:
        return Step(
            id=uuid4(),
            iteration_id=iteration_id,
            agent_id=self.scope.agent_id,
            kind=kind,
            index=index,
            input=step_input,
            status=StepStatus.COMPLETED,
            result=result,
        )


async def make_agent_graph(database: Database, name: str = "watcher") -> AgentGraph:
    """A new user and agent with the system's types, `PAGE`, and the types Country and `borders`."""
    owner_id = await make_owner(database, f"owner of {name}")
    async with database.transaction() as session:
        agent = await agents.create_agent(
            session, owner_id, name=name, mission=MISSION, interval_seconds=3_600
        )
        await make_ready(session, agent)
        await system_types.ensure_system_types(session, agent.id)
    scope = GraphScope(owner_id, agent.id)
    agent_graph = AgentGraph(database, scope, Validators())
    await agent_graph.store_search_results()
    await agent_graph.node_type("Country")
    await agent_graph.edge_type("borders", source_types=["Country"], target_types=["Country"])
    return agent_graph
