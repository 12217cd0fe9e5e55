"""One agent's graph of a given size, written at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
from psycopg import Connection, sql

from bench.graph import naming, rows
from shared.enums import PROMPTED
from shared.graph.scope import Scope

FILLED: Final = ("graph_nodes", "graph_names", "graph_edges", "sources", "evidence")
LOOKED_FOR: Final = 200
"""Nodes, and names, words and pairs of nodes: no two in a row are the same."""


@dataclass(frozen=True)
class Filled:
    """The agent, and what of its graph is looked for."""

    scope: Scope
    ids: list[UUID]
    """Of nodes here and there, which few edges touch."""
    names: list[str]
    """Theirs."""
    hub: UUID
    """Where one edge in fifty ends."""
    rare_words: list[str]
    """Of a few summaries."""


def fill(url: str, nodes: int) -> Filled:
    """Replaces all users of the database by one with an agent of so many nodes.

    Seals of nodes and edges are left null, and those of sources and evidence are no seals: nothing that is measured
    reads them. What the measurement itself writes is sealed like everything else.
    """
    scope = Scope(uuid4(), uuid4())
    with psycopg.connect(url, autocommit=True) as connection:
        # Foreign keys hold by construction, and a look at each would take most of the time.
        connection.execute("set session_replication_role = replica")
        connection.execute("set maintenance_work_mem = '512MB'")
        connection.execute("set work_mem = '64MB'")
        connection.execute("truncate users, agents, iterations, steps, graph_nodes cascade")
        connection.execute("select setseed(0.6)")
        _make_agent(connection, scope)
        with _indexes_at_the_end(connection):
            _copy_nodes(connection, scope, nodes)
            for statement in rows.statements(nodes):
                connection.execute(statement)
        connection.execute("vacuum (analyze)")
        return _looked_for(connection, scope)


def _make_agent(connection: Connection[Any], scope: Scope) -> None:
    connection.execute("insert into users (id, name) values (%s, 'bench')", (scope.owner_id,))
    prompts = [f"{phase}_system_prompt" for phase in PROMPTED]
    columns = sql.SQL(", ").join(map(sql.Identifier, prompts))
    blank = sql.SQL(", ").join(sql.SQL("''") for _ in prompts)
    connection.execute(
        sql.SQL(
            "insert into agents (id, owner_id, name, mission, interval_seconds, active, {})"
            " values (%s, %s, 'Bench', '', 300, false, {})"
        ).format(columns, blank),
        (scope.agent_id, scope.owner_id),
    )


def _copy_nodes(connection: Connection[Any], scope: Scope, nodes: int) -> None:
    columns = "id, agent_id, type, name, properties, created_at, updated_at"
    with connection.cursor().copy(f"copy graph_nodes ({columns}) from stdin") as copy:
        for row in naming.nodes(scope.agent_id, nodes):
            copy.write_row(row)


@contextmanager
def _indexes_at_the_end(connection: Connection[Any]) -> Iterator[None]:
    """Makes those that are no constraint's once all rows are there, which is much quicker."""
    found = connection.execute(
        "select indexrelid::regclass::text, pg_get_indexdef(indexrelid) from pg_index"
        " where indrelid = any(%s::regclass[]) and not exists"
        " (select from pg_constraint where conindid = indexrelid)",
        (list(FILLED),),
    ).fetchall()
    for name, _ in found:
        connection.execute(f"drop index {name}")
    yield
    for _, definition in found:
        connection.execute(definition)


def _looked_for(connection: Connection[Any], scope: Scope) -> Filled:
    # In another order than that in which nodes are known to many: the first of it would be hubs, the more the larger the
    # graph.
    found = connection.execute(
        "select id, name from graph_nodes where type like 'Type%%' and name <> %s"
        " order by md5(reverse(name)) limit %s",
        (naming.HUB, LOOKED_FOR),
    ).fetchall()
    hub = connection.execute("select id from graph_nodes where name = %s", (naming.HUB,)).fetchone()
    assert hub is not None
    ids, names = zip(*found, strict=True)
    return Filled(scope, list(ids), list(names), hub[0], naming.rare_words()[:LOOKED_FOR])
