"""Queries on a graph of 20,000 nodes use indexes, according to PostgreSQL's plans for the statements sent."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from sqlalchemy import select

from bench.graph.filling import FilledGraph, fill
from bench.graph.measuring import Timing, measure
from services.api.resources.graph import model as graph
from shared.database.engine import Database
from shared.enums import StepKind
from shared.graph import context
from shared.graph.retrieval import query
from tests.conftest import cloned
from tests.support.api.access import agent_access
from tests.support.engines import Postgres
from tests.support.graph.descriptions import describe_nodes, resolve_references
from tests.support.sql_capture import Statements, captured_statements, explain

NODES = 20_000
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
