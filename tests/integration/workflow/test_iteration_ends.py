"""The word of an iteration's end reaches the bus: whoever dies, and whatever fails, after the commit that ended it."""

import asyncio
import os
import signal
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import update
from structlog.testing import capture_logs

from services.aggregator.deadlines import Deadlines
from services.aggregator.handler import Aggregate
from services.scheduler import scheduler as clock_module
from shared.database.engine import Database
from shared.database.tables import Iteration, Step
from shared.enums import IterationStatus, StepKind, StepStatus
from shared.errors import TransientError
from shared.events.envelope import Event
from shared.failpoints import Failpoint
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.actors import running
from tests.support.joins import now, planned, told
from tests.support.scheduling import GRACE_SECONDS, ago, change, overdue, said_again
from tests.support.steps import subjects_told
from tests.support.waiting import until

ENDS = ("iteration.completed", "iteration.failed")


@pytest.fixture
def impatient(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The reconciler looks often, and says again what is half a second old."""
    monkeypatch.setattr(clock_module, "RECONCILE_SECONDS", 0.05)
    return settings.model_copy(update={"resend_after_seconds": 0.5})


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The bus stores no word of an end the first time; counts what it was asked to store."""
    asked: Counter[str] = Counter()
    publish = Bus.publish

    async def failing_once(self: Bus, event: Event, *, resend: int = 0) -> None:
        asked[event.subject] += 1
        if event.subject in ENDS and asked[event.subject] == 1:
            raise TransientError("NATS did not store it", counts=False)
        await publish(self, event, resend=resend)

    monkeypatch.setattr(Bus, "publish", failing_once)
    return asked


async def ends_told(bus: Bus) -> list[str]:
    return [subject for subject in await subjects_told(bus) if subject in ENDS]


async def heard(database: Database, iteration: Iteration) -> bool:
    return (await now(database, iteration)).end_published_at is not None


async def test_a_join_that_could_not_tell_tells_when_its_message_comes_again(
    settings: Settings, database: Database, bus: Bus, refused: Counter[str]
) -> None:
    iteration = await planned(database)
    [plan] = await told(database, iteration, StepKind.OBSERVE)
    await bus.publish(plan)
    async with running(settings, ("aggregator",)):
        await until(lambda: ends_told(bus), what="the end to be told")
    assert refused["iteration.completed"] == 2
    assert await ends_told(bus) == ["iteration.completed"]


async def test_a_deadline_that_could_not_tell_is_told_by_the_reconciler(
    impatient: Settings, database: Database, bus: Bus, refused: Counter[str]
) -> None:
    iterations = [await overdue(database, name) for name in ("first", "second")]
    await Deadlines(database, bus, Aggregate(database), 0.0).end_stalled()
    assert {(await now(database, each)).status for each in iterations} == {IterationStatus.FAILED}
    assert await ends_told(bus) == ["iteration.failed"], "one that fails holds up no other"
    async with running(impatient, ("scheduler",)):
        for each in iterations:
            await until(partial(heard, database, each), what="the end to be heard")
    assert await ends_told(bus) == ["iteration.failed"] * 2


async def test_an_aggregator_killed_before_it_told_leaves_it_to_the_reconciler(
    impatient: Settings, database: Database, bus: Bus, tmp_path: Path
) -> None:
    iteration = await planned(database)
    [plan] = await told(database, iteration, StepKind.OBSERVE)
    await bus.publish(plan)
    (tmp_path / Failpoint.STATE_COMMITTED).write_text("SIGKILL")
    aggregator = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "services.aggregator",
        env={
            **os.environ,
            "VIGIL_DATABASE_URL": impatient.database_url,
            "VIGIL_NATS_URL": impatient.nats_url,
            "VIGIL_CRASH_DIR": str(tmp_path),
        },
        stdout=asyncio.subprocess.DEVNULL,
    )
    assert await asyncio.wait_for(aggregator.wait(), 30) == -signal.SIGKILL
    assert (await now(database, iteration)).status == IterationStatus.COMPLETED
    assert await ends_told(bus) == []
    async with running(impatient, ("scheduler",)):
        await until(lambda: heard(database, iteration), what="the end to be heard")
    assert await ends_told(bus) == ["iteration.completed"]


async def test_an_end_that_was_heard_is_not_told_again(
    impatient: Settings, database: Database, bus: Bus
) -> None:
    first, second = [await overdue(database, name) for name in ("first", "second")]
    aggregate = Aggregate(database)
    await bus.publish_all(await aggregate.pass_deadline(first.id, 60))
    async with running(impatient, ("scheduler",)):
        await until(lambda: heard(database, first), what="the end to be heard")
        await aggregate.pass_deadline(second.id, 60)
        # By then the first is old enough to be told again too.
        await until(lambda: heard(database, second), what="the other's end to be told")
    assert [(await now(database, each)).end_republish_count for each in (first, second)] == [0, 1]
    assert await ends_told(bus) == ["iteration.failed"] * 2


async def test_what_nobody_hears_is_told_ever_more_rarely(database: Database) -> None:
    iteration = await overdue(database, "unheard")
    await Aggregate(database).pass_deadline(iteration.id, 60)
    assert await said_again(database) == []
    await change(database, iteration, ended_at=ago(100 * GRACE_SECONDS))
    said = [await said_again(database)]
    for graces in (1.5, 2.5, 3.5, 4.5):
        await change(database, iteration, end_republished_at=ago(graces * GRACE_SECONDS))
        said.append(await said_again(database))
    assert [[number for _, number in each] for each in said] == [[1], [], [2], [], [3]]


async def test_a_deadline_that_cannot_be_carried_out_holds_up_no_other(
    database: Database, bus: Bus
) -> None:
    unreadable, other = [await overdue(database, name) for name in ("unreadable", "other")]
    steps = Step.iteration_id == unreadable.id
    async with database.transaction() as session:
        values = {"status": StepStatus.COMPLETED, "result": ["not what a result is"]}
        await session.execute(update(Step).where(steps).values(**values))
    with capture_logs() as lines:
        await Deadlines(database, bus, Aggregate(database), 0.0).end_stalled()
    assert (await now(database, other)).status == IterationStatus.FAILED
    assert [line["event"] for line in lines if line["log_level"] == "error"] == ["unexpected error"]
