"""Sixteen concurrent writers of overlapping companies, in batches and orders of their own: each is stored once.

`VIGIL_TEST_WRITTEN=10000` is the full size; without it 60 companies, or in the slow form 200, are written.
"""

import asyncio
import os
import random
from collections.abc import Sequence
from uuid import uuid4

import pytest
from sqlalchemy import func, select

from shared.database.engine import Database
from shared.database.tables import GraphName, GraphNode
from shared.graph import elements
from shared.graph.entity_resolution.aliases import NameRequest
from shared.graph.provenance.evidence import EvidenceInput
from tests.support.graph.agent_graph import COUNTRY, PAGE, AgentGraph
from tests.support.graph.concurrent_writes import resolve_and_reserve, retried
from tests.support.marks import slow

WRITERS = 16
SIZE = int(os.environ.get("VIGIL_TEST_WRITTEN", "0"))
WRITTEN_BY = 4
"""Number of writers of each company."""
LARGEST_BATCH = 8
SPELLINGS = (
    "{} Corp.",
    "{} Corporation",
    "The {} Company",
    "{}, Inc.",
    "{} GmbH & Co. KG",
    "{} S.p.A.",
)


def _random_spelling(number: int, chance: random.Random) -> str:
    plain = f"Müller-Werke {number}"
    spelling = chance.choice([plain, plain.upper(), plain.lower(), plain.replace("ü", "u")])
    return chance.choice(SPELLINGS).format(chance.choice([spelling, spelling.replace("-", " ")]))


def _shares(count: int, chance: random.Random) -> list[list[int]]:
    """The companies of each writer, in an order of its own."""
    shares: list[list[int]] = [[] for _ in range(WRITERS)]
    for number in range(count):
        for writer in chance.sample(range(WRITERS), WRITTEN_BY):
            shares[writer].append(number)
    for share in shares:
        chance.shuffle(share)
    return shares


def _batches(share: Sequence[int], chance: random.Random, largest: int) -> list[list[NameRequest]]:
    """Some of the requests include the company's ticker."""
    requests = [
        NameRequest(
            "Company",
            _random_spelling(number, chance),
            [f"MW{number}"] if chance.random() < 0.3 else [],
        )
        for number in share
    ]
    batches = []
    while requests:
        size = chance.randint(1, largest)
        batches.append(requests[:size])
        requests = requests[size:]
    return batches


@retried
async def _write(
    agent_graph: AgentGraph, database: Database, batch: Sequence[NameRequest], url: str
) -> int:
    """Write the companies, which the page at `url` names, and return how many are new."""
    async with database.transaction() as session:
        resolved = await resolve_and_reserve(session, agent_graph.scope, batch)
        by_id = {node.node_id: node for node in resolved}
        created = 0
        for node_id in sorted(by_id):
            result = await elements.add_node(
                session,
                agent_graph.scope,
                agent_graph.validators,
                type_name="Company",
                name=by_id[node_id].name,
                properties=COUNTRY,
                evidence=[EvidenceInput(url, PAGE["content"])],
            )
            assert result.id == node_id
            created += result.created
    return created


async def _write_all(
    agent_graph: AgentGraph, url: str, batches: Sequence[Sequence[NameRequest]]
) -> int:
    database = Database(url, name="writer", pool_size=1)
    try:
        created = 0
        for batch in batches:
            title = ", ".join(request.name for request in batch)
            page = {**PAGE, "url": f"https://firms.example/{uuid4()}", "title": title}
            await agent_graph.store_search_results({"results": [page]})
            created += await _write(agent_graph, database, batch, page["url"])
        return created
    finally:
        await database.close()


@pytest.mark.parametrize("companies", [60, *slow(200)])
@pytest.mark.parametrize("largest", [LARGEST_BATCH, 1])
async def test_each_company_is_stored_once(
    agent_graph: AgentGraph, database_url: str, companies: int, seed: int, largest: int
) -> None:
    """In batches, and with one company per transaction as the tools do."""
    company_count = SIZE or companies
    await agent_graph.node_type("Company")
    chance = random.Random(seed)
    work = [_batches(share, chance, largest) for share in _shares(company_count, chance)]
    created = await asyncio.gather(
        *(_write_all(agent_graph, database_url, batches) for batches in work)
    )
    all_aliases = {
        alias
        for batches in work
        for batch in batches
        for request in batch
        for alias in request.aliases
    }
    async with agent_graph.database.transaction() as session:
        node_ids = list(await session.scalars(select(GraphNode.id)))
        named_count = await session.scalar(select(func.count(func.distinct(GraphName.node_id))))
        name_count = await session.scalar(select(func.count()).select_from(GraphName))
    assert (sum(created), len(node_ids), named_count) == (
        company_count,
        company_count,
        company_count,
    )
    assert name_count == company_count + len(all_aliases)
