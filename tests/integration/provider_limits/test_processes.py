"""Several processes share the limits of one provider, with a real PostgreSQL."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import pytest

from shared.database.engine import Database
from shared.provider_limits.state import BURST_SECONDS, Limits
from shared.provider_limits.store import StateStore, provider_key
from tests.support.providers.caller import Report
from tests.support.providers.stand_in import StandIn
from tests.support.providers.walk import most_in_a_minute
from tests.support.sandbox.server import running_app
from tests.support.waiting import wait_until
from tests.support.warm_processes import start_python

CALLER: Final = "tests.support.providers.caller"
LEARNING_SECONDS: Final = 30.0
"""After the first 429 the limit is searched for."""


async def call_from(
    processes: int, database_url: str, url: str, *arguments: object, seconds: float
) -> list[Report]:
    """Runs callers at the same time; returns what each reports."""
    command = [
        *("-m", CALLER, database_url, f"{url}/v1", "--seconds", str(seconds)),
        *map(str, arguments),
    ]
    pipe = asyncio.subprocess.PIPE
    running = [
        await start_python(*command, env=os.environ, stdin=pipe, stdout=pipe)
        for _ in range(processes)
    ]
    try:
        for process in running:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"ready\n"
        outputs = await asyncio.gather(*(process.communicate(b"go\n") for process in running))
    finally:
        # After a failure they would go on calling beside the next tests.
        for process in running:
            with suppress(ProcessLookupError):
                process.kill()
    return [Report(**json.loads(output)) for output, _ in outputs]


@asynccontextmanager
async def callers(
    processes: int, database_url: str, url: str, *arguments: object, seconds: float
) -> AsyncIterator[asyncio.Task[list[Report]]]:
    """Runs callers beside the block, and ends them with it if it fails."""
    calls = call_from(processes, database_url, url, *arguments, seconds=seconds)
    task = asyncio.create_task(calls)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def assert_nothing_failed(reports: Sequence[Report]) -> None:
    assert [error for report in reports for error in report.errors] == []


async def is_unavailable(database: Database, url: str) -> bool:
    store = StateStore(database, "model", provider_key(f"{url}/v1", "k"), "it")
    return (await store.read()).state.unavailable_since is not None


async def has_accepted(stand_in: StandIn, number: int) -> bool:
    return len(stand_in.accepted) >= number


async def has_refused(stand_in: StandIn) -> bool:
    return bool(stand_in.refused)


@pytest.mark.parametrize(
    ("processes", "seconds"), [(3, 5.0), pytest.param(8, 180.0, marks=pytest.mark.slow)]
)
async def test_no_minute_has_more_requests_than_the_settings_allow(
    database_url: str, processes: int, seconds: float
) -> None:
    stand_in = StandIn()
    async with running_app(stand_in.app) as url:
        reports = await call_from(
            processes, database_url, url, "--requests-per-minute", 240, seconds=seconds
        )
    assert_nothing_failed(reports)
    sent = [(at, 1) for at in stand_in.accepted]
    assert most_in_a_minute(sent) <= 240
    span = stand_in.accepted[-1] - stand_in.accepted[0]
    assert len(sent) <= 240 / 60 * (span + BURST_SECONDS) + 1
    assert len(sent) >= 0.9 * 240 / 60 * span
    assert sum(report.statements for report in reports) <= 1.5 * len(sent)


async def test_no_more_calls_are_in_progress_than_the_settings_allow(database_url: str) -> None:
    stand_in = StandIn(answer_seconds=0.2)
    async with running_app(stand_in.app) as url:
        reports = await call_from(4, database_url, url, "--concurrency", 3, seconds=3)
    assert_nothing_failed(reports)
    assert stand_in.max_running == 3
    assert all(report.answered > 3 for report in reports), "each process gets its share"


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "seconds"), [(3, 50.0), (8, 240.0)])
async def test_a_storm_of_429s_ends_and_the_permitted_rate_is_used(
    database_url: str, processes: int, seconds: float
) -> None:
    stand_in = StandIn(per_minute=300, burst=10)
    async with running_app(stand_in.app) as url:
        reports = await call_from(processes, database_url, url, seconds=seconds)
    assert_nothing_failed(reports)
    since = stand_in.accepted[0] + LEARNING_SECONDS
    accepted = [at for at in stand_in.accepted if at > since]
    refused = [at for at in stand_in.refused if at > since]
    share = len(accepted) / ((stand_in.accepted[-1] - since) / 60 * 300)
    print(f"{share:.1%} of the permitted rate; refused {len(refused)}, answered {len(accepted)}")
    assert share >= 0.9
    assert len(refused) <= 0.2 * len(accepted)


async def test_nothing_is_asked_while_no_limit_is_set(database_url: str) -> None:
    stand_in = StandIn(answer_seconds=0.05)
    async with running_app(stand_in.app) as url:
        (report,) = await call_from(1, database_url, url, seconds=5)
    assert report.answered > 100
    assert report.statements <= 4, "a look every two seconds"


@pytest.mark.slow
async def test_a_retry_after_of_one_process_pauses_all(database_url: str) -> None:
    stand_in = StandIn()
    async with (
        running_app(stand_in.app) as url,
        callers(3, database_url, url, "--slots", 2, seconds=16) as task,
    ):
        await wait_until(lambda: has_accepted(stand_in, 50), what="calls")
        stand_in.status, stand_in.retry_after = 429, 6
        await wait_until(lambda: has_refused(stand_in), what="a refusal")
        stand_in.status, stand_in.retry_after = 200, None
        assert_nothing_failed(await task)
    first, last = stand_in.refused[0], stand_in.refused[-1]
    # The others look every two seconds.
    during = [at for at in stand_in.accepted if last + 3.5 < at < first + 5.9]
    assert during == []
    after = [at for at in stand_in.accepted if at >= first + 5.9]
    assert after
    assert len([at for at in after if at < after[0] + 0.2]) <= 3 * 2, "no stampede"


@pytest.mark.slow
async def test_an_outage_is_logged_once_and_ends_for_all(
    database_url: str, database: Database
) -> None:
    stand_in = StandIn()
    async with (
        running_app(stand_in.app) as url,
        callers(3, database_url, url, "--slots", 3, seconds=55) as task,
    ):
        await wait_until(lambda: has_accepted(stand_in, 20), what="calls")
        stand_in.status = 503
        began_at = time.monotonic()
        await wait_until(lambda: is_unavailable(database, url), what="the outage to be seen")
        opened_at = time.monotonic()
        await asyncio.sleep(15)
        sent = [at for at in stand_in.refused if at > opened_at + 2.5]
        assert len(sent) <= 6, "probes only"
        stand_in.status = 200
        ended_at = time.monotonic()
        reports = await task
    assert opened_at - began_at < 10
    assert_nothing_failed(reports)
    assert all(report.answered > 10 for report in reports)
    first = min(at for at in stand_in.accepted if at > ended_at)
    assert first - ended_at < 25
    for report in reports:
        assert report.warnings == ["provider unavailable; steps wait", "provider available again"]


async def test_a_key_is_not_stored() -> None:
    key = provider_key("https://models.example/v1/", "sk-secret")
    assert "secret" not in key
    assert key == provider_key("https://models.example/v1", "sk-secret")
    assert key != provider_key("https://models.example/v1", "sk-other")
    assert Limits().are_set is False
