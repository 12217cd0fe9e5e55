"""Rows of an installation in every state that the scheduler measures, and an independent reading of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final
from uuid import UUID, uuid4

from sqlalchemy import func, insert, select

from shared.database.engine import Database
from shared.database.tables import (
    Agent,
    BudgetDay,
    DeadLetter,
    Delivery,
    Destination,
    InstallationBudget,
    Iteration,
    Step,
)
from shared.database.transaction import Transaction
from shared.enums import AgentStatus, IterationStatus, StepKind, StepStatus
from tests.support.factories import make_owner

PROMPTS = {
    f"{phase}_system_prompt": "Go on."
    for phase in (
        "conversation",
        "observer",
        "knowledge_acquisition",
        "graph_construction",
        "analysis_generation",
        "advice_generation",
    )
}


NEAR: Final = timedelta(seconds=20)


@dataclass
class Installation:
    """Rows that were written, with times relative to `now`, the database's clock when the first was."""

    now: datetime
    owner: UUID
    agents: list[dict[str, Any]] = field(default_factory=list)
    iterations: list[dict[str, Any]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)

    def ago(self, seconds: float) -> datetime:
        return self.now - timedelta(seconds=seconds)


async def begin(database: Database) -> Installation:
    owner = await make_owner(database)
    async with database.transaction() as session:
        now = (await session.execute(select(func.clock_timestamp()))).scalar_one()
    return Installation(now.astimezone(UTC), owner)


def add_agent(place: Installation, **values: Any) -> dict[str, Any]:
    agent = {
        "id": uuid4(),
        "owner_id": place.owner,
        "name": f"agent {len(place.agents)}",
        "mission": "Watch.",
        **PROMPTS,
        "status": AgentStatus.READY,
        "interval_seconds": 300,
        "max_interval_seconds": None,
        "active": True,
        "next_run_at": place.ago(-60),
        "budget_usd_per_day": None,
        "budget_calls_per_day": None,
        "suspended_until": None,
        "created_at": place.ago(86_400),
        "updated_at": place.ago(86_400),
        **values,
    }
    place.agents.append(agent)
    return agent


def add_iteration(
    place: Installation,
    agent: dict[str, Any],
    status: IterationStatus,
    *,
    started: float,
    seconds: float = 10,
) -> dict[str, Any]:
    """An iteration that started `started` seconds ago and took `seconds`."""
    number = 1 + sum(iteration["agent_id"] == agent["id"] for iteration in place.iterations)
    is_running = status == IterationStatus.RUNNING
    iteration = {
        "id": uuid4(),
        "agent_id": agent["id"],
        "number": number,
        "why": "due",
        "status": status,
        "stage": "observing" if is_running else "ended",
        "started_at": place.ago(started),
        "deadline_at": place.ago(-600),
        "stage_changed_at": place.ago(started),
        "ended_at": None if is_running else place.ago(started - seconds),
    }
    place.iterations.append(iteration)
    return iteration


def add_step(place: Installation, iteration: dict[str, Any], **values: Any) -> dict[str, Any]:
    index = sum(step["iteration_id"] == iteration["id"] for step in place.steps)
    step = {
        "id": uuid4(),
        "iteration_id": iteration["id"],
        "agent_id": iteration["agent_id"],
        "kind": StepKind.QUERY,
        "index": index,
        "status": StepStatus.PENDING,
        "requested_at": place.ago(1),
        "retry_at": None,
        "waiting_since": None,
        "started_at": None,
        "lease_until": None,
        "ended_at": None,
        **values,
    }
    place.steps.append(step)
    return step


async def write(database: Database, place: Installation) -> None:
    """Writes all rows, in place of those that were written before."""
    async with database.transaction() as session:
        for table in (Step, Iteration, Agent):
            await session.execute(table.__table__.delete())  # type: ignore[attr-defined]  # a Table
        for table, rows in (
            (Agent, place.agents),
            (Iteration, place.iterations),
            (Step, place.steps),
        ):
            await session.insert_all(table, rows)


async def spend(
    session: Transaction, scope: UUID, usd: str, *, reserved: str = "0", calls: int = 0
) -> None:
    """What is spent today."""
    today = func.date(func.timezone("UTC", func.statement_timestamp()))
    await session.execute(
        insert(BudgetDay).values(
            scope=scope,
            day=today,
            spent_usd=Decimal(usd),
            reserved_usd=Decimal(reserved),
            spent_calls=calls,
        )
    )


async def cap_installation(session: Transaction, usd: str | None, calls: int | None = None) -> None:
    cap = None if usd is None else Decimal(usd)
    await session.execute(
        insert(InstallationBudget).values(id=1, usd_per_day=cap, calls_per_day=calls)
    )


async def add_dead_letter(session: Transaction) -> UUID:
    letter_id = uuid4()
    await session.execute(
        insert(DeadLetter).values(
            id=letter_id,
            service="observer",
            subject="iteration.started",
            payload=b"?",
            code="unreadable_event",
            error="not an event",
            attempts=1,
        )
    )
    return letter_id


async def add_deliveries(session: Transaction, owner: UUID, ages: Sequence[float]) -> None:
    """Pending deliveries that are so many seconds old, and a delivered one."""
    destination = uuid4()
    address = f"http://127.0.0.1:1/{destination}"
    await session.execute(
        insert(Destination).values(id=destination, owner_id=owner, kind="webhook", address=address)
    )
    now = func.clock_timestamp()
    rows = [("pending", age) for age in ages] + [("delivered", 10_000.0)]
    for status, age in rows:
        await session.execute(
            insert(Delivery).values(
                id=uuid4(),
                destination_id=destination,
                status=status,
                give_up_at=now + timedelta(hours=1),
                created_at=now - timedelta(seconds=age),
            )
        )


def random_installation(place: Installation, random: Random) -> None:
    """Adds agents with histories, and steps, in random states; no time is within seconds of a limit."""
    for _ in range(random.randrange(1, 12)):
        interval = random.choice([5, 60, 300, 3600])
        agent = add_agent(
            place,
            interval_seconds=interval,
            active=random.random() < 0.8,
            status=random.choice([AgentStatus.READY, AgentStatus.READY, AgentStatus.CONFIGURING]),
            created_at=place.ago(random.choice([30, 10_000, 1_000_000])),
            updated_at=place.ago(random.choice([30, 10_000, 1_000_000])),
            suspended_until=random.choice(
                [None, None, place.ago(-5000), place.ago(40), place.ago(90_000)]
            ),
            next_run_at=place.ago(-random.choice([10, interval, 10 * interval])),
        )
        started = 200_000.0
        for _ in range(random.randrange(0, 9)):
            started *= random.choice([0.9, 0.5, 0.1])
            status = random.choice(
                [
                    IterationStatus.COMPLETED,
                    IterationStatus.QUIET,
                    IterationStatus.FAILED,
                    IterationStatus.FAILED,
                ]
            )
            add_iteration(place, agent, status, started=started, seconds=min(7, started / 2))
        if random.random() < 0.5:
            running = add_iteration(place, agent, IterationStatus.RUNNING, started=started / 2)
            for _ in range(random.randrange(0, 5)):
                add_random_step(place, running, random)
        if _is_near_a_limit(place, agent):
            place.agents.remove(agent)
            for rows in (place.iterations, place.steps):
                rows[:] = [row for row in rows if row["agent_id"] != agent["id"]]


def add_random_step(place: Installation, iteration: dict[str, Any], random: Random) -> None:
    status = random.choice(
        [StepStatus.PENDING, StepStatus.RUNNING, StepStatus.COMPLETED, StepStatus.PLANNED]
    )
    is_running = status == StepStatus.RUNNING
    add_step(
        place,
        iteration,
        kind=random.choice([StepKind.QUERY, StepKind.INSIGHT]),
        status=status,
        requested_at=place.ago(random.choice([10, 100, 1000])),
        retry_at=random.choice([None, None, place.ago(50), place.ago(-500)]),
        waiting_since=random.choice([None, None, place.ago(77), place.ago(700)]),
        started_at=place.ago(random.choice([20, 200])) if is_running else None,
        lease_until=place.ago(random.choice([-100, 30])) if is_running else None,
    )


def expected_late(place: Installation) -> int:
    """Active agents that are late, counted from the rows by hand."""
    return sum(_is_late(place, agent) for agent in place.agents)


def _is_late(place: Installation, agent: dict[str, Any]) -> bool:
    if not agent["active"] or agent["status"] != AgentStatus.READY:
        return False
    history, since = _history(place, agent)
    begun = [agent["created_at"], agent["updated_at"], agent["suspended_until"]]
    if max(moment for moment in begun if moment is not None) >= since:
        return False
    return not any(
        row["status"] in (IterationStatus.COMPLETED, IterationStatus.QUIET)
        and row["ended_at"] > since
        for row in history[-5:]
    )


def _history(place: Installation, agent: dict[str, Any]) -> tuple[list[dict[str, Any]], datetime]:
    """The agent's iterations, and the time since which one must have completed."""
    history = [row for row in place.iterations if row["agent_id"] == agent["id"]]
    interval = timedelta(seconds=max(agent["interval_seconds"], 60))
    if history:
        interval = max(interval, agent["next_run_at"] - history[-1]["started_at"])
    return history, place.now - 2 * interval


def _is_near_a_limit(place: Installation, agent: dict[str, Any]) -> bool:
    """Whether the agent may become late while it is measured."""
    history, since = _history(place, agent)
    moments = [agent["created_at"], agent["updated_at"], agent["suspended_until"]]
    moments += [row["ended_at"] for row in history]  # None: it runs
    return any(moment is not None and abs(moment - since) < NEAR for moment in moments)


def expected_steps(place: Installation) -> dict[str, float]:
    """The gauges of open steps, from the rows by hand."""
    open_steps = [
        row for row in place.steps if row["status"] in (StepStatus.PENDING, StepStatus.RUNNING)
    ]
    running = [row for row in open_steps if row["status"] == StepStatus.RUNNING]
    claimable = [
        row
        for row in open_steps
        if row["status"] == StepStatus.PENDING
        and row["waiting_since"] is None
        and (row["retry_at"] is None or row["retry_at"] <= place.now)
    ]
    waiting = [row for row in open_steps if row["waiting_since"] is not None]
    return {
        "leases_held": sum(row["lease_until"] >= place.now for row in running),
        "leases_expired": sum(row["lease_until"] < place.now for row in running),
        "oldest_running_step_seconds": _oldest(place, [row["started_at"] for row in running]),
        "oldest_waiting_step_seconds": _oldest(place, [row["requested_at"] for row in claimable]),
        "steps_waiting_for_provider": len(waiting),
        "oldest_provider_wait_seconds": _oldest(place, [row["waiting_since"] for row in waiting]),
    }


def _oldest(place: Installation, moments: Sequence[datetime]) -> float:
    return (place.now - min(moments)).total_seconds() if moments else 0.0


AGENT_NAMES: Final = select(Agent.id, Agent.name)


async def complete_iteration(session: Transaction, agent_id: UUID) -> None:
    """An iteration of the agent that completes now."""
    now = func.clock_timestamp()
    await session.execute(
        insert(Iteration).values(
            id=uuid4(),
            agent_id=agent_id,
            number=1,
            why="due",
            status=IterationStatus.COMPLETED,
            stage="ended",
            deadline_at=now,
            ended_at=now,
        )
    )
