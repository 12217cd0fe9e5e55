"""Faults during an agent's iteration; each scenario returns the result."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import select

from shared import derived_events
from shared.database.tables import Agent, Iteration
from shared.database.transaction import Transaction
from shared.enums import StepKind
from shared.events.envelope import Event
from shared.failpoints import Failpoint
from shared.graph.scope import GraphScope
from shared.workflow import steps
from tests.support.chaos.figures import Figures
from tests.support.chaos.mission import Mission, SlowMission
from tests.support.chaos.scenario_run import ScenarioRun, ScenarioRunner
from tests.support.graph.verification import check_all

DUPLICATES: Final = 8
"""More than the frozen replica can have fetched."""
TRANSITIONS: Final = 3
"""Of an iteration by the aggregator: to insights, to advice, to the end."""


@dataclass(frozen=True)
class Trial:
    """`in_flight`: calls in flight when a process died or froze, which may have been paid for twice."""

    run: ScenarioRun
    in_flight: int


def assert_like_baseline(figures: Figures, baseline: ScenarioRun, trial: Trial) -> None:
    """Assert that the trial differs in nothing from the baseline; count it."""
    assert differences(baseline, trial) == []
    figures.add("iterations compared")
    figures.add("calls in flight at a kill", trial.in_flight)
    figures.add("of these paid twice", trial.run.repeated)


async def start_agents(runner: ScenarioRunner, seed: int, count: int) -> list[Agent]:
    return [await runner.begin_another(seed + number) for number in range(count)]


async def assert_all_like_baseline(
    runner: ScenarioRunner,
    baseline: ScenarioRun,
    figures: Figures,
    agents: Sequence[Agent],
    since: int,
    *,
    in_flight: int = 0,
    are_versions_mixed: bool = False,
) -> int:
    """All iterations cost as much as undisturbed ones, and only calls that were `in_flight` were paid for twice.

    Graphs are the same unless versions are mixed: a release may store the same answers otherwise. They must hold up to a
    verification. Returns how many calls were paid for twice.
    """
    for agent in agents:
        run = await runner.end(agent, since)
        result = run.result
        if are_versions_mixed:
            scope = GraphScope(agent.owner_id, agent.id)
            counts, breaks = await check_all(runner.database, scope)
            assert (counts.nodes > 0, breaks) == (True, [])
            result = replace(result, graph=baseline.result.graph)
        own = ScenarioRun(result, run.faults, baseline.billed, 0)
        assert_like_baseline(figures, baseline, Trial(own, 0))
    expected = {kind: times * len(agents) for kind, times in baseline.billed.items()}
    billed, repeated = runner.sandbox.billed(), runner.sandbox.repeated()
    assert repeated <= in_flight
    assert sum(billed.values()) == sum(expected.values()) + repeated
    assert repeated or billed == expected
    return repeated


def differences(baseline: ScenarioRun, trial: Trial) -> list[str]:
    """Describe the differences from the baseline; calls that were in flight may have been paid for twice."""
    run = trial.run
    messages = list(run.faults)
    for name, expected in vars(baseline.result).items():
        if (actual := getattr(run.result, name)) != expected:
            messages.append(f"{name} is {actual!r} and should be {expected!r}")
    if run.repeated > trial.in_flight:
        messages.append(
            f"{run.repeated} calls were paid for twice, {trial.in_flight} were in flight"
        )
    excess = sum(run.billed.values()) - sum(baseline.billed.values()) - run.repeated
    if excess:
        messages.append(f"{excess:+} calls were billed that an undisturbed run would not make")
    return messages


async def killed_at(
    runner: ScenarioRunner,
    name: str,
    point: Failpoint,
    seed: int,
    *,
    skip: int = 0,
    kind: type[Mission] = Mission,
) -> Trial:
    """The replica is killed at `point`, and is restarted."""
    runner.installation.arm(name, point, skip=skip)
    since = await runner.next_sequence()
    agent = await runner.begin(seed, kind)
    in_flight = await runner.in_flight_at_kill(name)
    return Trial(await runner.end(agent, since), in_flight)


async def killed_at_statement(runner: ScenarioRunner, name: str, number: int, seed: int) -> Trial:
    """The replica is killed at the statement with this number: see `statement_kills`.

    Iterations differ by a few statements. If one ends before that statement, another one is run with a smaller number.
    """
    while True:
        runner.installation.arm_statement(name, number)
        since = await runner.next_sequence()
        agent = await runner.begin(seed)
        if await runner.reaches_statement(name, agent):
            in_flight = await runner.in_flight_at_kill(name)
            return Trial(await runner.end(agent, since), in_flight)
        assert number > 0, f"an iteration without a statement of the {name}"
        number = number * 9 // 10


async def killed_while_draining(
    runner: ScenarioRunner, name: str, kind: StepKind, seed: int
) -> Trial:
    """The replica is stopped in the middle of a step, and is killed while it drains."""
    runner.installation.arm(name, Failpoint.DRAINING)
    since = await runner.next_sequence()
    agent = await runner.begin(seed, SlowMission)
    await runner.wait_until_working(agent, kind)
    runner.installation.send(name, signal.SIGTERM)
    in_flight = await runner.in_flight_at_kill(name)
    return Trial(await runner.end(agent, since), in_flight)


async def frozen_with_a_lease(runner: ScenarioRunner, name: str, other: str, seed: int) -> Trial:
    """The replica freezes with an uncommitted response; `other` completes its steps; then it wakes."""
    runner.installation.arm(name, Failpoint.CALL_ANSWERED, sends="SIGSTOP")
    since = await runner.next_sequence()
    agent = await runner.begin(seed)
    pid = await runner.wait_until_frozen(name)
    in_flight = await runner.in_flight(pid)
    runner.installation.start_replica(other)
    await runner.wait_until_ended(agent)
    runner.installation.send(name, signal.SIGCONT)
    # Its handlers may finish before the process exits.
    runner.installation.send(name, signal.SIGTERM)
    await runner.wait_for_exit(name, exit_code=0)
    return Trial(await runner.end(agent, since), in_flight)


async def _last_step_event(session: Transaction, agent: Agent) -> Event:
    iteration = (
        await session.scalars(select(Iteration).where(Iteration.agent_id == agent.id))
    ).one()
    (step,) = await steps.list_steps(session, iteration.id, StepKind.ADVISE)
    return (await derived_events.events_after_step(session, step))[-1]


async def joined_by_two_aggregators(runner: ScenarioRunner, seed: int) -> Trial:
    """The last event is published several times, and two aggregators handle it at the same time.

    The first freezes before it writes its transition, the second after its commit and before it publishes. The second
    publishes its events before the first wakes.
    """
    installation = runner.installation
    installation.arm("aggregator", Failpoint.STATE_WRITTEN, skip=TRANSITIONS - 1, sends="SIGSTOP")
    installation.arm("aggregator-2", Failpoint.STATE_COMMITTED, sends="SIGSTOP")
    since = await runner.next_sequence()
    agent = await runner.begin(seed)
    await runner.wait_until_frozen("aggregator")
    installation.start_replica("aggregator-2")
    async with runner.database.transaction() as session:
        event = await _last_step_event(session, agent)
    for number in range(DUPLICATES):
        await runner.bus.publish(event, resend=100 + number)
    await runner.wait_until_frozen("aggregator-2")
    installation.send("aggregator-2", signal.SIGCONT)
    await runner.wait_for_event("iteration.completed", agent, since)
    installation.send("aggregator", signal.SIGCONT)
    return Trial(await runner.end(agent, since), 0)
