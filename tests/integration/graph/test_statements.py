"""What it takes to write into a graph of 20,000 nodes: few statements, planned once, that go through no table."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from bench.graph.filling import FilledGraph, fill
from bench.graph.measuring import store_page, write_edge, write_node
from shared.database.engine import Database
from shared.graph.validation import Validators
from tests.conftest import cloned
from tests.support.engines import Postgres
from tests.support.sent import listened

NODES: Final = 20_000
TIMES: Final = 12
"""More than it takes until PostgreSQL keeps a plan."""


@dataclass(frozen=True)
class Full:
    url: str
    database: Database
    filled: FilledGraph

    async def node(self, session: AsyncSession, name: str) -> None:
        await write_node(
            session,
            self.filled.scope,
            Validators(),
            type_name="Type1",
            name=name,
            properties={"summary": "What was found out just now."},
        )

    async def edge(self, session: AsyncSession, number: int, type_name: str) -> None:
        source_id, target_id = self.filled.ids[number], self.filled.hub
        await write_edge(
            session,
            self.filled.scope,
            Validators(),
            type_name=type_name,
            source_id=target_id,
            target_id=source_id,
        )


@pytest.fixture(scope="module")
def made(postgres: Postgres) -> Iterator[tuple[str, FilledGraph]]:
    with cloned(postgres) as url:
        yield url, fill(url, NODES)


@pytest.fixture
async def full(made: tuple[str, FilledGraph]) -> AsyncIterator[Full]:
    url, filled = made
    database = Database(url, name="test", pool_size=1)
    async with database.transaction() as session:
        await store_page(session, filled.scope)
    yield Full(url, database, filled)
    await database.close()


async def test_new_ones_take_four_statements_and_more_of_them_six(full: Full) -> None:
    """Two more where there is a thing already: to lock it, and to see what is known of it then."""
    name = f"{full.filled.names[0]} 7001"
    taken = []
    for _ in range(2):
        async with full.database.transaction() as session:
            with listened() as sent:
                await full.node(session, name)
            taken.append(len(sent))
        async with full.database.transaction() as session:
            with listened() as sent:
                await full.edge(session, 0, "type_13")
            taken.append(len(sent))
    assert taken == [4, 4, 6, 6]


async def test_further_ones_of_a_transaction_take_two_less(full: Full) -> None:
    """Their page and their type are known already; of the first edge the page alone."""
    taken = []
    async with full.database.transaction() as session:
        for number in range(2):
            with listened() as sent:
                await full.node(session, f"{full.filled.names[0]} {7100 + number}")
            taken.append(len(sent))
            with listened() as sent:
                await full.edge(session, 10 + number, "type_13")
            taken.append(len(sent))
    assert taken == [4, 3, 2, 2]


async def test_each_is_planned_once(full: Full) -> None:
    """Where plans for the very values look cheaper, PostgreSQL makes one each time, which takes longer than the rest."""
    for number in range(TIMES):
        async with full.database.transaction() as session:
            await full.node(session, f"{full.filled.names[number]} {8000 + number}")
        async with full.database.transaction() as session:
            await full.edge(session, number, "type_14")
    async with full.database.transaction() as session:
        rows = await session.execute(
            text("select statement, generic_plans from pg_prepared_statements")
        )
        plans = {row.statement: row.generic_plans for row in rows}
    assert len(plans) >= 7
    assert [statement for statement, generic in plans.items() if not generic] == []


async def test_none_of_them_goes_through_a_table(full: Full) -> None:
    async with full.database.transaction() as session:
        with listened() as sent:
            await full.node(session, f"{full.filled.names[0]} 9001")
            await full.edge(session, 100, "type_12")
    with psycopg.connect(full.url) as connection:
        connection.execute("set plan_cache_mode = force_generic_plan")
        for statement, values in sent:
            rows = connection.execute(f"explain {statement}".encode(), values)
            plan = "\n".join(row[0] for row in rows)
            for table in ("graph_nodes", "graph_edges", "graph_names", "evidence", "sources"):
                assert f"Seq Scan on {table}" not in plan, plan
