"""Random claims of speakers, with retractions, merges and splits, and what must hold after each step."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any, Final
from uuid import UUID

from sqlalchemy import select

from shared.database.tables import Evidence, GraphNode, Source
from shared.graph import entity_resolution
from shared.graph.entity_resolution import MergeRefusedError
from shared.graph.provenance.agreement import agreements
from shared.graph.provenance.claims import Claim
from shared.graph.provenance.integrity import is_equal
from shared.graph.provenance.origins import Publication, find_origins, said_by
from shared.graph.retrieval.claimed import claimed_query
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.duplicates import assert_sealed, merge_nodes, undo_merge
from tests.support.graph.page_evidence import LEARNED, said
from tests.support.graph.retraction_graph import RetractionGraph

NAMES: Final = ("Ghana", "Togo", "Benin")
PAGES: Final = [f"https://{site}.example/{page}" for site in "abcd" for page in range(2)]
SPEAKERS: Final = (None, None, "Ada Roe", "Ben Poe", "Cem Loe")
VALUES: Final = (3, 4)


@dataclass
class SpeakerWalk:
    agent_graph: AgentGraph
    chance: Random
    retractions: dict[str, UUID] = field(default_factory=dict)
    merges: list[UUID] = field(default_factory=list)

    async def begin(self) -> None:
        for name, speaker in zip(NAMES, (None, "Ada Roe", "Ben Poe"), strict=True):
            node = await self.agent_graph.node(name)
            await said(
                self.agent_graph, PAGES[0], "It has it.", node=node, speaker=speaker, population=3
            )

    async def step(self) -> None:
        actions = {
            self.say: 8,
            self.retract: 2,
            self.restore: 2,
            self.merge: 1,
            self.undo: 1,
            self.split: 1,
        }
        [action] = self.chance.choices(list(actions), list(actions.values()))
        await action()
        await self.check()

    async def say(self) -> None:
        url, speaker = self.chance.choice(PAGES), self.chance.choice(SPEAKERS)
        value = self.chance.choice(VALUES)
        node = self.chance.choice(await self._nodes())
        await said(
            self.agent_graph,
            url,
            f"{url} has it.",
            node=node,
            at=LEARNED,
            speaker=speaker,
            population=value,
        )

    async def retract(self) -> None:
        url = self.chance.choice(PAGES)
        if url in self.retractions or url not in await self._urls():
            return
        self.retractions[url] = await self._graph.retract(url)

    async def restore(self) -> None:
        if self.retractions:
            url = self.chance.choice(sorted(self.retractions))
            await self._graph.restore(self.retractions.pop(url))

    async def merge(self) -> None:
        nodes = await self._nodes()
        if len(nodes) > 1:
            kept, merged = self.chance.sample(nodes, 2)
            self.merges.append((await merge_nodes(self.agent_graph, kept, merged)).id)

    async def undo(self) -> None:
        if self.merges:
            await undo_merge(self.agent_graph, self.merges.pop())

    async def split(self) -> None:
        node = self.chance.choice(await self._nodes())
        rows = [row.id for row in await self._rows() if row.node_id == node]
        if len(rows) < 2:
            return
        try:
            async with self.agent_graph.database.transaction() as session:
                await entity_resolution.split_node(
                    session,
                    self.agent_graph.scope,
                    node_id=node,
                    evidence_ids=self.chance.sample(rows, len(rows) // 2),
                    qualifier=f"number {self.chance.randrange(10**6)}",
                    reason="Two things.",
                    made_by=self.agent_graph.scope.owner_id,
                )
        except MergeRefusedError:
            return
        self.merges.clear()  # no merge of a node that was split since is undone

    async def check(self) -> None:
        """No statement is lost, gained or given to another speaker, and contexts and pages say the same of each value."""
        await assert_sealed(self.agent_graph)
        rows = await self._rows()
        nodes = await self._nodes()
        async with self.agent_graph.database.transaction() as session:
            shown = await claimed_query(self.agent_graph.scope, nodes).execute(session)
            rows_of_nodes = await session.execute(select(GraphNode.id, GraphNode.properties))
            properties = {row.id: row.properties for row in rows_of_nodes}
        for node in nodes:
            own = [row for row in rows if row.node_id == node]
            expected = _claimed(own, properties[node])
            assert dict(shown.get(node, {})) == expected
            found = agreements(_claims(own), datetime.now(UTC))
            for name, agreement in found.items():
                assert said_by(agreement.origins) == expected.get(name, [])

    async def statements(self) -> Counter[tuple[Any, ...]]:
        """Page, value and speaker of all evidence, whatever it is about."""
        return Counter((row.url, str(row.claims), row.speaker) for row in await self._rows())

    @property
    def _graph(self) -> RetractionGraph:
        return RetractionGraph(self.agent_graph)

    async def _nodes(self) -> list[UUID]:
        async with self.agent_graph.database.transaction() as session:
            rows = await session.execute(
                select(GraphNode.id, GraphNode.name)
                .where(GraphNode.type == "Country")
                .order_by(GraphNode.name)
            )
            return [row.id for row in rows]

    async def _urls(self) -> set[str]:
        return {row.url for row in await self._rows()}

    async def _rows(self) -> Sequence[Any]:
        async with self.agent_graph.database.transaction() as session:
            rows = await session.execute(
                select(
                    *(Evidence.id, Evidence.node_id, Evidence.claims, Evidence.speaker),
                    *(Evidence.as_of, Evidence.learned_at),
                    *(Source.url, Source.retracted_at),
                )
                .join(Source, Source.id == Evidence.source_id)
                .order_by(Evidence.id)
            )
            return rows.all()


def _claimed(rows: Sequence[Any], properties: Mapping[str, Any]) -> dict[str, list[str]]:
    """The speakers of each value that no page states: written apart from the SQL."""
    pages: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        for name, value in row.claims.items():
            if row.retracted_at is None and is_equal(properties.get(name), value):
                pages[name][row.url] |= {row.speaker} - {None}
    return {
        name: sorted(set().union(*of_pages.values()))
        for name, of_pages in pages.items()
        if all(of_pages.values())
    }


def _claims(rows: Sequence[Any]) -> Any:
    origins = find_origins(Publication(row.url) for row in rows)
    return [
        (
            Claim(
                *(row.id, row.claims, row.as_of, row.learned_at, row.retracted_at is not None),
                url=row.url,
                speaker=row.speaker,
            ),
            origins[row.url],
        )
        for row in rows
    ]
