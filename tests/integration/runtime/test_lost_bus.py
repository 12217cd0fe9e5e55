"""The bus loses messages, a consumer, everything: iterations under way still end, each once, and nothing is paid twice."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import func, select

from services.scheduler import scheduler as clock_module
from shared.database.engine import Database
from shared.database.tables import Call, DeadLetter, Iteration, Step
from shared.enums import IterationStatus, StepKind, StepStatus
from shared.events.topology import CONSUMERS, STREAM
from shared.runtime import consumer as actor_module
from shared.runtime.bus import Bus
from shared.runtime.provision import provision_stream
from shared.runtime.settings import Settings
from tests.support.actors import BUILDERS, running, supervised
from tests.support.levers import Sandbox
from tests.support.making import make_agent
from tests.support.marks import slow
from tests.support.waiting import until

AGENTS = 3
QUERIES = 2
LLM_CALLS = AGENTS * (1 + 4 * QUERIES + 1)
"""The Observer's, four for each query, whose phases are asked once more where they did nothing, and the insight's."""
CALLS = LLM_CALLS + AGENTS * QUERIES
"""With the searches that are made where the model makes none."""
QUERY = {"objective": "lithium", "reasoning": "why not", "searchHints": ["lithium"]}
INSIGHT = {"observation": "it moves", "relevantNodeIds": [], "synthesisDirection": "where to"}
NOTHING = ("knowledge_acquisition", "graph_construction", "analysis_generation")


@dataclass(frozen=True)
class Watch:
    """A few agents' first iterations, each of the same plan."""

    settings: Settings
    database: Database
    bus: Bus
    levers: Sandbox

    async def count(self, *wanted: Any) -> int:
        """Rows of the first one's table that match."""
        async with self.database.transaction() as session:
            found = await session.scalar(select(func.count()).where(*wanted))
        return found or 0

    async def at_work(self) -> bool:
        """Queries are worked on, and others wait."""
        queries = Step.kind == StepKind.QUERY
        working = await self.count(queries, Step.status == StepStatus.RUNNING)
        return bool(working and await self.count(queries, Step.status == StepStatus.PENDING))

    async def all_ended(self) -> bool:
        return await self.count(Iteration.end_published_at.is_not(None)) == AGENTS

    async def told(self, subject: str) -> int:
        """How many messages of that subject the stream holds."""
        found = (await self.bus.jetstream.stream_info(STREAM, subjects_filter=subject)).state
        return (found.subjects or {}).get(subject, 0)

    async def is_whole(self) -> None:
        """Fails unless every iteration ended once, well, and every call was paid once."""
        assert await self.count(Iteration.id.is_not(None)) == AGENTS
        async with self.database.transaction() as session:
            iterations = list(await session.scalars(select(Iteration)))
            steps = list(await session.scalars(select(Step)))
        assert {(each.status, *each.errors) for each in iterations} == {
            (IterationStatus.COMPLETED,)
        }
        assert {step.status for step in steps} == {StepStatus.COMPLETED}
        assert Counter(step.kind for step in steps) == {
            StepKind.OBSERVE: AGENTS,
            StepKind.QUERY: AGENTS * QUERIES,
            StepKind.INSIGHT: AGENTS,
        }
        assert await self.count(Call.answered_at.is_not(None)) == CALLS
        assert self.levers.billed()["llm"] == LLM_CALLS
        assert await self.count(DeadLetter.id.is_not(None)) == 0


@pytest.fixture
async def watch(
    sandbox_settings: Settings,
    database: Database,
    bus: Bus,
    levers: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
) -> Watch:
    """Nothing has begun; every agent is due; the model is slow; the reconciler is not patient."""
    monkeypatch.setattr(clock_module, "RECONCILE_SECONDS", 0.2)
    plan = {"queries": [QUERY | {"objective": f"lithium {n}"} for n in range(QUERIES)]}
    levers.script({"phase": "observer", "content": plan | {"insights": [INSIGHT]}, "times": AGENTS})
    for phase in NOTHING:
        levers.script({"phase": phase, "content": "Nothing.", "times": None})
    levers.faults({"kind": "latency", "latency_seconds": 0.1, "always": True})
    for number in range(AGENTS):
        await make_agent(database, name=f"Watch {number}")
    settings = sandbox_settings.model_copy(
        update={"resend_after_seconds": 0.5, "slots": 2, "drain_seconds": 10.0}
    )
    return Watch(settings, database, bus, levers)


@pytest.mark.parametrize("lost", ["stream", *slow("consumers", "researcher", "aggregator")])
async def test_what_is_deleted_and_made_again_at_once(watch: Watch, lost: str) -> None:
    async with supervised(watch.settings):
        await until(watch.at_work, what="queries to be worked on and others to wait")
        await lose(watch.bus, lost)
        await provision_stream(watch.settings)
        await until(watch.all_ended, what="every iteration to end, and its end to be heard")
    await watch.is_whole()


@pytest.mark.parametrize("lost", [*slow("stream"), "consumers"])
async def test_what_stays_away_until_every_actor_has_given_up(
    watch: Watch, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actor_module, "WATCH_SECONDS", 0.2)
    async with supervised(watch.settings) as gave_up:
        await until(watch.at_work, what="queries to be worked on and others to wait")
        await lose(watch.bus, lost)
        await until(lambda: everybody(gave_up), what="every actor to give up")
        await provision_stream(watch.settings)
        await until(watch.all_ended, what="every iteration to end, and its end to be heard")
    await watch.is_whole()


async def lose(bus: Bus, lost: str) -> None:
    if lost == "stream":
        await bus.jetstream.delete_stream(STREAM)
        return
    for name in CONSUMERS if lost == "consumers" else [lost]:
        await bus.jetstream.delete_consumer(STREAM, name)


async def everybody(gave_up: Counter[str]) -> bool:
    return set(gave_up) == set(BUILDERS)


@pytest.mark.parametrize(
    ("subject", "hears", "times"),
    [
        pytest.param("iteration.started", "observer", AGENTS, marks=pytest.mark.slow),
        pytest.param("plan.produced", "aggregator", AGENTS, marks=pytest.mark.slow),
        ("query.requested", "researcher", AGENTS * QUERIES),
        pytest.param("query.completed", "aggregator", AGENTS * QUERIES, marks=pytest.mark.slow),
        pytest.param("insight.requested", "analyzer", AGENTS, marks=pytest.mark.slow),
        ("iteration.completed", "scheduler", AGENTS),
    ],
)
async def test_what_is_purged_before_anybody_heard_it(
    watch: Watch, subject: str, hears: str, times: int
) -> None:
    async def all_told(what: str, number: int) -> bool:
        return await watch.told(what) >= number

    async with running(watch.settings, ("scheduler",)):
        await until(lambda: all_told("iteration.started", AGENTS), what="all to be started")
    async with running(watch.settings, [name for name in BUILDERS if name != hears]):
        await until(lambda: all_told(subject, times), what=f"{times} of {subject}")
    # All of it: any one of them would tell the join of the others.
    for event in CONSUMERS[hears].subscribes_to:
        await watch.bus.jetstream.purge_stream(STREAM, subject=event.subject)
    assert await watch.told(subject) == 0
    async with running(watch.settings):
        await until(watch.all_ended, what="every iteration to end, and its end to be heard")
    await watch.is_whole()
