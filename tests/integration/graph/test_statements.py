"""Writes to a graph of 20,000 nodes send few statements, with generic plans and no sequential scans."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

import psycopg
import pytest
from sqlalchemy import text

from bench.graph.filling import FilledGraph, fill
from bench.graph.measuring import quote_about, store_page, write_edge, write_node
from shared.database.engine import Database
from shared.database.transaction import Transaction
from shared.graph.validation import Validators
from tests.conftest import cloned
from tests.support.engines import Postgres
from tests.support.sql_capture import captured_statements, explain

NODES: Final = 20_000
TIMES: Final = 12
"""More executions than PostgreSQL needs before it uses a generic plan."""
FARTHEST: Final = 100
"""Number of the last node to which an edge is written."""


@dataclass(frozen=True)
class LargeGraph:
    url: str
    database: Database
    filled: FilledGraph

    async def node(self, session: Transaction, name: str) -> None:
        await write_node(
            session,
            self.filled.scope,
            Validators(),
            type_name="Type1",
            name=name,
            properties={"summary": "What was found out just now."},
            quote=quote_about(name),
        )

    async def edge(self, session: Transaction, number: int, type_name: str) -> None:
        source_id, target_id = self.filled.ids[number], self.filled.hub
        await write_edge(
            session,
            self.filled.scope,
            Validators(),
            type_name=type_name,
            source_id=target_id,
            target_id=source_id,
            quote=quote_about(self.filled.names[number]),
        )


@pytest.fixture(scope="module")
def filled_database(postgres: Postgres) -> Iterator[tuple[str, FilledGraph]]:
    with cloned(postgres) as url:
        yield url, fill(url, NODES)


@pytest.fixture
async def full(filled_database: tuple[str, FilledGraph]) -> AsyncIterator[LargeGraph]:
    url, filled = filled_database
    database = Database(url, name="test", pool_size=1)
    async with database.transaction() as session:
        added = [f"{name} {8000 + number}" for number, name in enumerate(filled.names[:TIMES])]
        added += [f"{filled.names[0]} {number}" for number in (7001, 7100, 7101, 9001)]
        names = [*filled.names[: FARTHEST + 1], *added]
        await store_page(session, filled.scope, [quote_about(name) for name in names])
    yield LargeGraph(url, database, filled)
    await database.close()


async def test_a_new_element_takes_four_statements_and_an_existing_one_six(
    full: LargeGraph,
) -> None:
    """An existing element takes two more: to lock it, and to load its claims."""
    name = f"{full.filled.names[0]} 7001"
    statement_counts = []
    for _ in range(2):
        async with full.database.transaction() as session:
            with captured_statements() as statements:
                await full.node(session, name)
            statement_counts.append(len(statements))
        async with full.database.transaction() as session:
            with captured_statements() as statements:
                await full.edge(session, 0, "type_13")
            statement_counts.append(len(statements))
    assert statement_counts == [4, 4, 6, 6]


async def test_later_elements_of_a_transaction_take_two_statements_less(full: LargeGraph) -> None:
    """Their page and type are cached; for the first edge only the page is."""
    statement_counts = []
    async with full.database.transaction() as session:
        for number in range(2):
            with captured_statements() as statements:
                await full.node(session, f"{full.filled.names[0]} {7100 + number}")
            statement_counts.append(len(statements))
            with captured_statements() as statements:
                await full.edge(session, 10 + number, "type_13")
            statement_counts.append(len(statements))
    assert statement_counts == [4, 3, 2, 2]


async def test_every_statement_gets_a_generic_plan(full: LargeGraph) -> None:
    """If custom plans look cheaper, PostgreSQL plans every execution, which takes longer than the rest."""
    # The second time, the elements exist.
    for number in [*range(TIMES), *range(TIMES)]:
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


async def test_no_write_uses_a_sequential_scan(full: LargeGraph) -> None:
    async with full.database.transaction() as session:
        with captured_statements() as statements:
            await full.node(session, f"{full.filled.names[0]} 9001")
            await full.edge(session, FARTHEST, "type_12")
    with psycopg.connect(full.url) as connection:
        connection.execute("set plan_cache_mode = force_generic_plan")
        for statement, values in statements:
            plan = explain(connection, statement, values)
            for table in ("graph_nodes", "graph_edges", "graph_names", "evidence", "sources"):
                assert f"Seq Scan on {table}" not in plan, plan
