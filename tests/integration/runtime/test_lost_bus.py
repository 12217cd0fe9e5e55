"""A lost stream, consumer or database, and stopping."""

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import func, select

from services.scheduler import scheduler as clock_module
from services.scheduler import stream_keeper
from shared.database.engine import Database
from shared.database.tables import Call, DeadLetter, Iteration, Step
from shared.enums import IterationStatus, StepKind, StepStatus
from shared.errors import RetrySoonError
from shared.events.topology import CONSUMERS, STREAM
from shared.runtime import database_probe
from shared.runtime.bus import Bus
from shared.runtime.provision import provision_stream
from shared.runtime.settings import Settings
from shared.telemetry import metrics
from tests.support.factories import make_agent
from tests.support.marks import slow
from tests.support.running_services import BUILDERS, running_services
from tests.support.sandbox_control import Sandbox
from tests.support.waiting import wait_until

AGENTS = 3
QUERIES = 2
LLM_CALLS = AGENTS * (1 + 3 * QUERIES + 1)
"""One of the Observer, four for each query, whose idle phases are asked once more, and one of the insight."""
CALLS = LLM_CALLS + AGENTS * QUERIES
"""With the searches that are made on behalf of the model."""
QUERY = {"objective": "lithium", "reasoning": "why not", "searchHints": ["lithium"]}
INSIGHT = {"observation": "it moves", "relevantNodeIds": [], "synthesisDirection": "where to"}
IDLE_PHASES = ("knowledge_acquisition", "graph_construction", "analysis_generation")


@dataclass(frozen=True)
class Watch:
    """The first iterations of a few agents, all with the same plan."""

    settings: Settings
    database: Database
    bus: Bus
    sandbox_control: Sandbox

    async def count(self, *conditions: Any) -> int:
        """The number of rows that match, in the table of the conditions."""
        async with self.database.transaction() as session:
            count = await session.scalar(select(func.count()).where(*conditions))
        return count or 0

    async def at_work(self) -> bool:
        """Whether some queries are running and others are pending."""
        queries = Step.kind == StepKind.QUERY
        working = await self.count(queries, Step.status == StepStatus.RUNNING)
        return bool(working and await self.count(queries, Step.status == StepStatus.PENDING))

    async def all_ended(self) -> bool:
        return await self.count(Iteration.end_published_at.is_not(None)) == AGENTS

    async def message_count(self, subject: str) -> int:
        """The number of messages of that subject in the stream."""
        state = (await self.bus.jetstream.stream_info(STREAM, subjects_filter=subject)).state
        return (state.subjects or {}).get(subject, 0)

    async def assert_complete(self) -> None:
        """Asserts that every iteration completed once and every call was paid once."""
        assert await self.count(Iteration.id.is_not(None)) == AGENTS
        async with self.database.transaction() as session:
            iterations = list(await session.scalars(select(Iteration)))
            steps = list(await session.scalars(select(Step)))
        assert {(iteration.status, *iteration.errors) for iteration in iterations} == {
            (IterationStatus.COMPLETED,)
        }
        assert {step.status for step in steps} == {StepStatus.COMPLETED}
        assert Counter(step.kind for step in steps) == {
            StepKind.OBSERVE: AGENTS,
            StepKind.QUERY: AGENTS * QUERIES,
            StepKind.INSIGHT: AGENTS,
        }
        assert await self.count(Call.answered_at.is_not(None)) == CALLS
        assert self.sandbox_control.billed()["llm"] == LLM_CALLS
        assert await self.count(DeadLetter.id.is_not(None)) == 0


@pytest.fixture
async def watch(
    sandbox_settings: Settings,
    database: Database,
    bus: Bus,
    sandbox_control: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
) -> Watch:
    """No iteration has started; every agent is due; the model is slow; the reconciler acts soon."""
    monkeypatch.setattr(clock_module, "RECONCILE_SECONDS", 0.2)
    plan = {"queries": [QUERY | {"objective": f"lithium {n}"} for n in range(QUERIES)]}
    sandbox_control.script(
        {"phase": "observer", "content": plan | {"insights": [INSIGHT]}, "times": AGENTS}
    )
    for phase in IDLE_PHASES:
        sandbox_control.script({"phase": phase, "content": "Nothing.", "times": None})
    sandbox_control.faults({"kind": "latency", "latency_seconds": 0.1, "always": True})
    for number in range(AGENTS):
        await make_agent(database, name=f"Watch {number}")
    settings = sandbox_settings.model_copy(
        update={
            "resend_after_seconds": 0.5,
            "concurrency": 2,
            "drain_seconds": 10.0,
            "model_tool_choice": "never",
        }
    )
    return Watch(settings, database, bus, sandbox_control)


@pytest.mark.parametrize("target", ["stream", *slow("consumers", "researcher", "aggregator")])
async def test_a_stream_or_consumer_that_is_deleted_and_recreated_at_once(
    watch: Watch, target: str
) -> None:
    async with running_services(watch.settings):
        await wait_until(watch.at_work, what="queries to be worked on and others to wait")
        await lose(watch.bus, target)
        await provision_stream(watch.settings)
        await wait_until(watch.all_ended, what="every iteration to end, and its end to be recorded")
    await watch.assert_complete()


@pytest.mark.parametrize("target", ["stream", *slow("consumers", "scheduler"), "researcher"])
async def test_the_scheduler_creates_a_lost_stream_or_consumer_again(
    watch: Watch, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_keeper, "CHECK_SECONDS", 0.1)
    async with running_services(watch.settings):
        await wait_until(watch.at_work, what="queries to be worked on and others to wait")
        await lose(watch.bus, target)
        await wait_until(watch.all_ended, what="every iteration to end, and its end to be recorded")
    await watch.assert_complete()


async def test_services_that_start_without_a_stream_get_one(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a restart of everything on an empty volume of NATS."""
    monkeypatch.setattr(stream_keeper, "CHECK_SECONDS", 0.1)
    await lose(watch.bus, "stream")
    async with running_services(watch.settings):
        await wait_until(watch.all_ended, what="every iteration to end, and its end to be recorded")
    await watch.assert_complete()


async def lose(bus: Bus, target: str) -> None:
    if target == "stream":
        await bus.jetstream.delete_stream(STREAM)
        return
    for name in CONSUMERS if target == "consumers" else [target]:
        await bus.jetstream.delete_consumer(STREAM, name)


@pytest.mark.parametrize(
    ("subject", "consumer", "times"),
    [
        pytest.param("iteration.started", "observer", AGENTS, marks=pytest.mark.slow),
        pytest.param("plan.produced", "aggregator", AGENTS, marks=pytest.mark.slow),
        ("query.requested", "researcher", AGENTS * QUERIES),
        pytest.param("query.completed", "aggregator", AGENTS * QUERIES, marks=pytest.mark.slow),
        pytest.param("insight.requested", "analyzer", AGENTS, marks=pytest.mark.slow),
        ("iteration.completed", "scheduler", AGENTS),
    ],
)
async def test_messages_that_are_purged_before_they_are_consumed(
    watch: Watch, subject: str, consumer: str, times: int
) -> None:
    async def all_published(published_subject: str, number: int) -> bool:
        return await watch.message_count(published_subject) >= number

    async with running_services(watch.settings, ("scheduler",)):
        await wait_until(
            lambda: all_published("iteration.started", AGENTS), what="all to be started"
        )
    async with running_services(watch.settings, [name for name in BUILDERS if name != consumer]):
        await wait_until(lambda: all_published(subject, times), what=f"{times} of {subject}")
    # All subjects of the consumer: any remaining event would make the join read the others.
    for event in CONSUMERS[consumer].subscribes_to:
        await watch.bus.jetstream.purge_stream(STREAM, subject=event.subject)
    assert await watch.message_count(subject) == 0
    async with running_services(watch.settings):
        await wait_until(watch.all_ended, what="every iteration to end, and its end to be recorded")
    await watch.assert_complete()


async def test_a_service_stops_though_a_cancellation_during_its_start_was_lost(
    settings: Settings, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    connecting = asyncio.Event()
    connect = Bus.connect

    async def connect_ignoring_cancellation(self: Bus) -> None:
        connecting.set()
        with suppress(asyncio.CancelledError):  # as asyncio.wait_for does before Python 3.12
            await asyncio.Event().wait()
        await connect(self)

    monkeypatch.setattr(Bus, "connect", connect_ignoring_cancellation)
    running = asyncio.create_task(BUILDERS["scheduler"](settings).run())
    await connecting.wait()
    running.cancel()
    done, _ = await asyncio.wait({running}, timeout=30)
    assert done
    assert running.cancelled()


async def never_ends() -> None:
    await asyncio.Event().wait()


async def is_broken() -> None:
    raise KeyError("a column is missing")


async def is_cut() -> None:
    raise RetrySoonError("PostgreSQL: the connection is closed")


def database_up() -> float | None:
    return metrics.REGISTRY.get_sample_value("vigil_database_up")


def clock_skew() -> float:
    value = metrics.REGISTRY.get_sample_value("vigil_clock_skew_seconds")
    assert value is not None
    return value


@pytest.mark.parametrize(
    ("further", "is_up"), [(never_ends, True), (is_broken, True), (is_cut, False)]
)
async def test_postgres_is_up_if_it_answers_whatever_the_state_of_the_installation_takes(
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    further: Callable[[], Awaitable[None]],
    is_up: bool,
) -> None:
    monkeypatch.setattr(database_probe, "PROBE_SECONDS", 1.0)
    await database.ping()  # a first connection may take long
    await database_probe.probe([database], [further])
    assert database_up() == is_up
    assert math.isnan(clock_skew()) != is_up
    await database_probe.probe([database])
    assert database_up() == 1
    assert abs(clock_skew()) < 1
