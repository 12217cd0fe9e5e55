"""The end event of an iteration is published even if a service is killed or fails after the commit of the end."""

import asyncio
import os
import signal
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
from shared.workflow.iterations import IterationRow
from tests.support.failpoints import arm
from tests.support.joins import end_events, plan_iteration, reload_iteration
from tests.support.running_services import running_services
from tests.support.scheduling import GRACE_SECONDS, ago, change, overdue, republished_events
from tests.support.steps import published_subjects
from tests.support.waiting import wait_until
from tests.support.warm_processes import start_python

END_SUBJECTS = ("iteration.completed", "iteration.failed")


@pytest.fixture
def impatient(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The reconciler polls often and republishes events that are half a second old."""
    monkeypatch.setattr(clock_module, "RECONCILE_SECONDS", 0.05)
    return settings.model_copy(update={"resend_after_seconds": 0.5})


@pytest.fixture
def publish_counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Makes the first publish of an end event fail; counts the publishes by subject."""
    counts: Counter[str] = Counter()
    publish = Bus.publish

    async def fail_first_end(self: Bus, event: Event, *, resend: int = 0) -> None:
        counts[event.subject] += 1
        if event.subject in END_SUBJECTS and counts[event.subject] == 1:
            raise TransientError("NATS did not store it", counts=False)
        await publish(self, event, resend=resend)

    monkeypatch.setattr(Bus, "publish", fail_first_end)
    return counts


async def published_ends(bus: Bus) -> list[str]:
    return [subject for subject in await published_subjects(bus) if subject in END_SUBJECTS]


async def is_published(database: Database, iteration: Iteration | IterationRow) -> bool:
    return (await reload_iteration(database, iteration)).end_published_at is not None


async def test_a_join_that_failed_to_publish_does_so_on_redelivery(
    settings: Settings, database: Database, bus: Bus, publish_counts: Counter[str]
) -> None:
    iteration = await plan_iteration(database)
    [plan] = await end_events(database, iteration, StepKind.OBSERVE)
    await bus.publish(plan)
    async with running_services(settings, ("aggregator",)):
        await wait_until(lambda: published_ends(bus), what="the end to be published")
    assert publish_counts["iteration.completed"] == 2
    assert await published_ends(bus) == ["iteration.completed"]


async def test_an_unpublished_end_by_deadline_is_published_by_the_reconciler(
    impatient: Settings, database: Database, bus: Bus, publish_counts: Counter[str]
) -> None:
    iterations = [await overdue(database, name) for name in ("first", "second")]
    await Deadlines(database, bus, Aggregate(database), 0.0).end_stalled()
    assert {(await reload_iteration(database, iteration)).status for iteration in iterations} == {
        IterationStatus.FAILED
    }
    assert await published_ends(bus) == ["iteration.failed"], "a failed publish blocks no other"
    async with running_services(impatient, ("scheduler",)):
        for iteration in iterations:
            await wait_until(
                partial(is_published, database, iteration), what="the end to be recorded"
            )
    assert await published_ends(bus) == ["iteration.failed"] * 2


async def test_the_reconciler_publishes_the_end_after_a_kill_of_the_aggregator(
    impatient: Settings, database: Database, bus: Bus, tmp_path: Path
) -> None:
    iteration = await plan_iteration(database)
    [plan] = await end_events(database, iteration, StepKind.OBSERVE)
    await bus.publish(plan)
    arm(tmp_path, Failpoint.STATE_COMMITTED)
    aggregator = await start_python(
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
    assert (await reload_iteration(database, iteration)).status == IterationStatus.COMPLETED
    assert await published_ends(bus) == []
    async with running_services(impatient, ("scheduler",)):
        await wait_until(lambda: is_published(database, iteration), what="the end to be recorded")
    assert await published_ends(bus) == ["iteration.completed"]


async def test_a_published_end_is_not_republished(
    impatient: Settings, database: Database, bus: Bus
) -> None:
    first, second = [await overdue(database, name) for name in ("first", "second")]
    aggregate = Aggregate(database)
    await bus.publish_all(await aggregate.pass_deadline(first.id, 60))
    async with running_services(impatient, ("scheduler",)):
        await wait_until(lambda: is_published(database, first), what="the end to be recorded")
        await aggregate.pass_deadline(second.id, 60)
        # By then the first is old enough to be republished too.
        await wait_until(
            lambda: is_published(database, second), what="the other's end to be recorded"
        )
    assert [
        (await reload_iteration(database, iteration)).end_republish_count
        for iteration in (first, second)
    ] == [0, 1]
    assert await published_ends(bus) == ["iteration.failed"] * 2


async def test_an_unconsumed_end_is_republished_with_growing_delay(database: Database) -> None:
    iteration = await overdue(database, "unheard")
    await Aggregate(database).pass_deadline(iteration.id, 60)
    assert await republished_events(database) == []
    await change(database, iteration, ended_at=ago(100 * GRACE_SECONDS))
    republished = [await republished_events(database)]
    for grace_periods in (1.5, 2.5, 3.5, 4.5):
        await change(database, iteration, end_republished_at=ago(grace_periods * GRACE_SECONDS))
        republished.append(await republished_events(database))
    assert [[number for _, number in events] for events in republished] == [[1], [], [2], [], [3]]


async def test_a_deadline_that_cannot_be_applied_blocks_no_other(
    database: Database, bus: Bus
) -> None:
    unreadable, other = [await overdue(database, name) for name in ("unreadable", "other")]
    steps = Step.iteration_id == unreadable.id
    async with database.transaction() as session:
        values = {"status": StepStatus.COMPLETED, "result": ["not what a result is"]}
        await session.execute(update(Step).where(steps).values(**values))
    with capture_logs() as lines:
        await Deadlines(database, bus, Aggregate(database), 0.0).end_stalled()
    assert (await reload_iteration(database, other)).status == IterationStatus.FAILED
    assert [line["event"] for line in lines if line["log_level"] == "error"] == ["unexpected error"]
