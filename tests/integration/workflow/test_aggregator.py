"""The join against the real state: under concurrency, redelivery, and kills."""

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import func, select, update
from structlog.testing import capture_logs

from services.aggregator.deadlines import Deadlines
from services.aggregator.handler import Aggregate
from services.scheduler import scheduler as clock_module
from shared import derived_events
from shared.database import ids
from shared.database.engine import Database
from shared.database.tables import (
    Call,
    Conversation,
    DeadLetter,
    GraphNode,
    InboxItem,
    InvestigationRequest,
    Iteration,
    Message,
    Step,
)
from shared.database.transaction import Transaction
from shared.enums import ADVICE_TYPE, IterationStatus, Stage, StepKind, StepStatus
from shared.errors import TransientError
from shared.events.envelope import Event
from shared.events.models import IterationCompleted, IterationFailed, QueryCompleted
from shared.events.topology import CONSUMERS
from shared.failpoints import Failpoint
from shared.graph.scope import GraphScope
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from shared.tools import Json
from shared.workflow import leases, steps
from shared.workflow.iterations import IterationRow
from shared.workflow.leases import LeaseLostError
from tests.support import claims, table_rows
from tests.support.canonical_graph import canonical, graph_fingerprint
from tests.support.failpoints import arm
from tests.support.joins import end_events, plan_iteration, reload_iteration, subjects
from tests.support.mission import Mission
from tests.support.running_services import (
    BUILDERS,
    ended_iteration,
    is_idle,
    list_events,
    running_services,
)
from tests.support.sandbox_control import Sandbox
from tests.support.scheduling import GRACE_SECONDS, ago, change, overdue, republished_events
from tests.support.seeds import repeatable
from tests.support.steps import published_subjects
from tests.support.waiting import wait_until
from tests.support.warm_processes import start_python

_VARYING_FIELDS = {"event_id", "occurred_at", "cost_usd"}
"""An iteration's cost depends on the length of its mission's text; `is_whole` compares it with the ledger."""


@dataclass(frozen=True)
class IterationResult:
    knowledge: Json
    knowledge_hash: str
    ended: tuple[str, list[str]]
    steps: list[str]
    inbox: list[str]
    conversation: list[str]
    dead_letters: list[str]
    calls: Counter[str]
    """Number of calls in the ledger, by phase."""
    event_texts: list[str]
    """The distinct events, whatever the number of their copies."""
    event_ids: set[UUID] = field(compare=False)
    cost_usd: float = field(compare=False)
    """The cost in the ledger."""
    event_costs_usd: set[float | None] = field(compare=False)

    def is_whole(self) -> bool:
        """Whether it completed once, at the ledger's cost, and each event has exactly one id and one content."""
        ends = [text for text in self.event_texts if text.startswith('["iteration.completed"')]
        return (
            self.ended[0] == "completed"
            and len(ends) == 1
            and self.event_costs_usd == {self.cost_usd}
            and len(self.event_ids) == len(self.event_texts)
        )


async def load_iteration_result(
    session: Transaction, mission: Mission, stream: Sequence[Event]
) -> IterationResult:
    """`stream` has the events on the stream, of any agent."""
    agent = mission.agent
    scope = GraphScope(agent.owner_id, agent.id)
    iteration = (await session.scalars(select(Iteration).filter_by(agent_id=agent.id))).one()
    requests = await session.scalars(select(InvestigationRequest).filter_by(agent_id=agent.id))
    names = await _names(session, mission, iteration)
    names = {**names, **{str(each.id): f"request {each.objective}" for each in requests}}
    steps = await session.scalars(select(Step).filter_by(agent_id=agent.id))
    items = await session.scalars(select(InboxItem).filter_by(agent_id=agent.id))
    messages = await session.scalars(
        select(Message).join(Conversation).where(Conversation.agent_id == agent.id)
    )
    dead_letters = await session.scalars(
        select(DeadLetter).join(Step).where(Step.agent_id == agent.id)
    )
    calls = list(await session.scalars(select(Call).filter_by(agent_id=agent.id)))
    events = [event for event in stream if event.agent_id == agent.id]
    return IterationResult(
        knowledge=await canonical(session, scope),
        knowledge_hash=await graph_fingerprint(session, scope),
        ended=(iteration.status, iteration.errors),
        steps=_json_texts(names, ([s.kind, s.index, s.status, s.error, s.result] for s in steps)),
        inbox=_json_texts(names, ([item.title, item.summary] for item in items)),
        conversation=_json_texts(names, ([message.role, message.content] for message in messages)),
        dead_letters=_json_texts(
            names,
            (
                [dead_letter.service, dead_letter.code, dead_letter.error]
                for dead_letter in dead_letters
            ),
        ),
        calls=Counter(call.phase for call in calls),
        event_texts=sorted(set(_json_texts(names, (_facts(event) for event in events)))),
        event_ids={event.event_id for event in events},
        cost_usd=float(sum(call.cost_usd or 0 for call in calls)),
        event_costs_usd={e.cost_usd for e in events if isinstance(e, IterationCompleted)},
    )


async def _names(session: Transaction, mission: Mission, iteration: Iteration) -> Mapping[str, str]:
    """Replacements for the ids and roots of this agent, and for its mission's unique tag."""
    agent_id = mission.agent.id
    steps = await session.scalars(select(Step).filter_by(agent_id=agent_id))
    nodes = await session.scalars(select(GraphNode).filter_by(agent_id=agent_id))
    names = {mission.tag: "tag", str(agent_id): "agent", str(iteration.id): "iteration"}
    names |= {str(step.id): f"{step.kind} {step.index}" for step in steps}
    if iteration.graph_root is not None:
        names[iteration.graph_root.hex()] = "root at its end"
    return names | {str(node.id): f"{node.type} {node.name}" for node in nodes}


def _facts(event: Event) -> list[Any]:
    return [event.subject, event.model_dump(mode="json", exclude=_VARYING_FIELDS)]


def _json_texts(names: Mapping[str, str], values: Iterable[Any]) -> list[str]:
    """The values as sorted JSON texts, with ids replaced by names."""
    texts = [json.dumps(value, sort_keys=True) for value in values]
    for id_, name in names.items():
        texts = [text.replace(id_, name) for text in texts]
    return sorted(texts)


MAX_COPIES = 5
MAX_PAUSE_SECONDS = 0.03
"""The longest pause between two deliveries of one agent's events, in which later events may overtake."""
LATE_SHARE = 0.25
"""Share of the repeated copies that are held back until `deliver_rest`."""
FIRST_NUMBER = 1000
"""First number in the copies' message ids, which differ from the reconciler's."""

Deliver = Callable[[Event, int], Awaitable[None]]


class EventShuffler:
    """Holds the events of one agent, and delivers them at random."""

    def __init__(self, deliver: Deliver, seed: int) -> None:
        self.contradictions: list[tuple[Event, Event]] = []
        """Events that were published again with different content."""
        self._deliver = deliver
        self._random = Random(seed)
        self._first_events: dict[UUID, Event] = {}
        self._held: list[tuple[Event, int]] = []
        self._held_back: list[tuple[Event, int]] = []
        self._has_events = asyncio.Event()

    def take(self, event: Event) -> None:
        """Accept a published event. A repeated one is dropped, as by the bus itself."""
        first = self._first_events.setdefault(event.event_id, event)
        if first is not event:
            if first != event:
                self.contradictions.append((first, event))
            return
        for number in range(self._random.randint(1, MAX_COPIES)):
            is_late = number > 0 and self._random.random() < LATE_SHARE
            (self._held_back if is_late else self._held).append((event, number))
        self._has_events.set()

    def deliver_rest(self) -> None:
        self._held += self._held_back
        self._held_back.clear()
        if self._held:
            self._has_events.set()

    async def is_silent(self) -> bool:
        return not self._has_events.is_set()

    async def deliver_events(self) -> None:
        """Deliver events until cancelled."""
        while True:
            await self._has_events.wait()
            await asyncio.sleep(self._random.uniform(0, MAX_PAUSE_SECONDS))
            event, number = self._held.pop(self._random.randrange(len(self._held)))
            await self._deliver(event, FIRST_NUMBER + number)
            if not self._held:
                self._has_events.clear()


@asynccontextmanager
async def shuffled(
    bus: Bus, seeds: Mapping[UUID, int], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[list[EventShuffler]]:
    """Disorder every bus of this process for these agents, each by its own seed, during the block."""
    publish = Bus.publish

    async def deliver(event: Event, number: int) -> None:
        await publish(bus, event, resend=number)

    disorders = {agent_id: EventShuffler(deliver, seed) for agent_id, seed in seeds.items()}

    async def publish_shuffled(services: Bus, event: Event, *, resend: int = 0) -> None:
        if resend:  # the reconciler republishes missed messages
            await publish(services, event, resend=resend)
        else:
            disorders[event.agent_id].take(event)

    tasks = [asyncio.create_task(shuffler.deliver_events()) for shuffler in disorders.values()]
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Bus, "publish", publish_shuffled)
            yield list(disorders.values())
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def end(database: Database, iteration: Iteration, kind: StepKind, **result: object) -> None:
    """Ends every step of that kind with `result`, in the state only."""
    async with database.transaction() as session:
        for step in await steps.list_steps(session, iteration.id, kind):
            claim = await claims.claimed(session, step.id, "worker")
            await steps.end(session, claim.lease, dict(result))


async def test_twenty_steps_that_end_together_join_once(database: Database) -> None:
    aggregate = Aggregate(database)
    iteration = await plan_iteration(database, queries=20, insights=1)
    await end(database, iteration, StepKind.QUERY, nodes=1, edges=0)
    ends = await end_events(database, iteration, StepKind.QUERY)
    event_lists = await asyncio.gather(*(aggregate(end_event) for end_event in ends))
    ids = {event.event_id for events in event_lists for event in events}
    assert len(ids) == 1, "repeated publishing makes one request"
    assert (await reload_iteration(database, iteration)).stage == Stage.ANALYZING


async def test_an_end_that_changes_nothing_waits_for_no_lock(database: Database) -> None:
    iteration = await plan_iteration(database, queries=2, insights=1)
    async with database.transaction() as session:
        [first, _] = await steps.list_steps(session, iteration.id, StepKind.QUERY)
        claim = await claims.claimed(session, first.id, "worker")
        ended = await steps.end(session, claim.lease, {"nodes": 1, "edges": 0})
        [end_event] = await derived_events.events_after_step(session, ended)
    async with database.transaction() as other_session:
        locked = select(Iteration).where(Iteration.id == iteration.id).with_for_update()
        assert await other_session.scalar(locked)
        async with asyncio.timeout(10):
            assert list(await Aggregate(database)(end_event)) == []
    assert (await reload_iteration(database, iteration)).stage == Stage.RESEARCHING


async def test_a_plan_with_queries_causes_no_event(database: Database) -> None:
    iteration = await plan_iteration(database, queries=1, insights=1)
    [plan] = await end_events(database, iteration, StepKind.OBSERVE)
    assert list(await Aggregate(database)(plan)) == []
    assert (await reload_iteration(database, iteration)).stage == Stage.RESEARCHING


async def test_a_redelivered_event_causes_the_same_events(database: Database) -> None:
    aggregate = Aggregate(database)
    iteration = await plan_iteration(database)
    [plan] = await end_events(database, iteration, StepKind.OBSERVE)
    first, again = [list(await aggregate(plan)) for _ in range(2)]
    assert subjects(first) == ["iteration.completed"]
    assert first == again


async def test_the_adviser_gets_every_analysis_and_its_end_completes_the_iteration(
    database: Database,
) -> None:
    aggregate = Aggregate(database)
    iteration = await plan_iteration(database, insights=2)
    [plan] = await end_events(database, iteration, StepKind.OBSERVE)
    assert subjects(list(await aggregate(plan))) == ["insight.requested"] * 2
    analysis_id = str(uuid4())
    await end(database, iteration, StepKind.INSIGHT, analyses=[analysis_id], missing=[])
    ends = await end_events(database, iteration, StepKind.INSIGHT)
    [request] = [event for end_event in ends for event in await aggregate(end_event)][:1]
    assert request.subject == "analysis.produced"
    assert request.analysis_ids == [UUID(analysis_id)] * 2  # type: ignore[attr-defined]
    await end(database, iteration, StepKind.ADVISE, advice=[], reason="")
    [advise_end] = await end_events(database, iteration, StepKind.ADVISE)
    [completed] = await aggregate(advise_end)
    assert completed.subject == "iteration.completed"
    row = await reload_iteration(database, iteration)
    assert (row.status, row.stage) == (IterationStatus.COMPLETED, Stage.ENDED)


async def test_an_end_event_that_contradicts_the_state_is_refused(database: Database) -> None:
    iteration = await plan_iteration(database, queries=1)
    async with database.transaction() as session:
        [query] = await steps.list_steps(session, iteration.id, StepKind.QUERY)
    false_end = QueryCompleted.of(
        agent_id=query.agent_id,
        iteration_id=iteration.id,
        step_id=query.id,
        occurred_at=iteration.started_at,
        nodes=1,
        edges=1,
    )
    with pytest.raises(TransientError, match="has not"):
        await Aggregate(database)(false_end)


async def test_the_deadline_ends_the_iteration_and_revokes_its_leases(
    database: Database, bus: Bus
) -> None:
    iteration = await plan_iteration(database, queries=1)
    async with database.transaction() as session:
        [query] = await steps.list_steps(session, iteration.id, StepKind.QUERY)
        claim = await claims.claimed(session, query.id, "slow worker")
        await session.execute(update(Iteration).values(deadline_at=Iteration.started_at))
    await Deadlines(database, bus, Aggregate(database), 0.0).end_stalled()
    row = await reload_iteration(database, iteration)
    assert row.status == IterationStatus.FAILED
    [error] = row.errors
    assert error.startswith("no progress for 0 s while researching: no step ended and no call")
    assert "VIGIL_ITERATION_DEADLINE_SECONDS" in error
    with pytest.raises(LeaseLostError):
        async with leases.leased_transaction(database, claim.lease):
            pass
    async with database.transaction() as session:
        assert (await session.get_one(Step, query.id)).status == StepStatus.FAILED
        its_steps = await steps.list_steps(session, row.id)
        event = await derived_events.iteration_ended_event(
            session, table_rows.as_iteration(row), its_steps
        )
    assert isinstance(event, IterationFailed)


CONCURRENT_AGENTS = 3
"""Agents whose events are reordered together."""
REPLICAS = 2


async def test_events_delivered_up_to_five_times_in_any_order_have_the_same_result(
    sandbox_settings: Settings,
    database: Database,
    bus: Bus,
    sandbox: str,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    seeds_wanted: int | None,
) -> None:
    sandbox_control = Sandbox(sandbox)
    mission = await Mission.begin(database, sandbox_control, "undisturbed")
    async with running_services(sandbox_settings):
        await ended_iteration(database, mission.agent, 1)
        await wait_until_all_idle(bus)
    [calm] = await accounts(database, bus, [mission])
    billed = sandbox_control.billed()
    assert calm.is_whole()
    end = seed + (seeds_wanted or 1)
    for first in range(seed, end, CONCURRENT_AGENTS):
        sandbox_control.reset()
        seeds = range(first, min(first + CONCURRENT_AGENTS, end))
        missions = [
            await Mission.begin(database, sandbox_control, f"seed {number}") for number in seeds
        ]
        with repeatable(first):
            await run_shuffled(sandbox_settings, database, bus, monkeypatch, missions, seeds)
            assert sandbox_control.billed() == {
                kind: count * len(seeds) for kind, count in billed.items()
            }
            assert sandbox_control.repeated() == 0
        for number, account in zip(seeds, await accounts(database, bus, missions), strict=True):
            with repeatable(number):
                assert account == calm
                assert account.is_whole()


async def run_shuffled(
    settings: Settings,
    database: Database,
    bus: Bus,
    monkeypatch: pytest.MonkeyPatch,
    missions: Sequence[Mission],
    seeds: Sequence[int],
) -> None:
    """Runs until every iteration has ended and every copy of every event is consumed and acked."""
    seed_by_agent = {
        mission.agent.id: number for mission, number in zip(missions, seeds, strict=True)
    }
    async with (
        shuffled(bus, seed_by_agent, monkeypatch) as disorders,
        running_services(settings, tuple(BUILDERS) * REPLICAS),
    ):
        for mission in missions:
            await ended_iteration(database, mission.agent, 1)
        for shuffler in disorders:
            shuffler.deliver_rest()
        for shuffler in disorders:
            await wait_until(shuffler.is_silent, what="every copy to be delivered")
        await wait_until_all_idle(bus)
    assert [shuffler.contradictions for shuffler in disorders] == [[]] * len(disorders)


async def wait_until_all_idle(bus: Bus) -> None:
    for name in CONSUMERS:
        await wait_until(partial(is_idle, bus, name), what=f"the {name} to be idle")


async def accounts(
    database: Database, bus: Bus, missions: Sequence[Mission]
) -> list[IterationResult]:
    events = await list_events(bus)
    async with database.transaction() as session:
        statement = select(func.count()).select_from(DeadLetter).where(DeadLetter.step_id.is_(None))
        assert await session.scalar(statement) == 0
        return [await load_iteration_result(session, mission, events) for mission in missions]


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


async def test_advice_is_stored_once_however_often_its_step_is_restarted(
    sandbox_settings: Settings, database: Database, bus: Bus, sandbox: str
) -> None:
    mission = await Mission.begin(database, Sandbox(sandbox), "once")
    async with running_services(sandbox_settings):
        await ended_iteration(database, mission.agent, 1)
    first = await items_and_messages(database)
    advice = await advice_of(database)
    assert len(advice) == 2
    assert {item.id for item in first[0]} == {ids.inbox_item_id(node.id) for node in advice}
    assert {message.id for message in first[1]} == {ids.message_id(node.id) for node in advice}
    for number in (1, 2):
        await restart_advise_step(database, bus, number)
        async with running_services(sandbox_settings, ("adviser",)):
            await wait_until(lambda: all_ended(database), what="the step to end once more")
    assert [[row.id for row in rows] for rows in await items_and_messages(database)] == [
        [row.id for row in rows] for rows in first
    ]


async def items_and_messages(database: Database) -> tuple[Sequence[InboxItem], Sequence[Message]]:
    async with database.transaction() as session:
        items = await session.scalars(select(InboxItem).order_by(InboxItem.id))
        messages = await session.scalars(
            select(Message)
            .join(Conversation, Conversation.id == Message.conversation_id)
            .where(Message.content.contains("**BUY: ") | Message.content.contains("**SELL: "))
            .order_by(Message.id)
        )
        return items.all(), messages.all()


async def advice_of(database: Database) -> Sequence[GraphNode]:
    async with database.transaction() as session:
        return (await session.scalars(select(GraphNode).where(GraphNode.type == ADVICE_TYPE))).all()


async def restart_advise_step(database: Database, bus: Bus, number: int) -> None:
    """As after a kill between the effects of the step and its end: its message is redelivered, and it is claimed again."""
    async with database.transaction() as session:
        await session.execute(
            update(Step)
            .where(Step.kind == StepKind.ADVISE)
            .values(status=StepStatus.PENDING, result=None, ended_at=None)
        )
        row = (await session.scalars(select(Step).where(Step.kind == StepKind.ADVISE))).one()
        step = table_rows.as_step(row)
        request = derived_events.iteration_step_event(
            await steps.iteration_query(step).execute(session), step
        )
    await bus.publish(request, resend=number)


async def all_ended(database: Database) -> bool:
    async with database.transaction() as session:
        statuses = await session.scalars(select(Step.status))
        return {*statuses} <= {StepStatus.COMPLETED, StepStatus.FAILED}
