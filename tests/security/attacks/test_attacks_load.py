"""Valid requests while many clients hang up and others hold connections: in full with VIGIL_TEST_ATTACKS=full."""

import asyncio
import json
import os
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import pytest

from shared.enums import AccessScope
from shared.runtime.settings import Settings
from tests.support.api.signed_in import token_of
from tests.support.attacks.process import Attacked, attacked

P95_SECONDS: Final = 0.1
"""Asserted in the full form alone, which has the machine for itself."""
PAUSE_SECONDS: Final = 0.02
FRESH_EVERY: Final = 10
"""Requests, of which one comes over a new connection."""
CLIENTS: Final = ("127.0.0.1", "127.0.0.9")
"""One address that attacks come from too, and one that none does."""


@dataclass(frozen=True)
class Load:
    disconnects: int
    half_open: int
    seconds: float


SHORT: Final = Load(disconnects=400, half_open=200, seconds=4)
FULL: Final = Load(disconnects=10_000, half_open=2_000, seconds=120)


@pytest.fixture(scope="session")
def load(attacks_in_full: bool) -> Load:
    return FULL if attacks_in_full else SHORT


async def test_valid_requests_among_clients_that_waste_connections(
    settings: Settings, tmp_path: Path, load: Load, attacks_in_full: bool
) -> None:
    token = await token_of(settings, None, [AccessScope.READ, AccessScope.WRITE])
    with attacked(
        tmp_path / "log",
        VIGIL_DATABASE_URL=settings.database_url,
        VIGIL_NATS_URL=settings.nats_url,
        VIGIL_REQUESTS_PER_SECOND="10000",
        VIGIL_REQUESTS_BURST="10000",
    ) as api:
        ended = asyncio.Event()
        asked = [asyncio.create_task(_ask(api, token, source, ended)) for source in CLIENTS]
        attackers = await _attackers(api, token, load)
        try:
            async with asyncio.timeout(3 * load.seconds + 30):
                said, _ = await attackers.communicate()
        finally:
            if attackers.returncode is None:
                attackers.kill()
            ended.set()
        waits = [sorted(each) for each in await asyncio.gather(*asked)]
        found = json.loads(said)
        p95 = [each[int(0.95 * len(each))] for each in waits]
        print(
            f"\n{load}: {found['statuses']}; valid requests:",
            *(
                f"{source}: {len(each)}, p95 {1000 * high:.0f} ms, most {1000 * each[-1]:.0f} ms;"
                for source, each, high in zip(CLIENTS, waits, p95, strict=True)
            ),
        )
        assert found["bad"] == []
        assert api.process.poll() is None
        assert "Traceback" not in api.log
        assert Counter(_levels(api))["error"] == 0
        assert api.ask(b"GET /health/ready HTTP/1.0\r\nHost: localhost\r\n\r\n")[9:12] == b"200"
        if attacks_in_full:
            assert max(p95) < P95_SECONDS


async def _attackers(api: Attacked, token: str, load: Load) -> Process:
    """In a process of their own, so that they do not hold up the requests that are measured."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.support.attacks.hanging_up", str(api.port), token),
        *(str(load.disconnects), str(load.half_open), str(load.seconds)),
        stdout=PIPE,
        cwd=Path(__file__).parents[3],
        env={**os.environ},
    )


async def _ask(api: Attacked, token: str, source: str, ended: asyncio.Event) -> list[float]:
    """Asks until that is set; how long each answer took. Fails at the first that is none."""
    waits: list[float] = []
    base = f"http://127.0.0.1:{api.port}"
    headers = {"Authorization": f"Bearer {token}"}
    paths = ("/api/v1/agents", "/health/live")
    while not ended.is_set():
        # No TLS: to load the certificates takes as long as several answers.
        transport = httpx.AsyncHTTPTransport(local_address=source, verify=False)
        async with httpx.AsyncClient(
            base_url=base, headers=headers, transport=transport, timeout=30
        ) as client:
            for number in range(FRESH_EVERY):
                began = time.perf_counter()
                answer = await client.get(paths[number % len(paths)])
                waits.append(time.perf_counter() - began)
                assert answer.status_code == 200, answer.text
                await asyncio.sleep(PAUSE_SECONDS)
    return waits


def _levels(api: Attacked) -> list[str]:
    return [str(json.loads(line)["level"]) for line in api.log.splitlines() if line[:1] == "{"]
