"""Fills a database with an agent that has many rows of every kind."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import psycopg

from shared.enums import PROMPTED_PHASES

OWNER: Final = "bench"
AGENT: Final = "Bench"
TYPES: Final = 10
QUIET_RUN: Final = 20
"""Of so many consecutive iterations all but one are quiet."""
HUB: Final = "node 1 word1"
"""The node at which one edge in a hundred ends."""

# Not in the order of insertion, as after merges.
_MOMENT: Final = "clock_timestamp() - interval '1 second' * (number::bigint * 7919 % 1000003)"


@dataclass(frozen=True)
class Size:
    """Numbers of rows."""

    nodes: int
    edges: int
    iterations: int
    items: int
    """Inbox items; the oldest hundredth is unread."""
    calls: int
    """LLM calls, and as many interactions."""
    agents: int = 1
    """Agents; all but the first are empty."""
    sources: int = 0
    """Source pages, each with two quotes."""


def fill(url: str, size: Size) -> UUID:
    """Replace all users of the database by one with such an agent; return the id of its hub."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("delete from users")
        connection.execute("insert into users (id, name) values (gen_random_uuid(), %s)", (OWNER,))
        _create_agent(connection, AGENT)
        for statement in (*_work(size), *_graph(size), *_inbox(size), *_evidence(size)):
            connection.execute(statement)
        for number in range(1, size.agents):
            _create_agent(connection, f"{AGENT} {number}")
        connection.execute("vacuum analyze")
        row = connection.execute("select id from graph_nodes where name = %s", (HUB,)).fetchone()
        assert row is not None
        hub: UUID = row[0]
        return hub


def _create_agent(connection: psycopg.Connection[Any], name: str) -> None:
    prompts = [f"{phase}_system_prompt" for phase in PROMPTED_PHASES]
    connection.execute(
        f"insert into agents (id, owner_id, name, mission, interval_seconds, active, {', '.join(prompts)})"
        f" select gen_random_uuid(), id, %s, '', 300, false {', name' * len(prompts)} from users",
        (name,),
    )


def _work(size: Size) -> Iterator[str]:
    yield (
        "insert into iterations (id, agent_id, number, why, status, stage, deadline_at, ended_at)"
        f" select gen_random_uuid(), agents.id, number, 'due',"
        f" case when number % {QUIET_RUN} = 0 then 'completed' else 'quiet' end, 'ended', now(), now()"
        f" from agents, generate_series(1, {size.iterations}) number"
    )
    yield f"update agents set iterations_started = {size.iterations}"
    yield (
        "insert into steps (id, iteration_id, agent_id, kind, index, status)"
        " select gen_random_uuid(), iterations.id, agent_id, 'query', place, 'completed'"
        f" from iterations, generate_series(1, {size.calls // size.iterations}) place"
    )
    yield (
        "insert into llm_interactions"
        " (id, agent_id, iteration_id, step_id, phase, model, system_prompt, request, created_at)"
        " select id, agent_id, iteration_id, id, 'graph_construction', 'm', repeat('prompt ', 300), '{}',"
        f" {_MOMENT} from (select *, row_number() over () as number from steps) steps"
    )
    yield (
        "insert into calls (id, agent_id, iteration_id, step_id, interaction_id, kind, phase, model, request_hash, request,"
        " answer, started_at) select id, agent_id, iteration_id, step_id, id, 'llm', phase, model, id::text, '{}',"
        " jsonb_build_object('message', repeat('said ', 300)), created_at from llm_interactions"
    )


def _graph(size: Size) -> Iterator[str]:
    yield (
        "insert into graph_node_types (agent_id, name, description, properties_schema, created_by)"
        " select id, 'Type' || number, '', '{}', 'bench'"
        f" from agents, generate_series(0, {TYPES}) number"
    )
    yield (
        "insert into graph_edge_types (agent_id, name, description, created_by)"
        f" select id, 'type_' || number, '', 'bench' from agents, generate_series(0, {TYPES}) number"
    )
    yield (
        "insert into graph_nodes (id, agent_id, type, name, properties, updated_at)"
        f" select gen_random_uuid(), agents.id, 'Type' || number % {TYPES},"
        " 'node ' || number || ' word' || number % 1000,"
        " jsonb_build_object('summary', repeat('what is known of it ', 10), 'quote', md5(number::text)),"
        f" {_MOMENT} from agents, generate_series(1, {size.nodes}) number"
    )
    yield (
        "create temporary table numbered as"
        " select id, row_number() over (order by name) as place from graph_nodes"
    )
    yield "create unique index on numbered (place)"
    yield (
        "insert into graph_edges (id, agent_id, type, source_id, target_id, updated_at)"
        f" select gen_random_uuid(), agents.id, 'type_' || number % {TYPES}, source.id,"
        " case when number % 100 = 0 then hub.id else target.id end,"
        f" {_MOMENT} from agents, generate_series(1, {size.edges}) number"
        f" join numbered source on source.place = 1 + number % {size.nodes}"
        f" join numbered target on target.place = 1 + (number::bigint * 31337) % {size.nodes}"
        f" cross join (select id from graph_nodes where name = '{HUB}') hub"
        " on conflict do nothing"
    )


def _inbox(size: Size) -> Iterator[str]:
    yield (
        "insert into inbox_items (id, owner_id, agent_id, node_id, title, summary, read_at, created_at)"
        " select gen_random_uuid(), agents.owner_id, agents.id, numbered.id, 'HOLD: wait', 'As it stands.',"
        f" case when place > {size.items - size.items // 100} then null else now() end,"
        f" now() - interval '1 second' * place from agents, numbered where place <= {size.items}"
    )
    yield (
        "update graph_nodes set properties = properties ||"
        ' \'{"action": "HOLD", "content": "As it stands."}\''
        " where id in (select node_id from inbox_items)"
    )


def _evidence(size: Size) -> Iterator[str]:
    """Sources and evidence."""
    yield (
        "insert into sources (id, agent_id, url, title, fetched_at, sha256, text, seal)"
        " select gen_random_uuid(), agents.id, 'https://pages.example/' || number, 'Page ' || number,"
        " now() - interval '1 minute' * number, sha256(number::text::bytea), repeat('a quote of it. ', 500), ''"
        f" from agents, generate_series(1, {size.sources}) number"
    )
    yield (
        "insert into evidence (id, agent_id, node_id, source_id, first_byte, end_byte, quote_sha256, claims, as_of,"
        " learned_at, seal) select gen_random_uuid(), agent_id, numbered.id, sources.id, 100 * quote, 100 * quote + 13, '',"
        " '{}', fetched_at, fetched_at, ''"
        " from (select *, row_number() over (order by url) as place from sources) sources"
        " cross join generate_series(1, 2) quote join numbered on numbered.place = sources.place"
    )
