"""What is merely slow is not disturbed: nobody else claims it, and asked for again as often as patience has it."""

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
from tests.support.actors import BUILDERS, ended_iteration, running
from tests.support.levers import Sandbox
from tests.support.making import make_agent, make_node, wake
from tests.support.scheduling import resent
from tests.support.steps import subjects_told

PATIENCE_SECONDS = 0.5
LEASE_SECONDS = 3.0
EMPTY: dict[str, object] = {"queries": [], "insights": []}


@pytest.fixture
def impatient(sandbox_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(clock_module, "RECONCILE_SECONDS", 0.1)
    return sandbox_settings.model_copy(update={"resend_after_seconds": PATIENCE_SECONDS})


async def steps_of(database: Database, kind: StepKind) -> list[Step]:
    async with database.transaction() as session:
        return list(await session.scalars(select(Step).where(Step.kind == kind)))


async def test_a_call_that_outlasts_lease_and_patience_is_left_alone(
    impatient: Settings, database: Database, bus: Bus, levers: Sandbox
) -> None:
    levers.script({"phase": "observer", "content": EMPTY})
    levers.faults({"kind": "latency", "latency_seconds": 2 * LEASE_SECONDS})
    agent = await make_agent(database, active=False)
    await make_node(database, agent)
    short = impatient.model_copy(update={"lease_seconds": LEASE_SECONDS})
    async with running(short, ("scheduler", "aggregator", *["observer"] * 3)):
        # Only now: the patience of the reconciler is shorter than the start of five actors on a loaded machine.
        await wake(database, agent)
        done = await ended_iteration(database, agent, 1)
    assert (done.status, done.errors) == (IterationStatus.COMPLETED, [])
    [observe] = await steps_of(database, StepKind.OBSERVE)
    assert (observe.epoch, observe.republish_count, observe.attempts) == (1, 0, 0)
    assert await subjects_told(bus) == ["iteration.started", "plan.produced", "iteration.completed"]
    assert levers.billed()["llm"] == 1


def most_resends(waited_seconds: float) -> int:
    """How often a step may be asked for again in that time: the wait doubles each time, up to a point."""
    times = 0
    while (waited_seconds := waited_seconds - _wait_seconds(times)) >= 0:
        times += 1
    return times


def _wait_seconds(resends: int) -> float:
    return float(PATIENCE_SECONDS * 2 ** min(resends, MAX_DOUBLINGS))


@pytest.mark.slow
async def test_a_long_queue_is_asked_for_a_few_times_and_worked_on_once(
    impatient: Settings, database: Database, bus: Bus, levers: Sandbox
) -> None:
    queries = [
        {"objective": f"lithium {n}", "reasoning": "why not", "searchHints": []}
        for n in range(MAX_QUERIES)
    ]
    levers.script({"phase": "observer", "content": EMPTY | {"queries": queries}})
    levers.script({"phase": "knowledge_acquisition", "content": "Nothing found.", "times": None})
    levers.script({"phase": "graph_construction", "content": "Nothing to add.", "times": None})
    levers.faults({"kind": "latency", "latency_seconds": 0.15, "always": True})
    agent = await make_agent(database)
    each = dict.fromkeys(BUILDERS, impatient)
    each["researcher"] = impatient.model_copy(update={"slots": 1})
    async with running(each):
        done = await ended_iteration(database, agent, 1)
    assert (done.status, done.errors) == (IterationStatus.COMPLETED, [])
    waited = await steps_of(database, StepKind.QUERY)
    assert {step.epoch for step in waited} == {1}
    # Both phases did nothing, and were asked once more.
    assert (levers.billed()["llm"], levers.repeated()) == (1 + 4 * MAX_QUERIES, 0)
    assert max(step.republish_count for step in waited) > 1, "the queue was long"
    for step in waited:
        assert step.started_at is not None
        assert step.first_requested_at is not None
        seconds = (step.started_at - step.first_requested_at).total_seconds()
        assert step.republish_count <= most_resends(seconds)
    assert len(await resent(bus)) == sum(step.republish_count for step in waited)
