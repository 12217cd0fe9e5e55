"""`python -m bench.api_lists`: the time of a page of each list over HTTP, with a large graph in the database.

One agent with 100,000 nodes, 200,000 edges, 10,000 iterations, 50,000 calls and 10,000 items in the inbox, on an
embedded PostgreSQL and one real API process. Each row is a list: pages of 50, first and later ones, one after another
over one connection, read completely. Exit code 1 if the p95 of a list is not below 20 ms.
$VIGIL_BENCH_REQUESTS sets the number of pages of each list.
"""

import asyncio
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

from bench.large import AGENT, OWNER, Size, fill
from bench.support import create_owner_token
from cli.local.ports import free_port, unreadiness
from cli.local.postgres import EmbeddedPostgres
from shared.database import migrate
from shared.runtime.settings import Settings

SIZE: Final = Size(nodes=100_000, edges=200_000, iterations=10_000, items=10_000, calls=50_000)
PAGE: Final = 50
PAGES_PER_CURSOR: Final = 20
"""Pages followed by cursor before the list starts again."""
MAX_P95_SECONDS: Final = 0.020
READY_SECONDS: Final = 60.0

LISTS: Final = {
    "nodes": f"/agents/{AGENT}/nodes",
    "nodes of a type": f"/agents/{AGENT}/nodes?type=Type3",
    "nodes by name": f"/agents/{AGENT}/nodes?search=word7",
    "edges": f"/agents/{AGENT}/edges",
    "edges of a type": f"/agents/{AGENT}/edges?type=type_3",
    "edges of a node": f"/agents/{AGENT}/edges?node_id={{hub}}",
    "iterations": f"/agents/{AGENT}/iterations",
    "interactions": f"/agents/{AGENT}/interactions",
    "calls": f"/agents/{AGENT}/calls",
    "inbox": "/inbox",
    "inbox, unread": "/inbox?unread=true",
}


def main() -> int:
    requests = int(os.environ.get("VIGIL_BENCH_REQUESTS") or 200)
    with tempfile.TemporaryDirectory() as home:
        postgres = EmbeddedPostgres(
            Path(home) / "postgres", Path(home) / "postgres.log", durable=False
        )
        try:
            url = postgres.start().url("bench")
            with psycopg.connect(postgres.dsn, autocommit=True) as connection:
                connection.execute("create database bench")
            migrate.upgrade(url)
            hub = fill(url, SIZE)
            token = asyncio.run(create_owner_token(Settings(database_url=url, owner=OWNER)))
            with _running_api(url) as api:
                return int(max(_measure_lists(api, token, hub, requests)) >= MAX_P95_SECONDS)
        finally:
            postgres.stop()


def _measure_lists(api: str, token: str, hub: UUID, requests: int) -> list[float]:
    """Print a row for each list; return the p95 of each in seconds."""
    print(f"{'list':<16}  {'p50':>7}  {'p95':>7}  {'max':>7}   ms, {requests} pages of {PAGE}")
    p95s = []
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(
        base_url=f"{api}/api/v1", headers=headers, timeout=30.0, trust_env=False
    ) as client:
        for name, path in LISTS.items():
            seconds = sorted(_time_pages(client, path.format(hub=hub), requests))
            p95 = statistics.quantiles(seconds, n=20)[-1]
            times = (statistics.median(seconds), p95, seconds[-1])
            print(
                f"{name:<16}  {'  '.join(f'{value * 1000:7.1f}' for value in times)}",
                flush=True,
            )
            p95s.append(p95)
    return p95s


def _time_pages(client: httpx.Client, path: str, requests: int) -> Iterator[float]:
    """Yield the seconds of each page, after a warm-up."""
    cursor: str | None = None
    for number in range(-PAGES_PER_CURSOR, requests):
        if number % PAGES_PER_CURSOR == 0:
            cursor = None
        params = {"limit": str(PAGE)} | ({"cursor": cursor} if cursor else {})
        began = time.perf_counter()
        answer = client.get(httpx.URL(path).copy_merge_params(params))
        took = time.perf_counter() - began
        answer.raise_for_status()
        cursor = answer.json()["next"]
        if number >= 0:
            yield took


@contextmanager
def _running_api(database_url: str) -> Iterator[str]:
    port = free_port()
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("VIGIL_")
    }
    settings = {
        "VIGIL_DATABASE_URL": database_url,
        "VIGIL_PORT": str(port),
        "VIGIL_OWNER": OWNER,
        "VIGIL_REQUESTS_PER_SECOND": "100000",
        "VIGIL_REQUESTS_BURST": "100000",
    }
    command = [sys.executable, "-m", "services.api"]
    with subprocess.Popen(
        command, env=environment | settings, stdout=subprocess.DEVNULL
    ) as process:
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
