"""What is done to a house while an agent's iteration runs; each returns what came of it."""

import signal
from dataclasses import dataclass
from typing import Final

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared import derived_events
from shared.database.tables import Agent, Iteration
from shared.enums import StepKind
from shared.events.envelope import Event
from shared.failpoints import Failpoint
from shared.workflow import steps
from tests.support.chaos.figures import Figures
from tests.support.chaos.mission import INSIGHTS, QUERIES, Mission
from tests.support.chaos.visit import Visit, Visitor

DOUBLES: Final = 8
"""More than the frozen one has open hands to take with it."""


@dataclass(frozen=True)
class Trial:
    """`in_flight`: calls that were under way when somebody died or froze, and may have been paid for twice."""

    visit: Visit
    in_flight: int


def unharmed(figures: Figures, undisturbed: Visit, trial: Trial) -> None:
    """Fails where anything is not as it would have been; counts what was shown."""
    assert differences(undisturbed, trial) == []
    figures.add("iterations compared")
    figures.add("calls in flight when somebody was struck", trial.in_flight)
    figures.add("of these paid twice", trial.visit.repeated)


def differences(undisturbed: Visit, trial: Trial) -> list[str]:
    """What is not as it would have been, in words; calls that were in flight may have been paid for twice."""
    visit = trial.visit
    found = list(visit.faults)
    for name, wanted in vars(undisturbed.result).items():
        if (was := getattr(visit.result, name)) != wanted:
            found.append(f"{name} is {was!r} and should be {wanted!r}")
    if visit.repeated > trial.in_flight:
        found.append(
            f"{visit.repeated} calls were paid for twice, {trial.in_flight} were in flight"
        )
    more = sum(visit.billed.values()) - sum(undisturbed.billed.values()) - visit.repeated
    if more:
        found.append(f"{more:+} calls were billed that nobody would have made")
    return found


async def killed_at(
    visitor: Visitor,
    name: str,
    point: Failpoint,
    seed: int,
    *,
    skip: int = 0,
    kind: type[Mission] = Mission,
) -> Trial:
    """The replica dies when it is at `point`, and is started again."""
    visitor.house.arm(name, point, skip=skip)
    since = await visitor.next_sequence()
    agent = await visitor.begin(seed, kind)
    in_flight = await visitor.in_flight_at_death(name)
    return Trial(await visitor.end(agent, since), in_flight)


async def killed_while_draining(visitor: Visitor, name: str, kind: StepKind, seed: int) -> Trial:
    """Told to stop in the middle of a step, the replica begins to drain, and dies of that."""
    visitor.house.arm(name, Failpoint.DRAINING)
    since = await visitor.next_sequence()
    agent = await visitor.begin(seed)
    await visitor.working(agent, kind)
    visitor.house.send(name, signal.SIGTERM)
    in_flight = await visitor.in_flight_at_death(name)
    return Trial(await visitor.end(agent, since), in_flight)


async def frozen_with_a_lease(visitor: Visitor, name: str, other: str, seed: int) -> Trial:
    """The replica freezes with an answer in its hands until its steps have been done by `other`; then it wakes."""
    visitor.house.arm(name, Failpoint.CALL_ANSWERED, sends="SIGSTOP")
    since = await visitor.next_sequence()
    agent = await visitor.begin(seed)
    pid = await visitor.frozen(name)
    in_flight = await visitor.in_flight(pid)
    visitor.house.admit(other)
    await visitor.ended(agent)
    visitor.house.send(name, signal.SIGCONT)
    # Its handlers may end in their way before the process does.
    visitor.house.send(name, signal.SIGTERM)
    await visitor.died(name, exit_code=0)
    return Trial(await visitor.end(agent, since), in_flight)


async def _word_of_the_end(session: AsyncSession, agent: Agent) -> Event:
    iteration = (
        await session.scalars(select(Iteration).where(Iteration.agent_id == agent.id))
    ).one()
    (advise,) = await steps.list_steps(session, iteration.id, StepKind.ADVISE)
    return (await derived_events.events_after_step(session, advise))[-1]


async def joined_by_two(visitor: Visitor, seed: int) -> Trial:
    """The word of the last step's end is doubled, and two aggregators join it at the same time.

    The first freezes with its join written and not committed, the second with its own committed and not told; the
    first tells what it has come to before the second may.
    """
    house = visitor.house
    house.arm("aggregator", Failpoint.STATE_WRITTEN, skip=QUERIES + INSIGHTS, sends="SIGSTOP")
    house.arm("aggregator-2", Failpoint.STATE_COMMITTED, sends="SIGSTOP")
    since = await visitor.next_sequence()
    agent = await visitor.begin(seed)
    await visitor.frozen("aggregator")
    house.admit("aggregator-2")
    async with visitor.database.transaction() as session:
        advised = await _word_of_the_end(session, agent)
    for number in range(DOUBLES):
        await visitor.bus.publish(advised, resend=100 + number)
    await visitor.blocked()
    house.send("aggregator", signal.SIGCONT)
    await visitor.told("iteration.completed", agent, since)
    await visitor.frozen("aggregator-2")
    house.send("aggregator-2", signal.SIGCONT)
    return Trial(await visitor.end(agent, since), 0)
