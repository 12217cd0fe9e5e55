"""A graph of some thousand nodes that looks like one of an agent: clusters, hubs, and some nodes without edges."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg

TYPES: Final = ("Company", "Country", "Person", "Commodity", "Event", "Agreement", "Plant", "Law")
EDGE_TYPES: Final = ("supplies", "owns", "located_in", "signed", "depends_on")
ORPHAN_SHARE: Final = 0.04
NODES_PER_CLUSTER: Final = 80
NEAR_SHARE: Final = 0.9
"""Edges within a cluster."""
_FIRST: Final = ("Northern", "Upper", "Halden", "Arctic", "Coastal", "Union", "Delta", "Meridian")
_SECOND: Final = ("Lithium", "Power", "Rail", "Grain", "Copper", "Water", "Gas", "Harbour", "Steel")


def insert_graph(
    connection: psycopg.Connection[Any], agent_id: UUID, node_count: int, edge_count: int
) -> None:
    """Adds the same graph each time, but for ids and the present day."""
    chance = random.Random(7)
    start = datetime.now(UTC) - timedelta(days=60)
    cursor = connection.cursor()
    for table, names, columns in (
        ("graph_node_types", TYPES, "description, properties_schema, created_by"),
        ("graph_edge_types", EDGE_TYPES, "description, properties_schema, created_by"),
    ):
        cursor.executemany(
            f"insert into {table} (agent_id, name, {columns}) values (%s, %s, '', '{{}}', 'system')"
            " on conflict do nothing",
            [(agent_id, name) for name in names],
        )
    ids = [uuid4() for _ in range(node_count)]
    days = sorted(chance.triangular(0, 60, 45) for _ in ids)
    with cursor.copy(
        "copy graph_nodes (id, agent_id, type, name, properties, created_at, updated_at) from stdin"
    ) as rows:
        for place, (node_id, day) in enumerate(zip(ids, days, strict=True)):
            name = f"{chance.choice(_FIRST)} {chance.choice(_SECOND)} {place + 1}"
            at = start + timedelta(days=day)
            rows.write_row((node_id, agent_id, _type(chance), name, "{}", at, at))
    with cursor.copy(
        "copy graph_edges (id, agent_id, type, source_id, target_id, created_at, updated_at) from stdin"
    ) as rows:
        for source, target, type_name in _edges(chance, node_count, edge_count):
            at = start + timedelta(days=max(days[source], days[target]))
            rows.write_row((uuid4(), agent_id, type_name, ids[source], ids[target], at, at))


def _type(chance: random.Random) -> str:
    return chance.choices(TYPES, weights=range(len(TYPES), 0, -1))[0]


def _edges(
    chance: random.Random, node_count: int, edge_count: int
) -> Iterator[tuple[int, int, str]]:
    """Ends are chosen by their number of edges, so that there are hubs."""
    connected = int(node_count * (1 - ORPHAN_SHARE))
    cluster_count = max(1, connected // NODES_PER_CLUSTER)
    ends_of_cluster: list[list[int]] = [[] for _ in range(cluster_count)]
    for place in range(connected):
        ends_of_cluster[place % cluster_count].append(place)
    seen: set[tuple[int, int]] = set()
    # Each node once, so that none is left without edges; then at random.
    sources = [*range(connected), *(chance.randrange(connected) for _ in range(edge_count * 2))]
    for source in sources:
        if len(seen) == edge_count:
            return
        own = source % cluster_count
        cluster = own if chance.random() < NEAR_SHARE else chance.randrange(cluster_count)
        target = chance.choice(ends_of_cluster[cluster])
        if source == target or (source, target) in seen:
            target = (source + cluster_count) % connected
        if source == target or (source, target) in seen:
            continue
        seen.add((source, target))
        ends_of_cluster[cluster].append(target)
        yield source, target, chance.choice(EDGE_TYPES)
