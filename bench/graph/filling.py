"""One agent's graph of a given size, written in bulk and skewed as graphs grow in practice."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
from psycopg import Connection, sql
from psycopg.types.json import Jsonb

from shared.database import ids
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, PROMPTED_PHASES
from shared.graph.scope import GraphScope

NODE_TYPES: Final = 20
HUB: Final = "The Hub"
COMMON_WORDS: Final = 2_000
"""Words of names (two each) and sentences; the first are more frequent."""
RARE_WORDS: Final = 1_000
"""Words that occur in one summary of twenty."""
DAYS: Final = 60
"""Nodes were updated in these last days; those of two types 90 days earlier."""
_FORMS: Final = "Corporation Group Holdings Institute Works Agency Port Mine Council Bank Union Ltd"
"""Last words of names; the first are more frequent."""
_SYLLABLES: Final = (
    "ba ce di fo gu ha ke li mo nu pa re si to vu wa xe zi cho dra gle pri sta tri ven"
)

Row = tuple[UUID, UUID, str, str, Jsonb, datetime, datetime]


def node_rows(agent_id: UUID, count: int) -> Iterator[Row]:
    """Yield rows of id, agent, type, name, properties, created and updated. One is the hub. Reproducible."""
    chance = random.Random(count)
    words, now = _words(), datetime.now(UTC)
    rare = words[COMMON_WORDS:]
    for number in range(count):
        kind = int(chance.random() ** 2 * NODE_TYPES)
        name = HUB if number == count // 2 else _name(words, number, chance)
        type_name = f"Type{kind}"
        days = chance.random() * DAYS + (90 if kind >= NODE_TYPES - 2 else 0)
        moment = now - timedelta(days=days)
        sentence_words = [words[int(chance.random() ** 3 * COMMON_WORDS)] for _ in range(12)]
        if number % 20 == 0:
            sentence_words.append(chance.choice(rare))
        properties = {
            "summary": f"A company of {' '.join(sentence_words[:5])} and {' '.join(sentence_words[9:])}.",
            "country": sentence_words[5].capitalize(),
            "employees": int(chance.random() * 90_000),
            "quote": f"It is said that {' '.join(sentence_words[5:9])} is of the {sentence_words[0]}.",
            "sourceUrl": f"https://example.org/{number // 20}",
        }
        node_id = ids.node_id(agent_id, type_name, name)
        yield node_id, agent_id, type_name, name, Jsonb(properties), moment, moment


def rare_words() -> list[str]:
    return _words()[COMMON_WORDS:]


def _name(words: list[str], number: int, chance: random.Random) -> str:
    """A unique name of common words."""
    first = words[number % (COMMON_WORDS - 1)]
    second = words[(number // (COMMON_WORDS - 1) * 37 + number) % (COMMON_WORDS - 3)]
    forms = _FORMS.split()
    form = forms[int(chance.random() ** 2 * len(forms))]
    return f"{first.capitalize()} {second.capitalize()} {form}"


@lru_cache(maxsize=1)
def _words() -> list[str]:
    chance = random.Random(6)
    words: dict[str, None] = {}
    while len(words) < COMMON_WORDS + RARE_WORDS:
        words["".join(chance.choices(_SYLLABLES.split(), k=chance.randint(2, 4)))] = None
    return list(words)


EDGES_PER_NODE: Final = 3
EDGE_TYPES: Final = 15
NODES_PER_SOURCE: Final = 20
ITERATIONS: Final = 60
MAX_CONCLUSIONS: Final = 1_000
HUB_INTERVAL: Final = 50
"""One edge in this many ends at the hub."""
SCHEMA: Final = (
    '{"type": "object", "required": ["summary"], "properties": {"summary": {"type": "string"},'
    ' "country": {"type": "string"}, "employees": {"type": "integer", "minimum": 0},'
    ' "quote": {"type": "string"}, "sourceUrl": {"type": "string"}}}'
)


def statements(nodes: int) -> Iterator[str]:
    """SQL for everything but the ordinary nodes, which must exist, of the only agent."""
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
    """Names as `shared.graph.entity_resolution.normalization` computes them; duplicates have one owner."""
    yield (
        "insert into graph_names (agent_id, type, key, reversed_key, sorted_words_key, name, node_id)"
        " select agent_id, type, key, reverse(key), sorted_words_key, name, id from graph_nodes,"
        " lateral (select regexp_replace(lower(name), ' (corporation|holdings|ltd)$', '') as key) keys,"
        " lateral (select string_agg(word, ' ' order by length(word) desc, word collate \"C\") as sorted_words_key"
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
            f" from agents, generate_series(1, {min(nodes // 100 + 1, MAX_CONCLUSIONS)}) number"
        )


def _edges(nodes: int) -> Iterator[str]:
    yield (
        "create temporary table numbered as select id,"
        " row_number() over (order by md5(name)) as place from graph_nodes where type like 'Type%'"
    )
    yield "create unique index on numbered (place)"
    yield "analyze numbered"
    count = nodes * EDGES_PER_NODE
    yield (
        "insert into graph_edges (id, agent_id, type, source_id, target_id, properties, created_at, updated_at)"
        " select gen_random_uuid(), agents.id, type, source.id,"
        f" case when number % {HUB_INTERVAL} = 0 then hub.id else target.id end,"
        " jsonb_build_object('quote', 'It says so in a sentence of some length, number ' || number),"
        f" moment, moment from (select number, {_moment_sql(count)} as moment,"
        f" 'type_' || floor(power(random(), 2) * {EDGE_TYPES})::int as type,"
        f" 1 + number % {nodes - 1} as source_place,"
        # A few nodes have many edges, most have few.
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
        f" from agents, generate_series(0, {nodes // NODES_PER_SOURCE}) number"
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
            f" join pages on pages.place = 1 + things.place % {nodes // NODES_PER_SOURCE}"
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


def _moment_sql(count: int) -> str:
    """SQL of a time in the last 60 days, not in the order of insertion, as after merges."""
    return f"now() - interval '60 days' * ((number::bigint * 7919 % {count}) / {count}::float)"


TABLES: Final = ("graph_nodes", "graph_names", "graph_edges", "sources", "evidence")
SAMPLE_SIZE: Final = 200
"""Number of nodes, names, words and pairs to query: consecutive queries differ."""


@dataclass(frozen=True)
class FilledGraph:
    """The agent, and samples of its graph for queries."""

    scope: GraphScope
    ids: list[UUID]
    """Nodes with few edges."""
    names: list[str]
    """Names of those nodes."""
    hub: UUID
    """The node at which one edge in fifty ends."""
    rare_words: list[str]
    """Words of a few summaries."""


def fill(url: str, nodes: int) -> FilledGraph:
    """Replace all users of the database by one with an agent of `nodes` nodes.

    Seals of nodes and edges are null, those of sources and evidence are invalid: no measured operation reads them.
    Rows that the measurement writes have valid seals.
    """
    scope = GraphScope(uuid4(), uuid4())
    with psycopg.connect(url, autocommit=True) as connection:
        # Foreign keys are valid by construction; checking them would take most of the time.
        connection.execute("set session_replication_role = replica")
        connection.execute("set maintenance_work_mem = '512MB'")
        connection.execute("set work_mem = '64MB'")
        connection.execute("truncate users, agents, iterations, steps, graph_nodes cascade")
        connection.execute("select setseed(0.6)")
        _create_agent(connection, scope)
        with _deferred_indexes(connection):
            _copy_nodes(connection, scope, nodes)
            for statement in statements(nodes):
                connection.execute(statement)
        connection.execute("vacuum (analyze)")
        return _sample(connection, scope)


def _create_agent(connection: Connection[Any], scope: GraphScope) -> None:
    connection.execute("insert into users (id, name) values (%s, 'bench')", (scope.owner_id,))
    prompts = [f"{phase}_system_prompt" for phase in PROMPTED_PHASES]
    columns = sql.SQL(", ").join(map(sql.Identifier, prompts))
    blank = sql.SQL(", ").join(sql.SQL("''") for _ in prompts)
    connection.execute(
        sql.SQL(
            "insert into agents (id, owner_id, name, mission, interval_seconds, active, {})"
            " values (%s, %s, 'Bench', '', 300, false, {})"
        ).format(columns, blank),
        (scope.agent_id, scope.owner_id),
    )


def _copy_nodes(connection: Connection[Any], scope: GraphScope, nodes: int) -> None:
    columns = "id, agent_id, type, name, properties, created_at, updated_at"
    with connection.cursor().copy(f"copy graph_nodes ({columns}) from stdin") as copy:
        for row in node_rows(scope.agent_id, nodes):
            copy.write_row(row)


@contextmanager
def _deferred_indexes(connection: Connection[Any]) -> Iterator[None]:
    """Drop indexes without constraints and create them after the block, which is much faster."""
    indexes = connection.execute(
        "select indexrelid::regclass::text, pg_get_indexdef(indexrelid) from pg_index"
        " where indrelid = any(%s::regclass[]) and not exists"
        " (select from pg_constraint where conindid = indexrelid)",
        (list(TABLES),),
    ).fetchall()
    for name, _ in indexes:
        connection.execute(f"drop index {name}")
    yield
    for _, definition in indexes:
        connection.execute(definition)


def _sample(connection: Connection[Any], scope: GraphScope) -> FilledGraph:
    # Not in the order that decides the number of edges: its first nodes would be hubs, more so in larger
    # graphs.
    rows = connection.execute(
        "select id, name from graph_nodes where type like 'Type%%' and name <> %s"
        " order by md5(reverse(name)) limit %s",
        (HUB, SAMPLE_SIZE),
    ).fetchall()
    hub = connection.execute("select id from graph_nodes where name = %s", (HUB,)).fetchone()
    assert hub is not None
    ids, names = zip(*rows, strict=True)
    return FilledGraph(scope, list(ids), list(names), hub[0], rare_words()[:SAMPLE_SIZE])
