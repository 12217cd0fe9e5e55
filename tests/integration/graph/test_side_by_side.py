"""Sixteen who write overlapping things at once, in batches and orders of their own: each thing once, and nobody fails.

`VIGIL_TEST_WRITTEN=10000` is the full size; without it the short form runs.
"""

import asyncio
import os
import random
from collections.abc import Sequence

import pytest
from sqlalchemy import func, select

from shared.database.engine import Database
from shared.database.tables import GraphName, GraphNode
from shared.graph import nodes
from shared.graph.entity_resolution import aliases
from shared.graph.entity_resolution.aliases import NameRequest
from tests.support.graph.world import COUNTRY, GROUNDS, World

WRITERS = 16
SIZE = "VIGIL_TEST_WRITTEN"
SHORT = 200
WRITTEN_BY = 4
"""Of the writers, so many write each thing."""
LARGEST_BATCH = 8
SPELLINGS = (
    "{} Corp.",
    "{} Corporation",
    "The {} Company",
    "{}, Inc.",
    "{} GmbH & Co. KG",
    "{} S.p.A.",
)


@pytest.fixture(scope="session")
def things() -> int:
    return int(os.environ.get(SIZE, SHORT))


def _spelled(number: int, chance: random.Random) -> str:
    plain = f"Müller-Werke {number}"
    written = chance.choice([plain, plain.upper(), plain.lower(), plain.replace("ü", "u")])
    return chance.choice(SPELLINGS).format(chance.choice([written, written.replace("-", " ")]))


def _shares(things: int, chance: random.Random) -> list[list[int]]:
    """Which things each writer writes, in an order of its own."""
    shares: list[list[int]] = [[] for _ in range(WRITERS)]
    for number in range(things):
        for writer in chance.sample(range(WRITERS), WRITTEN_BY):
            shares[writer].append(number)
    for share in shares:
        chance.shuffle(share)
    return shares


def _batches(share: Sequence[int], chance: random.Random, largest: int) -> list[list[NameRequest]]:
    """Here and there with the thing's ticker."""
    called = [
        NameRequest(
            "Company", _spelled(number, chance), [f"MW{number}"] if chance.random() < 0.3 else []
        )
        for number in share
    ]
    batches = []
    while called:
        size = chance.randint(1, largest)
        batches.append(called[:size])
        called = called[size:]
    return batches


async def _write(world: World, database: Database, batch: Sequence[NameRequest]) -> int:
    """How many of them were new."""
    async with database.transaction() as session:
        known = await aliases.resolve_and_reserve(session, world.scope, batch)
        by_id = {each.node_id: each for each in known}
        created = 0
        for node_id in sorted(by_id):
            added = await nodes.add_node(
                session,
                world.scope,
                world.validators,
                type_name="Company",
                name=by_id[node_id].name,
                properties=COUNTRY,
                grounds=GROUNDS,
            )
            assert added.id == node_id
            created += added.created
    return created


async def _write_all(world: World, url: str, batches: Sequence[Sequence[NameRequest]]) -> int:
    database = Database(url, name="writer", pool_size=1)
    try:
        return sum([await _write(world, database, batch) for batch in batches])
    finally:
        await database.close()


@pytest.mark.parametrize("largest", [LARGEST_BATCH, 1])
async def test_each_thing_is_written_once(
    world: World, database_url: str, things: int, seed: int, largest: int
) -> None:
    """In batches, and one thing a transaction, as the tools do it."""
    await world.node_type("Company")
    chance = random.Random(seed)
    work = [_batches(share, chance, largest) for share in _shares(things, chance)]
    created = await asyncio.gather(*(_write_all(world, database_url, each) for each in work))
    aliases = {
        alias for each in work for batch in each for thing in batch for alias in thing.aliases
    }
    async with world.database.transaction() as session:
        found = list(await session.scalars(select(GraphNode.id)))
        held = await session.scalar(select(func.count(func.distinct(GraphName.node_id))))
        taken = await session.scalar(select(func.count()).select_from(GraphName))
    assert (sum(created), len(found), held) == (things, things, things)
    assert taken == things + len(aliases)
