"""Of what pages tell differently the latest holds, whichever came first, and nothing is lost."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest
from sqlalchemy import func, select, update

from shared.database.tables import Evidence, GraphNode, Source
from shared.graph.nodes import add_node
from shared.graph.projection import reproject_node
from shared.graph.provenance import integrity
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.upsert import UpsertResult
from tests.support.canonical_graph import canonical_hash
from tests.support.graph.world import World, make_world

YEARS = (2022, 2023, 2024)
WRITERS = 12


def url(year: int) -> str:
    return f"https://press.example/{year}"


def ground(year: int, valid_from: datetime | None = None) -> EvidenceInput:
    quote = f"In {year} there were {year - 2000} million."
    return EvidenceInput(url(year), quote, valid_from=valid_from)


async def read_all(world: World) -> World:
    """A page of each year, all of them fetched at once."""
    pages = [
        {"url": url(year), "content": ground(year).quote, "published_date": f"{year}-06-30"}
        for year in YEARS
    ]
    await world.read({"results": pages})
    return world


@pytest.fixture
async def counting(world: World) -> World:
    return await read_all(world)


async def count(world: World, year: int, valid_from: datetime | None = None) -> UpsertResult:
    """What the page of `year` says of Ghana's people."""
    async with world.database.transaction() as session:
        return await add_node(
            session,
            world.scope,
            world.validators,
            type_name="Country",
            name="Ghana",
            properties={"summary": "A state.", "population": year - 2000},
            grounds=[ground(year, valid_from)],
        )


async def node(world: World, added: UpsertResult) -> GraphNode:
    async with world.database.transaction() as session:
        return await session.get_one(GraphNode, added.id)


async def test_a_newer_value_supersedes_and_says_what_stood(counting: World) -> None:
    first = await count(counting, 2022)
    assert first.tool_answer == {"created": True}
    newer = await count(counting, 2024)
    stood = {"population": {"held": 22, "asOf": "2022-06-30T00:00:00Z"}}
    assert newer.tool_answer == {"created": False, "superseded": stood}
    assert (await node(counting, newer)).properties["population"] == 24


async def test_an_older_value_is_kept_and_does_not_win(counting: World) -> None:
    await count(counting, 2024)
    older = await count(counting, 2022)
    holds = {"population": {"held": 24, "asOf": "2024-06-30T00:00:00Z"}}
    assert older.tool_answer == {"created": False, "kept": holds}
    assert (await node(counting, older)).properties["population"] == 24


@pytest.mark.parametrize("order", list(permutations(YEARS)))
async def test_the_order_of_arrival_does_not_count(
    counting: World, stranger: World, order: tuple[int, ...]
) -> None:
    await read_all(stranger)
    for year in YEARS:
        await count(stranger, year)
    for year in order:
        added = await count(counting, year)
    assert (await node(counting, added)).properties == {"summary": "A state.", "population": 24}
    async with counting.database.transaction() as session:
        assert await session.scalar(select(func.count()).select_from(Evidence)) == 6
        hashes = {await canonical_hash(session, each.scope) for each in (counting, stranger)}
    assert len(hashes) == 1


async def test_when_it_was_true_counts_before_when_it_was_published(counting: World) -> None:
    await count(counting, 2022, valid_from=datetime(2026, 1, 1, tzinfo=UTC))
    later = await count(counting, 2024)
    assert later.tool_answer["kept"]["population"] == {"held": 22, "asOf": "2026-01-01T00:00:00Z"}


async def test_what_is_foretold_does_not_stand_against_what_is_learned_since(
    counting: World,
) -> None:
    foretold = await count(counting, 2022, valid_from=datetime(2999, 1, 1, tzinfo=UTC))
    assert (await node(counting, foretold)).properties["population"] == 22
    since = {"url": url(2999), "content": "In 2999 there were 999 million."}
    await counting.read({"results": [since]})
    learned = await count(counting, 2999, valid_from=datetime.now(UTC) + timedelta(days=9))
    assert (await node(counting, learned)).properties["population"] == 999


async def test_what_was_written_before_evidence_was_kept_gives_way_and_is_told(
    counting: World,
) -> None:
    added = await count(counting, 2022)
    async with counting.database.transaction() as session:
        await session.execute(
            update(GraphNode).values(
                properties={"summary": "A state.", "population": 22, "capital": "Accra"}, seal=None
            )
        )
    newer = await count(counting, 2023)
    assert newer.tool_answer["superseded"] == {
        "population": {"held": 22, "asOf": "2022-06-30T00:00:00Z"}
    }
    after = await node(counting, added)
    assert after.properties == {"summary": "A state.", "population": 23, "capital": "Accra"}
    assert after.seal is not None


async def test_of_a_retracted_page_the_one_before_it_holds_again(counting: World) -> None:
    for year in YEARS:
        added = await count(counting, year)
    for year, holds in ((2024, 23), (2023, 22)):
        async with counting.database.transaction() as session:
            await session.execute(
                update(Source)
                .where(Source.url == url(year))
                .values(retracted_at=func.clock_timestamp())
            )
            properties = await reproject_node(session, counting.scope, added.id)
        assert properties["population"] == holds


async def test_of_many_that_write_one_node_at_once_none_is_lost(counting: World) -> None:
    added = await asyncio.gather(
        *(count(counting, YEARS[writer % len(YEARS)]) for writer in range(WRITERS))
    )
    assert sum(each.created for each in added) == 1
    after = await node(counting, added[0])
    assert after.properties["population"] == 24
    async with counting.database.transaction() as session:
        ids = list(await session.scalars(select(Evidence.id)))
    assert len(ids) == len(YEARS)
    assert after.seal == integrity.node_seal(
        node_id=after.id,
        agent_id=after.agent_id,
        type_name="Country",
        name="Ghana",
        properties=after.properties,
        evidence=ids,
    )


async def test_agents_do_not_count_each_others_evidence(counting: World) -> None:
    other = await read_all(await make_world(counting.database, "other"))
    await count(other, 2024)
    added = await count(counting, 2022)
    assert added.tool_answer == {"created": True}
    assert (await node(counting, added)).properties["population"] == 22
