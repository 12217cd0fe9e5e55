"""The rows of such a graph, as Postgres makes them: skewed as they grow in practice."""

from collections.abc import Iterator
from typing import Final

from bench.graph.naming import HUB, NODE_TYPES
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE

EDGES_A_NODE: Final = 3
EDGE_TYPES: Final = 15
NODES_A_SOURCE: Final = 20
ITERATIONS: Final = 60
MOST_CONCLUSIONS: Final = 1_000
HUB_EVERY: Final = 50
"""One edge in so many ends at it."""
SCHEMA: Final = (
    '{"type": "object", "required": ["summary"], "properties": {"summary": {"type": "string"},'
    ' "country": {"type": "string"}, "employees": {"type": "integer", "minimum": 0},'
    ' "quote": {"type": "string"}, "sourceUrl": {"type": "string"}}}'
)


def statements(nodes: int) -> Iterator[str]:
    """All but the nodes that stand for facts, which must be there; of the only agent that there is."""
    yield from _types()
    yield from _names()
    yield from _conclusions(nodes)
    yield from _edges(nodes)
    yield from _evidence(nodes)
    yield from _work()


def _types() -> Iterator[str]:
    yield (
        "insert into graph_node_types (agent_id, name, description, properties_schema, created_by)"
        f" select id, 'Type' || number, 'What is of type ' || number || '.', '{SCHEMA}'::jsonb, 'bench'"
        f" from agents, generate_series(0, {NODE_TYPES - 1}) number"
        f" union all select id, reserved, 'A conclusion.', '{{}}'::jsonb, 'system'"
        f" from agents, unnest(array['{ANALYSIS_TYPE}', '{ADVICE_TYPE}']) reserved"
    )
    yield (
        "insert into graph_edge_types (agent_id, name, description, created_by)"
        " select id, 'type_' || number, 'What type ' || number || ' says.', 'bench'"
        f" from agents, generate_series(0, {EDGE_TYPES - 1}) number"
    )


def _names() -> Iterator[str]:
    """As `shared.graph.entity_resolution.normalization` reads them. Of nodes whose names are one name, one has it."""
    yield (
        "insert into graph_names (agent_id, type, key, backwards, by_length, name, node_id)"
        " select agent_id, type, key, reverse(key), by_length, name, id from graph_nodes,"
        " lateral (select regexp_replace(lower(name), ' (corporation|holdings|ltd)$', '') as key) keys,"
        " lateral (select string_agg(word, ' ' order by length(word) desc, word collate \"C\") as by_length"
        " from regexp_split_to_table(key, ' ') word) words on conflict do nothing"
    )


def _conclusions(nodes: int) -> Iterator[str]:
    for name, word in ((ANALYSIS_TYPE, "pattern"), (ADVICE_TYPE, "HOLD")):
        yield (
            "insert into graph_nodes (id, agent_id, type, name, properties, updated_at)"
            f" select gen_random_uuid(), id, '{name}', '{name} ' || number, jsonb_build_object("
            f" 'type', '{word}', 'action', '{word}', 'summary', 'It goes on as it did.',"
            " 'content', repeat('Because of what stands there. ', 40), 'confidence', 0.5),"
            " now() - interval '1 hour' * number"
            f" from agents, generate_series(1, {min(nodes // 100 + 1, MOST_CONCLUSIONS)}) number"
        )


def _edges(nodes: int) -> Iterator[str]:
    yield (
        "create temporary table numbered as select id,"
        " row_number() over (order by md5(name)) as place from graph_nodes where type like 'Type%'"
    )
    yield "create unique index on numbered (place)"
    yield "analyze numbered"
    count = nodes * EDGES_A_NODE
    yield (
        "insert into graph_edges (id, agent_id, type, source_id, target_id, properties, created_at, updated_at)"
        " select gen_random_uuid(), agents.id, type, source.id,"
        f" case when number % {HUB_EVERY} = 0 then hub.id else target.id end,"
        " jsonb_build_object('quote', 'It says so in a sentence of some length, number ' || number),"
        f" moment, moment from (select number, {_moment(count)} as moment,"
        f" 'type_' || floor(power(random(), 2) * {EDGE_TYPES})::int as type,"
        f" 1 + number % {nodes - 1} as source_place,"
        # Some are known to many, most to few.
        f" 1 + floor(power(random(), 2) * {nodes - 1})::int as target_place"
        f" from generate_series(1, {count}) number) numbers"
        " join numbered source on source.place = source_place"
        " join numbered target on target.place = target_place"
        f" cross join (select id from graph_nodes where name = '{HUB}') hub cross join agents"
        " where source.id not in (target.id, hub.id) on conflict do nothing"
    )


def _evidence(nodes: int) -> Iterator[str]:
    yield (
        "insert into sources (id, agent_id, url, title, fetched_at, sha256, text, seal)"
        " select gen_random_uuid(), id, 'https://example.org/' || number, 'Page ' || number,"
        " now() - interval '1 minute' * number, sha256(number::text::bytea),"
        " repeat('What stands on the page. ', 80), sha256('')"
        f" from agents, generate_series(0, {nodes // NODES_A_SOURCE}) number"
    )
    yield (
        "create temporary table pages as select id, fetched_at,"
        " row_number() over () as place from sources"
    )
    yield "create unique index on pages (place)"
    yield "analyze pages"
    for column, table in (("node_id", "graph_nodes"), ("edge_id", "graph_edges")):
        yield (
            f"insert into evidence (id, agent_id, {column}, source_id, first_byte, end_byte,"
            " quote_sha256, claims, as_of, learned_at, seal)"
            " select gen_random_uuid(), agent_id, things.id, pages.id, 0, 24, sha256(''), properties,"
            " fetched_at, updated_at, sha256('')"
            f" from (select *, row_number() over () as place from {table}) things"
            f" join pages on pages.place = 1 + things.place % {nodes // NODES_A_SOURCE}"
        )


def _work() -> Iterator[str]:
    yield (
        "insert into iterations (id, agent_id, number, why, status, stage, deadline_at, ended_at)"
        " select gen_random_uuid(), id, number, 'due', 'completed', 'ended', now(), now()"
        f" from agents, generate_series(1, {ITERATIONS}) number"
    )
    for kind in ("query", "insight"):
        yield (
            "insert into steps (id, iteration_id, agent_id, kind, index, status, input, result)"
            f" select gen_random_uuid(), id, agent_id, '{kind}', index, 'completed',"
            " jsonb_build_object('objective', 'Who ' || number || ' and why?'),"
            " jsonb_build_object('missing', array['figures of ' || number])"
            " from iterations, generate_series(0, 3) index"
        )


def _moment(count: int) -> str:
    """Of the last 60 days; not in the order in which rows are written, as merging does it."""
    return f"now() - interval '60 days' * ((number::bigint * 7919 % {count}) / {count}::float)"
