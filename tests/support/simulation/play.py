"""One simulation: agents with iterations, faults until they have ended, retries of what failed, then the checks."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Final

from sqlalchemy import select

from shared.billing import budgets
from shared.billing.budgets import Caps
from shared.database.engine import Database
from shared.database.tables import Agent, DeadLetter, Step
from shared.enums import StepKind
from shared.workflow import dead_letters
from tests.support.factories import make_agent
from tests.support.simulation import invariants
from tests.support.simulation.invariants import Watch
from tests.support.simulation.postgres import SimulatedPostgres
from tests.support.simulation.script import INSIGHTS, QUERIES
from tests.support.simulation.world import World

AGENTS: Final = 10
ROUNDS: Final = 2
FAULTY_SECONDS: Final = 60.0
"""Virtual time after which faults end, whatever has ended by then."""
MAX_SECONDS: Final = 900.0
"""Virtual time until all must have ended without faults: an iteration waits for leases, redeliveries and backoff."""
CAPPED_AGENTS: Final = 3
"""One of so many agents has a budget that may not suffice for an iteration."""
CAPS: Final = (Decimal("0.10"), Decimal("0.16"), Decimal("0.25"))
"""USD a day. A call reserves up to 0.15, and costs 0.01 at the most."""
POISON: Final = (b"not json", b'{"type": "vigil.query.v1.requested"}')
CHECK_SECONDS: Final = 1.0
SETTLE_SECONDS: Final = 5.0
_UNSETTLED: Final = """
select from agents left join iterations on iterations.agent_id = agents.id
where ended_at is null and iterations.id is not null
  or iterations_started < %s and suspended_until is null
"""
_UNQUIET: Final = """
select from steps where status in ('pending', 'running')
union all select from inbox_items where dispatched_at is null
union all select from iterations where end_published_at is null
"""
REFUSED_SHARE: Final = 0.05
MESSAGE_LINES: Final = 100
"""Of the trace, in the message of a failure."""


@dataclass(frozen=True)
class Outcome:
    """What one seed has shown."""

    seed: int
    iterations: int
    faults: Sequence[str]
    """Violated invariants."""
    trace: str
    """Hash of everything that happened."""
    events: int
    lines: Sequence[str]
    """The end of the trace."""
    happened: Mapping[str, int]
    fingerprints: frozenset[str] = frozenset()
    """Of the graphs of agents whose every step has completed."""


def simulate(
    postgres: SimulatedPostgres,
    seed: int,
    *,
    agents: int = AGENTS,
    rounds: int = ROUNDS,
    is_calm: bool = False,
    expected: frozenset[str] | None = None,
) -> Outcome:
    """Runs one seed. `expected` are the fingerprints that complete graphs may have."""
    postgres.reset()
    world = World(postgres, seed)
    world.faults.is_calm = is_calm
    play = _Play(world, Random(f"play {seed}"), agents, rounds)
    faults: list[str]
    try:
        faults = world.run(play.run)
    except AssertionError as error:
        faults = [f"the simulation broke off: {error}"]
    except Exception as error:
        lines = list(world.trace.lines)[-MESSAGE_LINES:]
        error.add_note("\n".join([f"seed {seed}, the end of its trace:", *lines]))
        raise
    if expected is not None and not play.fingerprints <= expected:
        faults.append("the graph of an agent differs from that of an undisturbed one")
    return Outcome(
        seed,
        play.iterations,
        [*faults, *world.errors, *world.loop.errors],
        world.trace.digest,
        world.trace.count,
        list(world.trace.lines),
        world.faults.counts,
        frozenset(play.fingerprints),
    )


class _Play:
    def __init__(self, world: World, chance: Random, agents: int, rounds: int) -> None:
        self._world = world
        self._chance = chance
        self._is_calm = world.faults.is_calm
        self._count = agents
        self._rounds = rounds
        self._agents: list[Agent] = []
        self.fingerprints: set[str] = set()
        self.iterations = 0

    async def run(self) -> list[str]:
        world, watch = self._world, Watch(self._world)
        database = Database(world.postgres.url, name="test")
        await self._create_agents(database)
        injection = asyncio.create_task(world.inject())
        for payload in POISON:
            world.jetstream.store("query.requested", payload, str(payload))
        for number in range(1, self._rounds + 1):
            if number > 1:
                await self._start_again(database)
            await self._until_settled(number)
        await self._settle()
        faults = await self._check(database, with_events=True)
        await self._take_fingerprints(database)
        world.script.refused.clear()
        if await self._retry_letters(database):
            world.faults.is_calm = self._is_calm
            await self._until(self._has_no_retries)
            await self._settle()
            faults += await self._check(database, with_events=False)
        injection.cancel()
        await database.close()
        return [*dict.fromkeys([*watch.faults, *faults])]

    async def _settle(self) -> None:
        """Until everything has ended without further faults, and frozen processes have done what they were about to do."""
        self._world.calm()
        await asyncio.sleep(SETTLE_SECONDS)
        await self._until(self._is_quiet)

    async def _create_agents(self, database: Database) -> None:
        chance, script = self._chance, self._world.script
        for number in range(self._count):
            agent = await make_agent(database, name=f"Agent {number}", interval_seconds=86_400)
            self._agents.append(agent)
            script.agents[agent.id.hex[:8]] = agent.id
            async with database.transaction() as session:
                if number % CAPPED_AGENTS == 1:
                    await budgets.cap_agent(session, agent.id, Caps(chance.choice(CAPS), None))
            for round_number in range(1, self._rounds + 1):
                name = f"{agent.id.hex[:8]}-{round_number}"
                marks = [f"{name} query {index}" for index in range(QUERIES)]
                marks += [f"{name} insight {index}" for index in range(INSIGHTS)]
                script.refused |= {mark for mark in marks if chance.random() < REFUSED_SHARE}

    async def _start_again(self, database: Database) -> None:
        """Makes all agents due again, in the next seconds."""
        for agent in self._agents:
            seconds = self._chance.uniform(0.0, 3.0)
            self._world.postgres.monitor.execute(
                "update agents set next_run_at = clock_timestamp() + make_interval(secs => %s) where id = %s",
                [seconds, agent.id],
            )

    async def _until_settled(self, number: int) -> None:
        """Until every agent has ended its iterations up to `number`, or is suspended."""
        await self._until(lambda: self._is_none(_UNSETTLED, number))

    def _is_quiet(self) -> bool:
        return self._world.jetstream.is_empty and self._is_none(_UNQUIET)

    def _has_no_retries(self) -> bool:
        return self._is_none("select from dead_letters where retry_requested_at > stored_at")

    def _is_none(self, query: str, *args: object) -> bool:
        return self._world.postgres.monitor.execute(query, args or None).fetchone() is None

    async def _until(self, condition: Callable[[], bool]) -> None:
        world = self._world
        began = world.loop.time()
        while not condition():
            if world.loop.time() - began > MAX_SECONDS:
                open_steps = world.postgres.monitor.execute(
                    "select kind, status, error from steps where status in ('pending', 'running')"
                ).fetchall()
                raise AssertionError(f"left open: {open_steps} {world.jetstream.open_messages()}")
            if world.loop.time() - began > FAULTY_SECONDS:
                world.calm()
            await asyncio.sleep(CHECK_SECONDS)

    async def _retry_letters(self, database: Database) -> int:
        """Requests the retry of dead letters of queries and insights. Returns their number."""
        async with database.transaction() as session:
            letters = await session.scalars(
                select(DeadLetter.id)
                .join(Step, Step.id == DeadLetter.step_id)
                .where(Step.kind.in_((StepKind.QUERY, StepKind.INSIGHT)))
                .order_by(DeadLetter.id)
            )
            chosen = [letter for letter in letters if self._chance.random() < 0.7]
            await dead_letters.request_retries(session, chosen)
        return len(chosen)

    async def _check(self, database: Database, *, with_events: bool) -> list[str]:
        world = self._world
        faults = invariants.check_bus(world, POISON)
        async with database.snapshot() as session:
            faults += await invariants.check_budgets(session, world)
            for agent in self._agents:
                faults += await invariants.check_agent(
                    session, world, agent, with_events=with_events
                )
        rows = world.postgres.monitor.execute("select count(*) from iterations").fetchone()
        self.iterations = rows[0] if rows else 0
        return faults

    async def _take_fingerprints(self, database: Database) -> None:
        for agent in self._agents:
            if self._is_none(
                "select from steps where agent_id = %s and status = 'failed'", agent.id
            ) and not self._is_none(
                "select from agents where id = %s and iterations_started = %s",
                agent.id,
                self._rounds,
            ):
                self.fingerprints.add(await invariants.fingerprint(database, agent))
