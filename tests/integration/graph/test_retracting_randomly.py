"""Random graphs, retracted and restored in any order: each thing is what a fold of all its evidence from scratch says."""

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
from tests.support.graph.library import Library
from tests.support.graph.world import make_world

PAGES: Final = [f"https://page-{number}.example" for number in range(5)]
PROPERTIES: Final = ("summary", "capital", "population")
GRAPHS: Final = 6
MOVES: Final = 8
_SPEAKS: Final = 0.4
"""How often a page speaks of a thing, and of a property of it."""


@pytest.mark.parametrize("number", range(GRAPHS))
async def test_what_is_held_follows_from_the_evidence(
    database: Database, seed: int, number: int
) -> None:
    chance = Random(seed + number)
    library = Library(await make_world(database))
    await _grow(library, chance)
    before = await library.state()
    standing: list[UUID] = []
    for _ in range(MOVES):
        if standing and chance.random() < 0.5:
            await library.ask_restore(standing.pop(chance.randrange(len(standing))))
        elif (made := await library.ask_retract(chance.choice(PAGES))) not in standing:
            standing.append(made)
        if chance.random() < 0.7:
            await library.work_off(at_once=chance.randint(1, 5))
            await _assert_follows(library)
    for made in chance.sample(standing, len(standing)):
        await library.ask_restore(made)
    await library.work_off(at_once=chance.randint(1, 5))
    assert await library.state() == before


async def _grow(library: Library, chance: Random) -> None:
    """Pages, things that some of them speak of, and conclusions on those and on one another."""
    nodes = [await library.node(f"Node {number}", _said(chance)) for number in range(8)]
    for page in PAGES:
        await library.says(page, {}, node_id=nodes[0])
    things = [f"[node:{node}]" for node in nodes]
    for source, target in chance.sample(list(permutations(nodes, 2)), 6):
        urls = [page for page in PAGES if chance.random() < _SPEAKS]
        things.append(f"[edge:{await library.edge(source, target, *urls)}]")
    for number in range(6):
        cited = chance.sample(things, chance.randint(1, 3))
        analysis = await library.analysis(f"Analysis {number}", *cited)
        things.append(f"[node:{analysis}]")
        if chance.random() < 0.5:
            await library.advice(f"Advice {number}", analysis)


def _said(chance: Random) -> dict[str, dict[str, Any]]:
    return {
        page: {name: chance.randint(1, 3) for name in PROPERTIES if chance.random() < _SPEAKS}
        for page in chance.sample(PAGES, len(PAGES))
        if chance.random() < _SPEAKS
    }


async def _assert_follows(library: Library) -> None:
    """From nothing but pages, evidence and citations: properties, flags and doubts."""
    claims, source_of, retracted_at = await _evidence(library)
    shaken = {
        thing: invalidated_by(known, source_of, retracted_at) for thing, known in claims.items()
    }
    state = await library.state()
    assert state.doubted == {
        (conclusion, thing, source)
        for thing, conclusion in await _resting(library)
        for source in shaken.get(thing, ())
    }
    async with library.world.database.transaction() as session:
        things: list[GraphNode | GraphEdge] = [
            *await session.scalars(select(GraphNode)),
            *await session.scalars(select(GraphEdge)),
        ]
    for thing in things:
        known = claims.get(thing.id, [])
        if known:
            assert thing.properties == project_properties({}, known)
        alone = bool(known) and all(claim.is_retracted for claim in known)
        assert (thing.unsupported_since is not None) == alone


async def _evidence(
    library: Library,
) -> tuple[Mapping[UUID, list[Claim]], Mapping[UUID, UUID], Mapping[UUID, datetime]]:
    claims: defaultdict[UUID, list[Claim]] = defaultdict(list)
    source_of, retracted = {}, {}
    async with library.world.database.transaction() as session:
        rows = await session.execute(
            select(Evidence, Source.retracted_at).join(Source, Source.id == Evidence.source_id)
        )
        for row, retracted_at in rows:
            claim = Claim(row.id, row.claims, row.as_of, row.learned_at, retracted_at is not None)
            element_id = row.node_id or row.edge_id
            assert element_id is not None
            claims[element_id].append(claim)
            source_of[row.id] = row.source_id
            if retracted_at is not None:
                retracted[row.source_id] = retracted_at
    return claims, source_of, retracted


async def _resting(library: Library) -> set[tuple[UUID, UUID]]:
    """Each thing with each conclusion that cites it, at whatever remove."""
    async with library.world.database.transaction() as session:
        rows = await session.execute(select(Citation.cited_id, Citation.conclusion_id))
        direct = {(row[0], row[1]) for row in rows}
    found: set[tuple[UUID, UUID]] = set()
    further = direct
    while further:
        found |= further
        further = {
            (thing, above) for thing, below in found for cited, above in direct if cited == below
        } - found
    return found
