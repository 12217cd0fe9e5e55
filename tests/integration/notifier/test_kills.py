"""A notifier that is killed at any point: every item arrives, and what is sent twice has the same id.

Sent twice is only what the receiver had taken and no notifier had recorded: between its answer and our commit there is
always an instant, and whoever heeds the id (`webhook-id`, `Message-ID`) drops the second.
"""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
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
from tests.support.notifier.rows import (
    delivered,
    deliveries_of,
    due_now,
    make_items,
    make_webhook,
)
from tests.support.receiver import HANG, Receiver, answer, ids
from tests.support.waiting import until

ITEMS: Final = 3
KILL_SECONDS: Final = 30


@asynccontextmanager
async def notifier_process(settings: Settings, crashes: Path, log: Path) -> AsyncIterator[Process]:
    own = {
        "VIGIL_DATABASE_URL": settings.database_url,
        "VIGIL_NATS_URL": settings.nats_url,
        "VIGIL_WEBHOOK_PRIVATE": "true",
        DIRECTORY: str(crashes),
    }
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "services.notifier"),
            env={**os.environ, **own},
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def died(process: Process) -> None:
    async with asyncio.timeout(KILL_SECONDS):
        assert await process.wait() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("point", "skip", "twice"),
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
async def test_killed_anywhere_it_loses_nothing_and_repeats_only_what_is_not_recorded(
    settings: Settings,
    database: Database,
    agent: Agent,
    receiver: Receiver,
    tmp_path: Path,
    point: Failpoint,
    skip: int,
    twice: int,
) -> None:
    crashes, log = tmp_path / "crash", tmp_path / "notifier.log"
    crashes.mkdir()
    for number in range(skip):
        (crashes / f"{point}.skip{number}").touch()
    (crashes / point).write_text("SIGKILL")
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent, ITEMS)
    async with notifier_process(settings, crashes, log) as first:
        await died(first)
    recorded = {
        str(each.id)
        for each in await deliveries_of(database)
        if each.status == DeliveryStatus.DELIVERED
    }
    await due_now(database)  # what it had leased: its lease lapses
    async with notifier_process(settings, crashes, log):
        done = await delivered(database, ITEMS)
    assert ids(receiver.hits) == {str(each.id) for each in done}
    assert all(len(receiver.with_id(delivery)) == 1 for delivery in recorded)
    # Besides the one that it was killed over, another may have been under way: two at a time.
    assert ITEMS + twice <= len(receiver.hits) <= ITEMS + 2


async def test_killed_while_the_receiver_answers_it_comes_again_with_the_same_id(
    settings: Settings, database: Database, agent: Agent, receiver: Receiver, tmp_path: Path
) -> None:
    receiver.says(HANG, answer(200))
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    async with notifier_process(settings, tmp_path, tmp_path / "notifier.log") as first:
        await until(receiver.hit(), what="the attempt to begin")
        first.kill()
        await died(first)
    await due_now(database)
    async with notifier_process(settings, tmp_path, tmp_path / "notifier.log"):
        (done,) = await delivered(database)
    assert [hit.id for hit in receiver.hits] == [str(done.id)] * 2


async def test_what_is_recorded_is_never_sent_again(
    settings: Settings, database: Database, agent: Agent, receiver: Receiver, tmp_path: Path
) -> None:
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent, ITEMS)
    for _ in range(2):
        async with notifier_process(settings, tmp_path, tmp_path / "notifier.log") as process:
            await delivered(database, ITEMS)
            process.kill()
            await died(process)
        await due_now(database)
    await make_items(database, agent)
    async with notifier_process(settings, tmp_path, tmp_path / "notifier.log"):
        await delivered(database, ITEMS + 1)
    assert len(receiver.hits) == ITEMS + 1
