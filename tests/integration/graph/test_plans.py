"""Queries and writes on a graph of 20,000 nodes use indexes and few statements."""

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Final

import psycopg
import pytest
from sqlalchemy import select, text

from bench.graph.filling import FilledGraph, fill
from bench.graph.measuring import Timing, measure, quote_about, store_page, write_edge, write_node
from services.api.resources.graph import model as graph
from shared.database.engine import Database
from shared.database.statements import BoundQuery
from shared.database.transaction import Transaction
from shared.enums import StepKind
from shared.graph import context, elements
from shared.graph.context import recent
from shared.graph.entity_resolution import aliases
from shared.graph.entity_resolution.aliases import NameRequest
from shared.graph.retrieval import query
from shared.graph.validation import Validators
from tests.conftest import cloned
from tests.support.api.access import agent_access
from tests.support.engines import Postgres
from tests.support.graph.descriptions import describe_nodes, resolve_references
from tests.support.sql_capture import Statements, captured_statements, explain

NODES: Final = 20_000
FEW_NODES = 1_000


@pytest.fixture(scope="module")
def full(postgres: Postgres) -> Iterator[tuple[str, FilledGraph]]:
    """The URL of a database with such a graph, and the values to search for."""
    with cloned(postgres) as url:
        yield url, fill(url, NODES)


@pytest.fixture(scope="module")
def small(postgres: Postgres) -> Iterator[tuple[str, FilledGraph]]:
    """The same with the few nodes of a new graph, where a sequential scan seems cheap."""
    with cloned(postgres) as url:
        yield url, fill(url, FEW_NODES)


def _plan(url: str, statement: str, values: Any) -> str:
    with psycopg.connect(url) as connection:
        return explain(connection, statement, values)


def _generic_plan(url: str, statement: str) -> str:
    """The plan that PostgreSQL may use after it executed the same statement several times."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(f"explain (generic_plan) {statement}".encode())
        return "\n".join(row[0] for row in rows)


async def _statements_of(full: tuple[str, FilledGraph], **conditions: Any) -> Statements:
    url, filled = full
    database = Database(url, name="test")
    await _connect(database)
    with captured_statements() as statements:
        async with database.transaction() as session:
            await query.query_graph(session, filled.scope, **conditions)
    await database.close()
    return _without_explain(statements)


async def _connect(database: Database) -> None:
    """Connects in advance, since that sends statements of its own."""
    async with database.transaction() as session:
        await session.scalar(select(1))
    await database.ping()


def _without_explain(statements: Statements) -> Statements:
    """Exclude `explain` statements."""
    return [statement for statement in statements if not statement[0].startswith("explain")]


async def _plans(full: tuple[str, FilledGraph], **conditions: Any) -> str:
    return "\n".join(
        _plan(full[0], *statement) for statement in await _statements_of(full, **conditions)
    )


def _assert_no_sequential_scan(plans: str) -> None:
    for table in ("graph_nodes", "graph_edges", "evidence"):
        assert f"Seq Scan on {table}" not in plans, plans


@pytest.mark.parametrize(
    ("lookup", "indexes"),
    [
        ("name", {"graph_nodes_agent_name_idx", "graph_nodes_search_idx"}),
        ("misspelled", {"graph_nodes_similar_idx"}),
        ("word", {"graph_nodes_search_idx"}),
        ("types", {"graph_nodes_agent_type_updated_idx"}),
        ("nothing", {"graph_nodes_agent_updated_idx"}),
        ("hub", {"graph_edges_source_updated_idx", "graph_edges_target_updated_idx"}),
        ("paths", {"graph_edges_ends_idx", "graph_edges_target_updated_idx"}),
    ],
)
async def test_each_lookup_uses_its_index(
    full: tuple[str, FilledGraph], lookup: str, indexes: set[str]
) -> None:
    filled = full[1]
    conditions: dict[str, dict[str, Any]] = {
        "name": {"text": filled.names[0]},
        "misspelled": {"text": filled.names[0][:4] + "q" + filled.names[0][4:].split()[0]},
        "word": {"text": filled.rare_words[0]},
        "types": {"type_names": ["Type1", "Type19"]},
        "nothing": {},
        "hub": {"ids": [filled.hub], "neighbours": 2},
        "paths": {"between": filled.ids[:2]},
    }
    plans = await _plans(full, **conditions[lookup])
    for index in indexes:
        assert index in plans, plans
    _assert_no_sequential_scan(plans)


@pytest.mark.parametrize(
    "lookup", ["words", "words of types", "neighbours", "paths", "types", "given"]
)
async def test_generic_plans_use_indexes_too(small: tuple[str, FilledGraph], lookup: str) -> None:
    """A scan of the agent's edges by time could read all of them before it finds enough matches."""
    filled = small[1]
    conditions: dict[str, dict[str, Any]] = {
        "words": {"text": f"{filled.names[0]} {filled.rare_words[0]}"},
        "words of types": {"text": filled.names[0], "type_names": ["Type1", "Type19"]},
        "neighbours": {"ids": filled.ids[:2], "neighbours": 2},
        "paths": {"between": filled.ids[:2]},
        "types": {"type_names": ["Type1", "Type19"]},
        "given": {"ids": filled.ids[:20]},
    }
    statements = await _statements_of(small, **conditions[lookup])
    plans = "\n".join(_generic_plan(small[0], statement) for statement, _ in statements)
    _assert_no_sequential_scan(plans)
    assert "graph_edges_agent" not in plans, plans


async def test_the_context_uses_no_sequential_scan(full: tuple[str, FilledGraph]) -> None:
    url, filled = full
    database = Database(url, name="test")
    await _connect(database)
    with captured_statements() as statements:
        async with database.transaction() as session:
            for kind in (StepKind.OBSERVE, StepKind.QUERY, StepKind.INSIGHT, StepKind.ADVISE):
                await context.build_survey(session, filled.scope, kind)
            await context.named_nodes(filled.scope, ". ".join(filled.names[:50])).execute(session)
            await graph.count_by_type(agent_access(session, filled.scope))
            await resolve_references(session, filled.scope, filled.names[:3])
            await describe_nodes(session, filled.scope, [filled.hub])
    await database.close()
    _assert_no_sequential_scan(
        "\n".join(_plan(url, *statement) for statement in _without_explain(statements))
    )


async def test_the_benchmark_measures_every_operation(full: tuple[str, FilledGraph]) -> None:
    """Runs the short form, and does not check the figures."""
    timings = await measure(*full, times=2)
    assert [timing.name for timing in timings][:2] == ["context", "by name"]
    assert [timing.name for timing in timings][-2:] == ["add a node", "add an edge"]
    assert len({timing.name for timing in timings}) == len(timings) == 14
    assert all(isinstance(timing, Timing) and timing.p50_seconds > 0 for timing in timings)


FEW: Final = (60, 200)
"""PostgreSQL analyses a table for the first time when it has more than 50 rows."""

_ALL_OF_AGENT: Final = re.compile(r"Index Cond: \(agent_id = [^=]*$", re.MULTILINE)


async def _kept_plan(database: Database, query: BoundQuery[Any]) -> str:
    """The plan that workers use, whatever the values are."""
    statement = query.statement.bind(query.params).sql.decode()
    async with database.connection() as connection:
        cursor = await connection.execute(f"explain (generic_plan) {statement}".encode())
        return "\n".join(row[0] for row in await cursor.fetchall())


@pytest.mark.parametrize("size", FEW)
async def test_rows_are_found_by_their_id_or_key(
    database: Database, database_url: str, size: int
) -> None:
    """And not among all rows of the agent, which are many later."""
    filled = fill(database_url, size)
    scope, ids = filled.scope, filled.ids[:2]
    request, other = (
        aliases.request_keys(NameRequest("Type1", name, ["Other"], duplicate_threshold=0.5))
        for name in filled.names[:2]
    )
    queries: dict[str, BoundQuery[Any]] = {
        "nodes by id": recent.nodes_by_ids(scope, ids),
        "edges by id": recent.edges_by_ids(scope, ids),
        "existing nodes": elements.existing_ids(scope, ids),
        "ends of edges": elements.ends_query(scope, [("type_1", ids[0], ids[1])] * 2),
        "names": aliases.names_query(scope, [request, other]),
    }
    plans = {name: await _kept_plan(database, query) for name, query in queries.items()}
    for name, plan in plans.items():
        assert "Seq Scan" not in plan, f"{name}\n{plan}"
        assert "_updated_idx" not in plan, f"{name}\n{plan}"
        assert not _ALL_OF_AGENT.search(plan), f"{name}\n{plan}"
        # It would sort all that come before or after a name.
        assert "Bitmap Index Scan on graph_names" not in plan, f"{name}\n{plan}"
    for index in ("graph_names_pkey", "graph_nodes_agent_id_type_name_key"):
        assert index in plans["names"], plans["names"]


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


@pytest.fixture
async def large_graph(full: tuple[str, FilledGraph]) -> AsyncIterator[LargeGraph]:
    url, filled = full
    database = Database(url, name="test", pool_size=1)
    async with database.transaction() as session:
        added = [
            f"{name.split()[0]} {8000 + number}" for number, name in enumerate(filled.names[:TIMES])
        ]
        added += [f"{filled.names[0].split()[0]} {number}" for number in (7001, 7100, 7101, 9001)]
        names = [*filled.names[: FARTHEST + 1], *added]
        await store_page(session, filled.scope, [quote_about(name) for name in names])
    yield LargeGraph(url, database, filled)
    await database.close()


async def test_a_new_element_takes_four_statements_and_an_existing_one_six(
    large_graph: LargeGraph,
) -> None:
    """An existing element takes two more: to lock it, and to load its claims."""
    name = f"{large_graph.filled.names[0].split()[0]} 7001"
    statement_counts = []
    for _ in range(2):
        async with large_graph.database.transaction() as session:
            with captured_statements() as statements:
                await large_graph.node(session, name)
            statement_counts.append(len(statements))
        async with large_graph.database.transaction() as session:
            with captured_statements() as statements:
                await large_graph.edge(session, 0, "type_13")
            statement_counts.append(len(statements))
    assert statement_counts == [4, 4, 6, 6]


async def test_later_elements_of_a_transaction_take_two_statements_less(
    large_graph: LargeGraph,
) -> None:
    """Their page and type are cached; for the first edge only the page is."""
    statement_counts = []
    async with large_graph.database.transaction() as session:
        for number in range(2):
            with captured_statements() as statements:
                await large_graph.node(
                    session, f"{large_graph.filled.names[0].split()[0]} {7100 + number}"
                )
            statement_counts.append(len(statements))
            with captured_statements() as statements:
                await large_graph.edge(session, 10 + number, "type_13")
            statement_counts.append(len(statements))
    assert statement_counts == [4, 3, 2, 2]


async def test_every_statement_gets_a_generic_plan(large_graph: LargeGraph) -> None:
    """If custom plans look cheaper, PostgreSQL plans every execution, which takes longer than the rest."""
    # The second time, the elements exist.
    for number in [*range(TIMES), *range(TIMES)]:
        async with large_graph.database.transaction() as session:
            await large_graph.node(
                session, f"{large_graph.filled.names[number].split()[0]} {8000 + number}"
            )
        async with large_graph.database.transaction() as session:
            await large_graph.edge(session, number, "type_14")
    async with large_graph.database.transaction() as session:
        rows = await session.execute(
            text("select statement, generic_plans from pg_prepared_statements")
        )
        plans = {row.statement: row.generic_plans for row in rows}
    assert len(plans) >= 7
    assert [statement for statement, generic in plans.items() if not generic] == []


async def test_no_write_uses_a_sequential_scan(large_graph: LargeGraph) -> None:
    async with large_graph.database.transaction() as session:
        with captured_statements() as statements:
            await large_graph.node(session, f"{large_graph.filled.names[0].split()[0]} 9001")
            await large_graph.edge(session, FARTHEST, "type_12")
    with psycopg.connect(large_graph.url) as connection:
        connection.execute("set plan_cache_mode = force_generic_plan")
        for statement, values in statements:
            plan = explain(connection, statement, values)
            for table in ("graph_nodes", "graph_edges", "graph_names", "evidence", "sources"):
                assert f"Seq Scan on {table}" not in plan, plan
