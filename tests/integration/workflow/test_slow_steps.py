"""Slow steps are not disturbed: no other worker claims them, and their messages are republished with growing delay."""

import pytest
from sqlalchemy import select

from services.observer.prompts import MAX_QUERIES
from services.scheduler import scheduler as clock_module
from services.scheduler.reconciler import MAX_DOUBLINGS
from shared.database.engine import Database
from shared.database.tables import Step
from shared.enums import IterationStatus, StepKind
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.factories import make_agent, make_node, wake
from tests.support.running_services import BUILDERS, ended_iteration, running_services
from tests.support.sandbox_control import Sandbox
from tests.support.scheduling import republished_ids
from tests.support.steps import published_subjects

REPUBLISH_SECONDS = 0.5
LEASE_SECONDS = 3.0
EMPTY: dict[str, object] = {"queries": [], "insights": []}


@pytest.fixture
def impatient(sandbox_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(clock_module, "RECONCILE_SECONDS", 0.1)
    return sandbox_settings.model_copy(update={"resend_after_seconds": REPUBLISH_SECONDS})


async def steps_of(database: Database, kind: StepKind) -> list[Step]:
    async with database.transaction() as session:
        return list(await session.scalars(select(Step).where(Step.kind == kind)))


async def test_a_call_longer_than_the_lease_and_the_republish_delay_is_left_alone(
    impatient: Settings, database: Database, bus: Bus, sandbox_control: Sandbox
) -> None:
    sandbox_control.script({"phase": "observer", "content": EMPTY})
    sandbox_control.faults({"kind": "latency", "latency_seconds": 2 * LEASE_SECONDS})
    agent = await make_agent(database, active=False)
    await make_node(database, agent)
    short = impatient.model_copy(update={"lease_seconds": LEASE_SECONDS})
    async with running_services(short, ("scheduler", "aggregator", *["observer"] * 3)):
        # Only now: the reconciler's delay is shorter than the start of five services on a loaded machine.
        await wake(database, agent)
        iteration = await ended_iteration(database, agent, 1)
    assert (iteration.status, iteration.errors) == (IterationStatus.COMPLETED, [])
    [observe] = await steps_of(database, StepKind.OBSERVE)
    assert (observe.epoch, observe.republish_count, observe.attempts) == (1, 0, 0)
    assert await published_subjects(bus) == [
        "iteration.started",
        "plan.produced",
        "iteration.completed",
    ]
    assert sandbox_control.billed()["llm"] == 1


def max_republishes(waited_seconds: float) -> int:
    """How often a step may be republished in that time: the delay doubles each time, up to a maximum."""
    republishes = 0
    while (waited_seconds := waited_seconds - _wait_seconds(republishes)) >= 0:
        republishes += 1
    return republishes


def _wait_seconds(republishes: int) -> float:
    return float(REPUBLISH_SECONDS * 2 ** min(republishes, MAX_DOUBLINGS))


@pytest.mark.slow
async def test_steps_in_a_long_queue_are_republished_a_few_times_and_run_once(
    impatient: Settings, database: Database, bus: Bus, sandbox_control: Sandbox
) -> None:
    queries = [
        {"objective": f"lithium {n}", "reasoning": "why not", "searchHints": []}
        for n in range(MAX_QUERIES)
    ]
    sandbox_control.script({"phase": "observer", "content": EMPTY | {"queries": queries}})
    sandbox_control.script(
        {"phase": "knowledge_acquisition", "content": "Nothing found.", "times": None}
    )
    sandbox_control.script(
        {"phase": "graph_construction", "content": "Nothing to add.", "times": None}
    )
    sandbox_control.faults({"kind": "latency", "latency_seconds": 0.15, "always": True})
    agent = await make_agent(database)
    settings_by_service = dict.fromkeys(BUILDERS, impatient)
    settings_by_service["researcher"] = impatient.model_copy(
        update={"concurrency": 1, "model_tool_choice": "never"}
    )
    async with running_services(settings_by_service):
        iteration = await ended_iteration(database, agent, 1)
    assert (iteration.status, iteration.errors) == (IterationStatus.COMPLETED, [])
    query_steps = await steps_of(database, StepKind.QUERY)
    assert {step.epoch for step in query_steps} == {1}
    # Acquisition did nothing and was asked once more; for construction code chooses no facts, because there are no types.
    assert (sandbox_control.billed()["llm"], sandbox_control.repeated()) == (1 + 3 * MAX_QUERIES, 0)
    assert max(step.republish_count for step in query_steps) > 1, "the queue was long"
    for step in query_steps:
        assert step.started_at is not None
        assert step.first_requested_at is not None
        seconds = (step.started_at - step.first_requested_at).total_seconds()
        assert step.republish_count <= max_republishes(seconds)
    assert len(await republished_ids(bus)) == sum(step.republish_count for step in query_steps)
