"""Random graphs, retracted and restored in any order: each element equals the projection of all its evidence."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from itertools import permutations
from random import Random
from typing import Any, Final
from uuid import UUID

import pytest
from sqlalchemy import select

from shared.database.engine import Database
from shared.database.tables import Citation, Evidence, GraphEdge, GraphNode, Source
from shared.graph.provenance.claims import Claim, project_properties
from shared.graph.retraction.doubts import invalidated_by
from tests.support.graph.agent_graph import make_agent_graph
from tests.support.graph.retraction_graph import RetractionGraph
from tests.support.marks import slow

PAGES: Final = [f"https://page-{number}.example" for number in range(5)]
PROPERTIES: Final = ("summary", "capital", "population")
GRAPHS: Final = [0, 1, *slow(*range(2, 6))]
MOVES: Final = 8
_CLAIM_PROBABILITY: Final = 0.4
"""Probability that a page supports an element, and a property of it."""


@pytest.mark.parametrize("number", GRAPHS)
async def test_the_graph_state_follows_from_the_evidence(
    database: Database, seed: int, number: int
) -> None:
    chance = Random(seed + number)
    retraction_graph = RetractionGraph(await make_agent_graph(database))
    await _grow(retraction_graph, chance)
    before = await retraction_graph.state()
    retraction_ids: list[UUID] = []
    for _ in range(MOVES):
        if retraction_ids and chance.random() < 0.5:
            await retraction_graph.ask_restore(
                retraction_ids.pop(chance.randrange(len(retraction_ids)))
            )
        elif (
            retraction_id := await retraction_graph.ask_retract(chance.choice(PAGES))
        ) not in retraction_ids:
            retraction_ids.append(retraction_id)
        if chance.random() < 0.7:
            await retraction_graph.work_off(at_once=chance.randint(1, 5))
            await _assert_state_follows(retraction_graph)
    for retraction_id in chance.sample(retraction_ids, len(retraction_ids)):
        await retraction_graph.ask_restore(retraction_id)
    await retraction_graph.work_off(at_once=chance.randint(1, 5))
    assert await retraction_graph.state() == before


async def _grow(retraction_graph: RetractionGraph, chance: Random) -> None:
    """Add pages, elements that some of them support, and conclusions on those and on one another."""
    nodes = [
        await retraction_graph.node(f"Node {number}", _random_claims(chance)) for number in range(8)
    ]
    for page in PAGES:
        await retraction_graph.says(page, {}, node_id=nodes[0])
    references = [f"[node:{node}]" for node in nodes]
    for source, target in chance.sample(list(permutations(nodes, 2)), 6):
        urls = [page for page in PAGES if chance.random() < _CLAIM_PROBABILITY]
        references.append(f"[edge:{await retraction_graph.edge(source, target, *urls)}]")
    for number in range(6):
        citations = chance.sample(references, chance.randint(1, 3))
        analysis = await retraction_graph.analysis(f"Analysis {number}", *citations)
        references.append(f"[node:{analysis}]")
        if chance.random() < 0.5:
            await retraction_graph.advice(f"Advice {number}", analysis)


def _random_claims(chance: Random) -> dict[str, dict[str, Any]]:
    return {
        page: {
            name: chance.randint(1, 3)
            for name in PROPERTIES
            if chance.random() < _CLAIM_PROBABILITY
        }
        for page in chance.sample(PAGES, len(PAGES))
        if chance.random() < _CLAIM_PROBABILITY
    }


async def _assert_state_follows(retraction_graph: RetractionGraph) -> None:
    """Derive properties, flags and doubts from pages, evidence and citations alone."""
    claims, source_of, retracted_at = await _load_evidence(retraction_graph)
    invalidated = {
        element_id: invalidated_by(element_claims, source_of, retracted_at)
        for element_id, element_claims in claims.items()
    }
    state = await retraction_graph.state()
    assert state.doubted == {
        (conclusion, element_id, source)
        for element_id, conclusion in await _load_dependencies(retraction_graph)
        for source in invalidated.get(element_id, ())
    }
    async with retraction_graph.agent_graph.database.transaction() as session:
        elements: list[GraphNode | GraphEdge] = [
            *await session.scalars(select(GraphNode)),
            *await session.scalars(select(GraphEdge)),
        ]
    for element in elements:
        element_claims = claims.get(element.id, [])
        if element_claims:
            assert element.properties == project_properties({}, element_claims)
        alone = bool(element_claims) and all(claim.is_retracted for claim in element_claims)
        assert (element.unsupported_since is not None) == alone


async def _load_evidence(
    retraction_graph: RetractionGraph,
) -> tuple[Mapping[UUID, list[Claim]], Mapping[UUID, UUID], Mapping[UUID, datetime]]:
    claims: defaultdict[UUID, list[Claim]] = defaultdict(list)
    source_of, retraction_times = {}, {}
    async with retraction_graph.agent_graph.database.transaction() as session:
        rows = await session.execute(
            select(Evidence, Source.retracted_at, Source.url).join(
                Source, Source.id == Evidence.source_id
            )
        )
        for row, retracted_at, url in rows:
            is_retracted = retracted_at is not None
            claim = Claim(row.id, row.claims, row.as_of, row.learned_at, is_retracted, url)
            element_id = row.node_id or row.edge_id
            assert element_id is not None
            claims[element_id].append(claim)
            source_of[row.id] = row.source_id
            if retracted_at is not None:
                retraction_times[row.source_id] = retracted_at
    return claims, source_of, retraction_times


async def _load_dependencies(retraction_graph: RetractionGraph) -> set[tuple[UUID, UUID]]:
    """Each element with each conclusion that cites it, directly or indirectly."""
    async with retraction_graph.agent_graph.database.transaction() as session:
        rows = await session.execute(select(Citation.cited_id, Citation.conclusion_id))
        direct = {(row[0], row[1]) for row in rows}
    pairs: set[tuple[UUID, UUID]] = set()
    new_pairs = direct
    while new_pairs:
        pairs |= new_pairs
        new_pairs = {
            (element, above)
            for element, below in pairs
            for cited, above in direct
            if cited == below
        } - pairs
    return pairs
