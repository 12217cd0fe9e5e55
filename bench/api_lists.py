"""`python -m bench.api_lists`: what a page of a list costs over HTTP, with a large graph beneath it.

One agent with 100,000 nodes, 200,000 edges, 10,000 iterations, 50,000 calls and 10,000 items in the inbox, on an
embedded PostgreSQL and one real api process. Each row is a list: pages of 50, first ones and ones from deep within, one
after another over one connection, the answer read to its end. Exit code 1 where the p95 of one is not below 20 ms.
$VIGIL_BENCH_REQUESTS is how many pages of each list are read.
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
from bench.owner import owners_token
from cli.local.ports import free_port, unreadiness
from cli.local.postgres import EmbeddedPostgres
from shared.database import migrate
from shared.runtime.settings import Settings

SIZE: Final = Size(nodes=100_000, edges=200_000, iterations=10_000, items=10_000, calls=50_000)
PAGE: Final = 50
DEEP_EVERY: Final = 20
"""Pages that are followed from each beginning."""
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
            token = asyncio.run(owners_token(Settings(database_url=url, owner=OWNER)))
            with _api(url) as api:
                return int(max(_rows(api, token, hub, requests)) >= MAX_P95_SECONDS)
        finally:
            postgres.stop()


def _rows(api: str, token: str, hub: UUID, requests: int) -> list[float]:
    """The p95 of each list, in seconds; prints as it goes."""
    print(f"{'list':<16}  {'p50':>7}  {'p95':>7}  {'max':>7}   ms, {requests} pages of {PAGE}")
    found = []
    shown = {"Authorization": f"Bearer {token}"}
    with httpx.Client(
        base_url=f"{api}/api/v1", headers=shown, timeout=30.0, trust_env=False
    ) as client:
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
