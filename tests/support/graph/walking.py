"""Random operations on a graph: writes, merges, retractions, conclusions, and their reversal."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any, Final
from uuid import UUID, uuid4

from sqlalchemy import select

from shared.database.tables import (
    Base,
    Doubt,
    EntailmentVerdict,
    Evidence,
    GraphEdge,
    GraphNode,
    Source,
)
from shared.enums import ANALYSIS_TYPE, Entailment
from shared.graph import elements, entity_resolution
from shared.graph.conclusions import conclusions
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.retraction import propagation, retractions
from shared.graph.retraction.propagation import propagate_retractions
from shared.graph.types import RESERVED_TYPES
from shared.tools import ToolRefusalError
from shared.tools.readings import EXISTS
from tests.support.forecast_terms import ADVICE_TERMS, ANALYSIS_TERMS
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.evidence_rows import store_readings, store_verdict

NAMES: Final = ("Ghana", "Gana", "Mali", "Tchad", "Chad", "Benin")
PAGES: Final = [f"https://page-{number}.example" for number in range(6)]
SPEAKERS: Final = ("Ada Roe", "Ben Poe")
CAPITALS: Final = ("Accra", "Bamako")
POPULATIONS: Final = (1, 2, 3_000_000_000, 10**24)
LENGTHS: Final = (1, 1.0, 2, 2.0, 3e23)
"""Some are equal in another notation."""
VALUES: Final = (
    f"capitals such as {' and '.join(CAPITALS)}, populations of {', '.join(map(str, POPULATIONS))},"
    f" in the years {', '.join(map(str, range(2020, 2031)))},"
    f" and borders of {', '.join(f'{Decimal(str(length)):f} km' for length in LENGTHS)}"
)
SENTENCES: Final = [
    f"{name} has {number} people. There are {VALUES}." for name in NAMES for number in range(3)
]
"""Each has all values that are written; the titles of the pages have the names."""


@dataclass
class Walk:
    agent_graph: AgentGraph
    chance: Random
    is_alone: bool = True
    """Whether no other walk changes the same graph meanwhile. Only then are pages retracted and restored."""
    merges: list[UUID] = field(default_factory=list)
    retractions: list[UUID] = field(default_factory=list)
    conclusion_count: int = 0

    async def begin(self) -> None:
        await self.read_pages()
        for _ in range(4):
            await self.add_node()

    async def read_pages(self) -> None:
        for number, url in enumerate(PAGES):
            page = {
                "url": url,
                "title": ", ".join((*NAMES, *SPEAKERS)),
                "content": "\n".join(SENTENCES),
            }
            if number % 2:
                page["published_date"] = f"2024-0{number + 1}-01"
            await self.agent_graph.store_search_results({"results": [page]})

    async def step(self) -> str:
        """Run a random action and return its name. Many actions are refused."""
        actions, weights = zip(*self._actions, strict=True)
        [action] = self.chance.choices(actions, weights)
        try:
            await action()
        except (ToolRefusalError, entity_resolution.MergeRefusedError) as error:
            return f"{action.__name__}, refused: {error}"
        name: str = action.__name__
        return name

    @property
    def _actions(self) -> list[tuple[Callable[[], Awaitable[None]], int]]:
        return [
            (self.add_node, 6),
            (self.add_edge, 6),
            (self.merge, 3),
            (self.unmerge, 3),
            (self.split, 2),
            (self.retract, 2 * self.is_alone),
            (self.restore, 2 * self.is_alone),
            (self.analyse, 3),
            (self.link_analysis, 2),
            (self.advise, 1),
            (self.resolve_doubts, 1),
            (self.check_evidence, 2),
            (self.read_conclusion, 2),
        ]

    async def add_node(self) -> None:
        name = self.chance.choice(NAMES)
        properties = self._properties()
        await self.agent_graph.add_node(name, properties, [self._evidence_input()])

    async def add_edge(self) -> None:
        one, other = await self._some(GraphNode, 2, GraphNode.type == "Country")
        properties = self.chance.choice([{}, {"km": self.chance.choice(LENGTHS)}])
        await self.agent_graph.add_edge(one.id, other.id, properties, [self._evidence_input()])

    async def merge(self) -> None:
        one, other = await self._some(GraphNode, 2, GraphNode.type == "Country")
        async with self.agent_graph.database.transaction() as session:
            merge = await entity_resolution.merge_nodes(
                session,
                self.agent_graph.scope,
                kept_id=one.id,
                merged_id=other.id,
                reason="One thing.",
                made_by=self.agent_graph.scope.owner_id,
            )
        if merge is None:
            assert not self.is_alone, "nobody else merges"
            raise ToolRefusalError("another walk has merged them")
        self.merges.append(merge.id)

    async def unmerge(self) -> None:
        if self.merges:
            merge_id = self.chance.choice(self.merges)
            async with self.agent_graph.database.transaction() as session:
                await entity_resolution.undo_merge(session, self.agent_graph.scope, merge_id)
            self.merges.remove(merge_id)

    async def split(self) -> None:
        """Move some evidence of a node, and some of its edges, to a node of its own."""
        [node] = await self._some(GraphNode, 1, GraphNode.type == "Country")
        own = await self._some(Evidence, 2, Evidence.node_id == node.id)
        edges = [
            each.id
            for each in await self._all(GraphEdge)
            if node.id in (each.source_id, each.target_id)
        ]
        of_edges = await self._all(Evidence, Evidence.edge_id.in_(edges))
        leaving = [own[0], *(each for each in of_edges if self.chance.random() < 0.5)]
        async with self.agent_graph.database.transaction() as session:
            await entity_resolution.split_node(
                session,
                self.agent_graph.scope,
                node_id=node.id,
                evidence_ids=[each.id for each in leaving],
                qualifier=self.chance.choice(["river", "town", "band"]),
                reason="Two things.",
                made_by=self.agent_graph.scope.owner_id,
            )

    async def retract(self) -> None:
        async with self.agent_graph.database.transaction() as session:
            url = self.chance.choice(PAGES)
            retraction_id = await retractions.retract_source(
                session, self.agent_graph.scope, url, "made up"
            )
        if retraction_id not in self.retractions:
            self.retractions.append(retraction_id)
        await self.propagate()

    async def restore(self) -> None:
        if self.retractions:
            retraction_id = self.retractions.pop(self.chance.randrange(len(self.retractions)))
            async with self.agent_graph.database.transaction() as session:
                await retractions.restore_source(session, self.agent_graph.scope, retraction_id)
            await self.propagate()

    async def propagate(self) -> None:
        await propagate_retractions(self.agent_graph.database, at_once=self.chance.randint(1, 9))

    async def resolve_doubts(self) -> None:
        await propagation.resolve_doubts(self.agent_graph.database)

    async def check_evidence(self) -> None:
        """Of all of it, as the release before did, or of some of its values."""
        [evidence] = await self._some(Evidence, 1)
        names = [*evidence.claims, *([] if evidence.claims else [EXISTS])]
        names = self.chance.sample(names, self.chance.randint(0, len(names)))
        verdict = self.chance.choice([*Entailment])
        await store_verdict(self.agent_graph, evidence.id, verdict, "It reads so.", *names)
        if self.chance.random() < 0.5:
            await propagation.propagate_refusals(self.agent_graph.database)
            if self.is_alone:
                await self.check_values()

    async def check_values(self) -> None:
        """When all is propagated, a present value has no refusal, and is missing only if all have one."""
        await self.propagate()
        refused = {
            (row.evidence_id, row.property)
            for row in await self._all(EntailmentVerdict)
            if row.verdict != Entailment.SUPPORTED
        }
        own = {(row.evidence_id, row.property) for row in await self._all(EntailmentVerdict)}
        retracted = {row.id for row in await self._all(Source) if row.retracted_at is not None}
        evidence = await self._all(Evidence)
        for element in [*await self._all(GraphNode), *await self._all(GraphEdge)]:
            left: dict[str, list[Any]] = {}
            for row in evidence:
                if element.id in (row.node_id, row.edge_id):
                    for name, value in row.claims.items():
                        is_refused = (row.id, name) in refused or (
                            (row.id, None) in refused and (row.id, name) not in own
                        )
                        values = left.setdefault(name, [])
                        if row.source_id not in retracted and not is_refused:
                            values.append(value)
            for name, values in left.items():
                if values:
                    assert element.properties[name] in values, (element.id, name)
                else:
                    assert name not in element.properties, (element.id, name)

    async def read_conclusion(self) -> None:
        [node] = await self._some(GraphNode, 1, GraphNode.type.in_(RESERVED_TYPES))
        scope = replace(self.agent_graph.scope, step_id=uuid4())
        async with self.agent_graph.database.transaction() as session:
            await store_readings(session, scope, node, self.chance)

    async def analyse(self) -> None:
        [node] = await self._some(GraphNode, 1)
        citations = [f"[node:{node.id}]"]
        citations += [f"[edge:{edge.id}]" for edge in await self._some(GraphEdge, 1)]
        await self._conclude(conclusions.add_analysis, citations, kind="pattern", **ANALYSIS_TERMS)

    async def advise(self) -> None:
        doubted = select(Doubt.conclusion_id).where(Doubt.resolved_at.is_(None))
        of_type = (GraphNode.type == ANALYSIS_TYPE, GraphNode.id.not_in(doubted))
        analyses = await self._some(GraphNode, 2, *of_type)
        citations = [f"[node:{analysis.id}]" for analysis in analyses]
        await self._conclude(conclusions.add_advice, citations, action="HOLD", **ADVICE_TERMS)

    async def link_analysis(self) -> None:
        [one] = await self._some(GraphNode, 1, GraphNode.type == ANALYSIS_TYPE)
        [other] = await self._some(GraphNode, 1, GraphNode.type.not_in(RESERVED_TYPES))
        async with self.agent_graph.database.transaction() as session:
            await elements.link_analysis(
                session,
                self.agent_graph.scope,
                self.agent_graph.validators,
                type_name="about",
                source_id=one.id,
                target_id=other.id,
            )

    async def _conclude(self, add: Any, citations: list[str], **fields: Any) -> None:
        self.conclusion_count += 1
        async with self.agent_graph.database.transaction() as session:
            await add(
                session,
                self.agent_graph.scope,
                name=f"Conclusion {self.conclusion_count}",
                summary="So it is.",
                content=f"It is so {' '.join(citations)}.",
                **fields,
            )

    def _evidence_input(self) -> EvidenceInput:
        valid_from = datetime(self.chance.randint(2020, 2030), 1, 1, tzinfo=UTC)
        return EvidenceInput(
            self.chance.choice(PAGES),
            self.chance.choice(SENTENCES),
            valid_from=self.chance.choice([None, valid_from]),
            speaker=self.chance.choice(["", "", *SPEAKERS, "Nobody Else"]),
        )

    def _properties(self) -> dict[str, Any]:
        values = {
            "summary": self.chance.choice(["A state.", "A republic."]),
            "capital": self.chance.choice(CAPITALS),
            "population": self.chance.choice(POPULATIONS),
        }
        return {"summary": values["summary"]} | {
            name: value for name, value in values.items() if self.chance.random() < 0.5
        }

    async def _some(self, table: type[Base], count: int, *where: Any) -> list[Any]:
        rows = await self._all(table, *where)
        if len(rows) < count:
            raise ToolRefusalError(f"there are only {len(rows)} of {table.__tablename__}")
        return self.chance.sample(rows, count)

    async def _all(self, table: type[Base], *where: Any) -> Sequence[Any]:
        kind: Any = table
        is_own = kind.agent_id == self.agent_graph.scope.agent_id
        async with self.agent_graph.database.transaction() as session:
            key = kind.__mapper__.primary_key
            rows = await session.scalars(select(kind).where(is_own, *where).order_by(*key))
            return rows.all()
