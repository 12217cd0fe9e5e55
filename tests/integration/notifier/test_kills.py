"""A notifier that is killed at any point: every item arrives, and a repeated delivery has the same id.

A delivery is repeated only if the receiver accepted it and the notifier was killed before it recorded that. A receiver
that checks the id (`webhook-id`, `Message-ID`) drops the repetition.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from shared.database.engine import Database
from shared.database.tables import Agent
from shared.enums import DeliveryStatus
from shared.failpoints import DIRECTORY, Failpoint
from shared.runtime.settings import Settings
from tests.support.failpoints import arm
from tests.support.notifier.rows import (
    list_deliveries,
    make_due,
    make_items,
    make_webhook,
    wait_until_delivered,
)
from tests.support.waiting import wait_until
from tests.support.warm_processes import WarmProcess, start_python
from tests.support.webhook_server import HANG, WebhookReceiver, answer, ids

ITEMS: Final = 3
KILL_SECONDS: Final = 30


@asynccontextmanager
async def notifier_process(
    settings: Settings, crashes: Path, log: Path
) -> AsyncIterator[WarmProcess]:
    variables = {
        "VIGIL_DATABASE_URL": settings.database_url,
        "VIGIL_NATS_URL": settings.nats_url,
        "VIGIL_WEBHOOK_PRIVATE": "true",
        DIRECTORY: str(crashes),
    }
    with log.open("ab") as output:
        process = await start_python(
            *("-m", "services.notifier"),
            env={**os.environ, **variables},
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def wait_until_killed(process: WarmProcess) -> None:
    async with asyncio.timeout(KILL_SECONDS):
        assert await process.wait() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("point", "skip", "repeated"),
    [
        pytest.param(Failpoint.STATE_WRITTEN, 0, 0, marks=pytest.mark.slow),
        (Failpoint.STATE_COMMITTED, 0, 0),
        pytest.param(Failpoint.LEASE_TAKEN, 0, 0, marks=pytest.mark.slow),
        (Failpoint.DELIVERY_ANSWERED, 0, 1),
        pytest.param(Failpoint.DELIVERY_ANSWERED, 2, 1, marks=pytest.mark.slow),
        (Failpoint.DELIVERY_RECORDED, 0, 0),
        pytest.param(Failpoint.DELIVERY_RECORDED, 1, 0, marks=pytest.mark.slow),
    ],
)
async def test_a_kill_loses_no_delivery_and_repeats_only_unrecorded_ones(
    settings: Settings,
    database: Database,
    agent: Agent,
    receiver: WebhookReceiver,
    tmp_path: Path,
    point: Failpoint,
    skip: int,
    repeated: int,
) -> None:
    crashes, log = tmp_path / "crash", tmp_path / "notifier.log"
    crashes.mkdir()
    arm(crashes, point, skip=skip)
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent, ITEMS)
    async with notifier_process(settings, crashes, log) as first:
        await wait_until_killed(first)
    recorded_ids = {
        str(row.id)
        for row in await list_deliveries(database)
        if row.status == DeliveryStatus.DELIVERED
    }
    await make_due(database)  # the leases of the killed process lapse
    async with notifier_process(settings, crashes, log):
        deliveries = await wait_until_delivered(database, ITEMS)
    assert ids(receiver.hits) == {str(delivery.id) for delivery in deliveries}
    assert all(len(receiver.with_id(delivery_id)) == 1 for delivery_id in recorded_ids)
    # Two deliveries run at a time: besides the one at the kill point, another may have been in progress.
    assert ITEMS + repeated <= len(receiver.hits) <= ITEMS + 2


async def test_a_delivery_in_progress_at_a_kill_is_repeated_with_the_same_id(
    settings: Settings, database: Database, agent: Agent, receiver: WebhookReceiver, tmp_path: Path
) -> None:
    receiver.respond_with(HANG, answer(200))
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    async with notifier_process(settings, tmp_path, tmp_path / "notifier.log") as first:
        await wait_until(receiver.hit(), what="the attempt to begin")
        first.kill()
        await wait_until_killed(first)
    await make_due(database)
    async with notifier_process(settings, tmp_path, tmp_path / "notifier.log"):
        (delivery,) = await wait_until_delivered(database)
    assert [hit.id for hit in receiver.hits] == [str(delivery.id)] * 2


async def test_a_recorded_delivery_is_never_repeated(
    settings: Settings, database: Database, agent: Agent, receiver: WebhookReceiver, tmp_path: Path
) -> None:
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent, ITEMS)
    for _ in range(2):
        async with notifier_process(settings, tmp_path, tmp_path / "notifier.log") as process:
            await wait_until_delivered(database, ITEMS)
            process.kill()
            await wait_until_killed(process)
        await make_due(database)
    await make_items(database, agent)
    async with notifier_process(settings, tmp_path, tmp_path / "notifier.log"):
        await wait_until_delivered(database, ITEMS + 1)
    assert len(receiver.hits) == ITEMS + 1
