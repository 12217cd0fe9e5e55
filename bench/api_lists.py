"""`python -m bench.api_lists`: what a page of a list costs over HTTP, with a large graph beneath it.

One agent with 100,000 nodes, 200,000 edges, 10,000 iterations and 10,000 items in the inbox, on an embedded PostgreSQL
and one real api process. Each row is a list: pages of 50, first ones and ones from deep within, one after another over
one connection, the answer read to its end. Exit code 1 where the p95 of one is not below 20 ms.
$VIGIL_BENCH_REQUESTS is how many pages of each list are read.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import UUID

import httpx
import psycopg

from cli.local.ports import free_port
from cli.local.postgres import EmbeddedPostgres
from cli.local.readiness import unreadiness
from shared.store import migrate
from shared.store.words import Phase

NODES: Final = 100_000
EDGES: Final = 200_000
ITERATIONS: Final = 10_000
ITEMS: Final = 10_000
TYPES: Final = 10
PAGE: Final = 50
DEEP_EVERY: Final = 20
"""Pages that are followed from each beginning."""
MAX_P95_SECONDS: Final = 0.020
READY_SECONDS: Final = 60.0
OWNER: Final = "bench"
AGENT: Final = "Bench"

LISTS: Final = {
    "nodes": f"/agents/{AGENT}/nodes",
    "nodes of a type": f"/agents/{AGENT}/nodes?type=Type3",
    "nodes by name": f"/agents/{AGENT}/nodes?search=word7",
    "edges": f"/agents/{AGENT}/edges",
    "edges of a type": f"/agents/{AGENT}/edges?type=type_3",
    "edges of a node": f"/agents/{AGENT}/edges?node_id={{hub}}",
    "iterations": f"/agents/{AGENT}/iterations",
    "inbox": "/inbox",
    "inbox, unread": "/inbox?unread=true",
}


def main() -> int:
    requests = int(os.environ.get("VIGIL_BENCH_REQUESTS") or 200)
    with tempfile.TemporaryDirectory() as home:
        postgres = EmbeddedPostgres(
            Path(home) / "postgres", free_port(), Path(home) / "postgres.log", durable=False
        )
        try:
            url = postgres.start().url("bench")
            with psycopg.connect(postgres.dsn, autocommit=True) as connection:
                connection.execute("create database bench")
            migrate.upgrade(url)
            hub = _fill(url)
            with _api(url) as api:
                return int(max(_rows(api, hub, requests)) >= MAX_P95_SECONDS)
        finally:
            postgres.stop()


def _rows(api: str, hub: UUID, requests: int) -> list[float]:
    """The p95 of each list, in seconds; prints as it goes."""
    print(f"{'list':<16}  {'p50':>7}  {'p95':>7}  {'max':>7}   ms, {requests} pages of {PAGE}")
    found = []
    with httpx.Client(base_url=f"{api}/api/v1", timeout=30.0, trust_env=False) as client:
        for name, path in LISTS.items():
            seconds = sorted(_pages(client, path.format(hub=hub), requests))
            p95 = statistics.quantiles(seconds, n=20)[-1]
            told = (statistics.median(seconds), p95, seconds[-1])
            print(f"{name:<16}  {'  '.join(f'{each * 1000:7.1f}' for each in told)}", flush=True)
            found.append(p95)
    return found


def _pages(client: httpx.Client, path: str, requests: int) -> Iterator[float]:
    """Seconds of each page; the first ones, which warm everything up, are not told."""
    cursor: str | None = None
    for number in range(-DEEP_EVERY, requests):
        if number % DEEP_EVERY == 0:
            cursor = None
        params = {"limit": str(PAGE)} | ({"cursor": cursor} if cursor else {})
        began = time.perf_counter()
        answer = client.get(httpx.URL(path).copy_merge_params(params))
        took = time.perf_counter() - began
        answer.raise_for_status()
        cursor = answer.json()["next"]
        if number >= 0:
            yield took


def _fill(url: str) -> UUID:
    """The id of a node that many edges end at."""
    with psycopg.connect(url, autocommit=True) as connection:
        names = ", ".join(
            f"{phase}_system_prompt" for phase in Phase if phase is not Phase.CONFIGURATION
        )
        connection.execute("delete from users")
        connection.execute("insert into users (id, name) values (gen_random_uuid(), %s)", (OWNER,))
        connection.execute(
            f"insert into agents (id, owner_id, name, mission, interval_seconds, active, {names})"
            f" select gen_random_uuid(), id, %s, '', 300, false {', name' * (len(Phase) - 1)} from users",
            (AGENT,),
        )
        for statement in _ROWS:
            connection.execute(statement)
        connection.execute("vacuum analyze")
        row = connection.execute(
            "select id from graph_nodes where name = 'node 1 word1'"
        ).fetchone()
        assert row is not None
        found: UUID = row[0]
        return found


_MOMENT: Final = "clock_timestamp() - interval '1 second' * (number::bigint * 7919 % 1000003)"
"""Not in the order in which rows are written, as merging does it."""

_ROWS: Final = (
    "insert into iterations (id, agent_id, number, why, status, stage, deadline_at, ended_at)"
    " select gen_random_uuid(), agents.id, number, 'due', 'completed', 'ended', now(), now()"
    f" from agents, generate_series(1, {ITERATIONS}) number",
    f"update agents set iterations_started = {ITERATIONS}",
    "insert into graph_node_types (agent_id, name, description, properties_schema, created_by)"
    " select id, 'Type' || number, '', '{}', 'bench'"
    f" from agents, generate_series(0, {TYPES}) number",
    "insert into graph_edge_types (agent_id, name, description, created_by)"
    f" select id, 'type_' || number, '', 'bench' from agents, generate_series(0, {TYPES}) number",
    "insert into graph_nodes (id, agent_id, type, name, properties, updated_at)"
    f" select gen_random_uuid(), agents.id, 'Type' || number % {TYPES},"
    " 'node ' || number || ' word' || number % 1000,"
    " jsonb_build_object('summary', repeat('what is known of it ', 10), 'quote', md5(number::text)),"
    f" {_MOMENT} from agents, generate_series(1, {NODES}) number",
    "create temporary table numbered as select id, row_number() over (order by name) as place from graph_nodes",
    "create unique index on numbered (place)",
    # One edge in a hundred ends at one node, so that there is a hub.
    "insert into graph_edges (id, agent_id, type, source_id, target_id, updated_at)"
    f" select gen_random_uuid(), agents.id, 'type_' || number % {TYPES}, source.id,"
    " case when number % 100 = 0 then hub.id else target.id end,"
    f" {_MOMENT} from agents, generate_series(1, {EDGES}) number"
    f" join numbered source on source.place = 1 + number % {NODES}"
    f" join numbered target on target.place = 1 + (number::bigint * 31337) % {NODES}"
    " cross join (select id from graph_nodes where name = 'node 1 word1') hub"
    " on conflict do nothing",
    "insert into inbox_items (id, owner_id, agent_id, node_id, title, summary, read_at, created_at)"
    " select gen_random_uuid(), agents.owner_id, agents.id, numbered.id, 'HOLD: wait', 'As it stands.',"
    # Nothing new but the oldest: what is unread must not be sought among all that was read.
    f" case when place > {ITEMS - 100} then null else now() end,"
    f" now() - interval '1 second' * place from agents, numbered where place <= {ITEMS}",
    'update graph_nodes set properties = properties || \'{"action": "HOLD", "content": "As it stands."}\''
    " where id in (select node_id from inbox_items)",
)


@contextmanager
def _api(database_url: str) -> Iterator[str]:
    port = free_port()
    given = {name: value for name, value in os.environ.items() if not name.startswith("VIGIL_")}
    ours = {
        "VIGIL_DATABASE_URL": database_url,
        "VIGIL_PORT": str(port),
        "VIGIL_OWNER": OWNER,
        "VIGIL_REQUESTS_PER_SECOND": "100000",
        "VIGIL_REQUESTS_BURST": "100000",
    }
    command = [sys.executable, "-m", "services.api"]
    with subprocess.Popen(command, env=given | ours, stdout=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + READY_SECONDS
            while (why := unreadiness(port)) is not None:
                if time.monotonic() > deadline:
                    raise SystemExit(f"the api is not ready after {READY_SECONDS:.0f} s: {why}")
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


if __name__ == "__main__":
    sys.exit(main())
