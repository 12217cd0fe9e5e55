"""Random advice on many subjects, some of them related: given, confirmed and withdrawn, while nodes merge and pages are
retracted.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from random import Random
from typing import Final
from uuid import UUID, uuid4

from sqlalchemy import func, select

from shared.database.tables import GraphEdge, InboxItem, Message
from shared.database.tables import Position as PositionRow
from shared.errors import RetrySoonError
from shared.graph import entity_resolution
from shared.graph.conclusions import conclusions, position_store, positions
from shared.graph.conclusions.positions import Position
from shared.graph.conclusions.reviews import Review, review_advice
from shared.graph.entity_resolution import redirects
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.retraction import retractions
from shared.graph.retraction.propagation import propagate_retractions
from shared.graph.scope import GraphScope
from shared.tools import ToolRefusalError
from shared.workflow.agent_clock import agent_clock
from tests.support.forecast_terms import ADVICE_TERMS
from tests.support.graph.agent_graph import AgentGraph

SUBJECTS: Final = (
    *("Ghana", "Togo", "Benin", "Mali", "Chad", "Peru", "Oman", "Fiji", "Cuba", "Iran"),
    *(
        "Laos",
        "Volta",
        "Accra",
        "Tema",
        "Toyota",
        "Alphabet",
        "Facebook",
        "Borland",
        "Niger",
        "Assini Port",
    ),
)
ACTIONS: Final = ("BUY", "HOLD", "SELL")
RELATIONS: Final = {
    "share_of": (("Facebook", "Alphabet"), ("Toyota", "Cuba")),
    "issued_by": (("Borland", "Alphabet"), ("Laos", "Alphabet"), ("Peru", "Cuba")),
    "part_of": (("Accra", "Ghana"), ("Tema", "Ghana"), ("Assini Port", "Niger")),
}
"""Pairs of subjects whose positions are held side by side, by the type of their edge."""
CHANGE: Final = "What speaks for it has changed since."
REASON: Final = "The analyses say so again"


@dataclass
class PositionWalk:
    agent_graph: AgentGraph
    random: Random
    conclusions: int = 0
    """How many were tried."""
    outcomes: Counter[str] = field(default_factory=Counter)
    analyses: dict[str, list[UUID]] = field(default_factory=dict)
    nodes: dict[str, UUID] = field(default_factory=dict)
    merges: list[UUID] = field(default_factory=list)
    retracted: list[UUID] = field(default_factory=list)

    async def begin(self) -> None:
        for name in SUBJECTS:
            url, content = self._page(name), f"{name} is a state."
            page = {"url": url, "title": name, "content": content}
            await self.agent_graph.store_search_results({"results": [page]})
            added = await self.agent_graph.add_node(name, evidence=[EvidenceInput(url, content)])
            self.nodes[name] = added.id
            self.analyses[name] = [
                await self.agent_graph.analysis(f"It grows [node:{added.id}].", f"{title} {name}")
                for title in ("Size of", "Trend of")
            ]
        for type_name, pairs in RELATIONS.items():
            await self.agent_graph.edge_type(type_name)
            for source, target in pairs:
                await self.agent_graph.edge(self.nodes[source], self.nodes[target], type_name)

    async def step(self) -> None:
        """Run a random action. Many are refused."""
        actions = {
            self.advise: 10,
            self.confirm: 3,
            self.withdraw: 2,
            self.race: 2,
            self.merge: 1,
            self.unmerge: 1,
            self.retract: 1,
            self.restore: 1,
        }
        [action] = self.random.choices(list(actions), list(actions.values()))
        try:
            await action()
            self.outcomes[action.__name__] += 1
        except (ToolRefusalError, RetrySoonError, entity_resolution.MergeRefusedError):
            self.outcomes[f"{action.__name__} refused"] += 1
        await self.check()

    async def check(self) -> None:
        """No two pieces of standing advice share a node, and what was replaced says what changed."""
        stands = await self.standing()
        assert not [
            (one, other)
            for one, other in combinations(stands, 2)
            if one.overlaps(other.subject.keys())
        ]
        async with self.agent_graph.database.transaction() as session:
            ended = await session.execute(
                select(PositionRow.reason).where(PositionRow.ended_at.is_not(None))
            )
            assert all(reason for (reason,) in ended)

    async def standing(self) -> list[Position]:
        scope = self.agent_graph.scope
        async with self.agent_graph.database.transaction() as session:
            known = await position_store.positions_query(scope.owner_id, [scope.agent_id]).execute(
                session
            )
            today = (await agent_clock(scope.agent_id).execute(session)).today
        return positions.standing(known, today)

    async def advise(self) -> None:
        names = self.random.sample(SUBJECTS, self.random.choice([1, 1, 1, 2]))
        stands = await self.standing()
        replaces: list[UUID] = []
        if self.random.random() < 0.5:
            nodes = {node for name in names for node in await self._present(name)}
            replaces = [each.id for each in stands if each.overlaps(nodes)]
        elif stands and self.random.random() < 0.1:
            replaces = [self.random.choice(stands).id]
        change = CHANGE if replaces else None
        if self.random.random() < 0.3:
            change = f"{', '.join(self.random.sample(SUBJECTS, 15))} are another matter."
        await self._advise(names, self.random.choice(ACTIONS), replaces, change)

    async def race(self) -> None:
        """Two steps advise on one subject at once, and neither says that it replaces anything."""
        name = self.random.choice(SUBJECTS)
        results = await asyncio.gather(
            *(self._advise([name], action) for action in self.random.sample(ACTIONS, 2)),
            return_exceptions=True,
        )
        for result in results:
            if isinstance(result, BaseException) and not isinstance(
                result, ToolRefusalError | RetrySoonError
            ):
                raise result
        assert any(isinstance(result, BaseException) for result in results)

    async def _advise(
        self,
        names: Sequence[str],
        action: str,
        replaces: Collection[UUID] = (),
        change: str | None = None,
    ) -> None:
        self.conclusions += 1
        cited = [self.random.choice(self.analyses[name]) for name in names]
        others = [each for known in self.analyses.values() for each in known if each not in cited]
        cited.append(self.random.choice(others))
        async with self.agent_graph.database.transaction() as session:
            advice = await conclusions.add_advice(
                session,
                self._scope(),
                name=f"{' and '.join(names)}, view {self.conclusions}",
                action=action,
                summary="So it is.",
                content=" ".join(f"[node:{each}]" for each in cited),
                replaces=replaces,
                change=change,
                **ADVICE_TERMS,
            )
        stands = {each.id: each for each in await self.standing()}
        new = stands.pop(advice)
        for other in stands.values():
            if new.action != other.action and await self._are_related(new, other):
                # The pair is a contradiction that the new advice explains.
                assert any(name in (change or "") for name in other.subject.values()), (new, other)
                self.outcomes["beside"] += 1

    async def _are_related(self, one: Position, other: Position) -> bool:
        """Whether the edges of the graph relate the subjects, or a title names the other subject."""
        for said, about in ((one, other), (other, one)):
            if any(name in said.title for name in about.subject.values()):
                return True
        async with self.agent_graph.database.transaction() as session:
            rows = await session.execute(
                select(GraphEdge.type, GraphEdge.source_id, GraphEdge.target_id).where(
                    GraphEdge.type.in_(RELATIONS)
                )
            )
            edges = {(kind, frozenset(ends)) for kind, *ends in rows.all()}
        issued = {ends for kind, ends in edges if kind != "part_of"}
        pairs = {ends for _, ends in edges} | {
            first ^ second for first, second in combinations(issued, 2) if first & second
        }
        return any(frozenset((a, b)) in pairs for a in one.subject for b in other.subject)

    async def confirm(self) -> None:
        """Tells the owner nothing."""
        told = await self._told()
        await self._review(Review.CONFIRMS, confidence=0.6)
        assert await self._told() == told

    async def withdraw(self) -> None:
        reviewed = await self._review(Review.WITHDRAWS)
        assert reviewed not in {each.id for each in await self.standing()}

    async def _review(self, review: Review, confidence: float | None = None) -> UUID | None:
        stands = await self.standing()
        if not stands:
            return None
        self.conclusions += 1
        advice = self.random.choice(stands).id
        analysis = self.random.choice(self.analyses[self.random.choice(SUBJECTS)])
        async with self.agent_graph.database.transaction() as session:
            await review_advice(
                session,
                self._scope(),
                advice,
                review,
                because=f"{REASON} [node:{analysis}].",
                confidence=confidence,
            )
        return advice

    async def merge(self) -> None:
        one, other = self.random.sample(SUBJECTS, 2)
        scope = self.agent_graph.scope
        async with self.agent_graph.database.transaction() as session:
            merge = await entity_resolution.merge_nodes(
                session,
                scope,
                kept_id=self.nodes[one],
                merged_id=self.nodes[other],
                reason="One thing.",
                made_by=scope.owner_id,
            )
        if merge is not None:
            self.merges.append(merge.id)

    async def unmerge(self) -> None:
        if self.merges:
            merge_id = self.random.choice(self.merges)
            async with self.agent_graph.database.transaction() as session:
                await entity_resolution.undo_merge(session, self.agent_graph.scope, merge_id)
            self.merges.remove(merge_id)

    async def retract(self) -> None:
        url = self._page(self.random.choice(SUBJECTS))
        async with self.agent_graph.database.transaction() as session:
            retraction = await retractions.retract_source(
                session, self.agent_graph.scope, url, "made up"
            )
        if retraction not in self.retracted:
            self.retracted.append(retraction)
        await propagate_retractions(self.agent_graph.database)

    async def restore(self) -> None:
        if self.retracted:
            retraction = self.retracted.pop(self.random.randrange(len(self.retracted)))
            async with self.agent_graph.database.transaction() as session:
                await retractions.restore_source(session, self.agent_graph.scope, retraction)
            await propagate_retractions(self.agent_graph.database)

    async def _present(self, name: str) -> set[UUID]:
        """The node that has the name now."""
        async with self.agent_graph.database.transaction() as session:
            [node] = await redirects.resolve_redirects(
                session, self.agent_graph.scope, [self.nodes[name]]
            )
        return {node}

    async def _told(self) -> tuple[int, int]:
        """How many inbox items and messages there are."""
        async with self.agent_graph.database.transaction() as session:
            counts = [
                await session.scalar(select(func.count()).select_from(table))
                for table in (InboxItem, Message)
            ]
        return counts[0] or 0, counts[1] or 0

    def _scope(self) -> GraphScope:
        """A run of its own."""
        return replace(self.agent_graph.scope, iteration_id=uuid4(), step_id=uuid4())

    @staticmethod
    def _page(name: str) -> str:
        return f"https://{name.lower().replace(' ', '-')}.example/"
