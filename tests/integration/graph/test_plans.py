"""Looks at a graph of 20,000 nodes are answered by indexes: by what Postgres says of the very statements that are sent."""

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from bench.graph.filling import FilledGraph, fill
from bench.graph.measuring import Timing, measure
from services.api.queries import graph
from shared.database.engine import Database
from shared.graph import context
from shared.graph.context import resolve_references
from shared.graph.retrieval import query
from tests.conftest import cloned
from tests.support.engines import Postgres
from tests.support.sent import Sent, listened

NODES = 20_000
FEW_NODES = 1_000
SMALL_BY_NATURE = ("agents", "graph_node_types", "graph_edge_types", "iterations", "steps")


@pytest.fixture(scope="module")
def full(postgres: Postgres) -> Iterator[tuple[str, FilledGraph]]:
    """A database with such a graph, and what of it is looked for."""
    with cloned(postgres) as url:
        yield url, fill(url, NODES)


@pytest.fixture(scope="module")
def few(postgres: Postgres) -> Iterator[tuple[str, FilledGraph]]:
    """Likewise, with as many nodes as a graph has after some days: where to go through all of them seems cheap."""
    with cloned(postgres) as url:
        yield url, fill(url, FEW_NODES)


def _plan(url: str, statement: str, values: Any) -> str:
    with psycopg.connect(url) as connection:
        rows = connection.execute(f"explain {statement}".encode(), values)
        return "\n".join(row[0] for row in rows)


def _lasting_plan(url: str, statement: str) -> str:
    """For whatever values: what PostgreSQL may take once it was sent the same statement a few times."""
    places: dict[str, int] = {}
    numbered = re.sub(
        r"%\((\w+)\)s",
        lambda found: f"${places.setdefault(found[1], len(places) + 1)}",
        statement,
    )
    with psycopg.connect(url) as connection:
        rows = connection.execute(f"explain (generic_plan) {numbered.replace('%%', '%')}".encode())
        return "\n".join(row[0] for row in rows)


async def _sent(full: tuple[str, FilledGraph], **conditions: Any) -> Sent:
    url, filled = full
    database = Database(url, name="test")
    await database.ping()  # what it takes to connect is no look
    with listened() as sent:
        async with database.transaction() as session:
            await query.query_graph(session, filled.scope, **conditions)
    await database.close()
    return _looks(sent)


def _looks(sent: Sent) -> Sent:
    """Without what only asks for a plan itself."""
    return [each for each in sent if not each[0].startswith("explain")]


async def _plans(full: tuple[str, FilledGraph], **conditions: Any) -> str:
    return "\n".join(_plan(full[0], *each) for each in await _sent(full, **conditions))


def _assert_nothing_is_gone_through(plans: str) -> None:
    for table in ("graph_nodes", "graph_edges", "evidence"):
        assert f"Seq Scan on {table}" not in plans, plans


@pytest.mark.parametrize(
    ("asked", "indexes"),
    [
        ("name", {"graph_nodes_agent_name_idx", "graph_nodes_search_idx"}),
        ("misspelled", {"graph_nodes_search_idx"}),
        ("word", {"graph_nodes_search_idx"}),
        ("types", {"graph_nodes_agent_type_updated_idx"}),
        ("nothing", {"graph_nodes_agent_updated_idx"}),
        ("hub", {"graph_edges_source_updated_idx", "graph_edges_target_updated_idx"}),
        ("paths", {"graph_edges_ends_idx", "graph_edges_target_updated_idx"}),
    ],
)
async def test_each_way_to_look_has_its_index(
    full: tuple[str, FilledGraph], asked: str, indexes: set[str]
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
    plans = await _plans(full, **conditions[asked])
    for index in indexes:
        assert index in plans, plans
    _assert_nothing_is_gone_through(plans)


@pytest.mark.parametrize(
    "asked", ["words", "words of types", "neighbours", "paths", "types", "given"]
)
async def test_what_is_planned_once_for_all_goes_through_nothing_either(
    few: tuple[str, FilledGraph], asked: str
) -> None:
    """An agent's edges in the order of time would be all that it has, until enough of those wanted are met."""
    filled = few[1]
    conditions: dict[str, dict[str, Any]] = {
        "words": {"text": f"{filled.names[0]} {filled.rare_words[0]}"},
        "words of types": {"text": filled.names[0], "type_names": ["Type1", "Type19"]},
        "neighbours": {"ids": filled.ids[:2], "neighbours": 2},
        "paths": {"between": filled.ids[:2]},
        "types": {"type_names": ["Type1", "Type19"]},
        "given": {"ids": filled.ids[:20]},
    }
    sent = await _sent(few, **conditions[asked])
    plans = "\n".join(_lasting_plan(few[0], statement) for statement, _ in sent)
    _assert_nothing_is_gone_through(plans)
    assert "graph_edges_agent" not in plans, plans


async def test_the_context_goes_through_no_table(full: tuple[str, FilledGraph]) -> None:
    url, filled = full
    database = Database(url, name="test")
    await database.ping()  # what it takes to connect is no look
    with listened() as sent:
        async with database.transaction() as session:
            text = await context.build_survey(session, filled.scope)
            await graph.count_by_type(session, filled.scope)
            await resolve_references(session, filled.scope, filled.names[:3])
            await context.describe_nodes(session, filled.scope, [filled.hub])
    await database.close()
    assert f"{len(filled.ids)}" != "0"
    assert "500+ nodes" in text
    _assert_nothing_is_gone_through("\n".join(_plan(url, *each) for each in _looks(sent)))


async def test_the_measurement_measures_all_that_it_says(full: tuple[str, FilledGraph]) -> None:
    """Its short form: what it does, without its figures."""
    found = await measure(*full, times=2)
    assert [each.name for each in found][:2] == ["context", "by name"]
    assert [each.name for each in found][-2:] == ["add a node", "add an edge"]
    assert len({each.name for each in found}) == len(found) == 14
    assert all(isinstance(each, Timing) and each.p50_seconds > 0 for each in found)
