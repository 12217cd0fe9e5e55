"""One iteration of a fresh agent in a house, and what came of it."""

import asyncio
import signal
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import psutil
from nats.errors import Error as NatsError
from sqlalchemy import func, select, text, update

from cli.local.process_pool import Died
from shared.database.engine import Database
from shared.database.tables import Agent, Call, Iteration, Step
from shared.enums import IterationStatus, StepKind, StepStatus
from shared.errors import TransientError
from shared.events.topology import CONSUMERS, STREAM
from shared.graph.scope import GraphScope
from shared.runtime.bus import Bus
from tests.support.chaos.evidence import Result, faults, result_of, told_since
from tests.support.chaos.house import House
from tests.support.chaos.mission import Mission
from tests.support.levers import Sandbox
from tests.support.making import make_agent
from tests.support.waiting import LOOK_AGAIN_SECONDS, until

PATIENCE_SECONDS: Final = 90.0
SETTLE_SECONDS: Final = CONSUMERS["aggregator"].ack_wait_seconds + 10.0
"""What was committed and not told by who was killed then, is told when its message comes again."""


@dataclass(frozen=True)
class Visit:
    """What the iteration came to, and what it cost."""

    result: Result
    faults: tuple[str, ...]
    billed: dict[str, int]
    repeated: int
    """Calls billed for the very same request as an earlier one."""


class Visitor:
    """Makes agents in one house, watches them, and judges what came of them."""

    def __init__(self, house: House, database: Database, bus: Bus, sandbox: Sandbox) -> None:
        self.house = house
        self.database = database
        self.bus = bus
        self.sandbox = sandbox
        self._deaths_seen = 0

    async def begin(self, seed: int, kind: type[Mission] = Mission) -> Agent:
        """A fresh agent with its mission taught and the meter at zero, asked to run."""
        self.sandbox.reset()
        return await self.begin_another(seed, kind)

    async def begin_another(self, seed: int, kind: type[Mission] = Mission) -> Agent:
        """The same beside others that run: nothing of theirs is reset. Waits for Postgres where it is away."""
        tag = f"watch-{uuid4().hex[:12]}"
        agent = await until(lambda: self._made(tag), what="an agent to be made")
        assert agent is not None
        mission = kind(agent.id, tag)
        mission.teach(self.sandbox)
        mission.shuffle(self.sandbox, seed)
        asked = {"feedback_rounds": kind.feedback_rounds}
        await until(lambda: self._asked_to_run(agent, asked), what="an agent to be asked to run")
        return agent

    async def _made(self, tag: str) -> Agent | None:
        try:
            return await make_agent(self.database, name=tag, mission=f"Keep {tag}", active=False)
        except TransientError:
            return None

    async def _asked_to_run(self, agent: Agent, values: Mapping[str, int]) -> bool:
        wish = update(Agent).where(Agent.id == agent.id)
        try:
            async with self.database.transaction() as session:
                await session.execute(
                    wish.values(run_requested_at=func.clock_timestamp(), **values)
                )
        except TransientError:
            return False
        return True

    async def end(self, agent: Agent, since: int) -> Visit:
        """Waits for the iteration's end, and looks at all of it."""
        await self.ended(agent)
        found = await self._faults_in_the_end(agent, since)
        async with self.database.transaction() as session:
            result = await result_of(session, GraphScope(agent.owner_id, agent.id))
        return Visit(result, found, self.sandbox.billed(), self.sandbox.repeated())

    async def whole(self, seed: int, kind: type[Mission] = Mission) -> Visit:
        """Begins and ends."""
        since = await self.next_sequence()
        return await self.end(await self.begin(seed, kind), since)

    async def next_sequence(self) -> int:
        return (await self.bus.jetstream.stream_info(STREAM)).state.last_seq + 1

    async def working(self, agent: Agent, kind: StepKind) -> None:
        """Returns when a step of that kind is being worked on."""

        async def look() -> bool:
            async with self.database.transaction() as session:
                running = (Step.kind == kind) & (Step.status == StepStatus.RUNNING)
                wanted = select(Step.id).where(Step.agent_id == agent.id, running).limit(1)
                return await session.scalar(wanted) is not None

        await until(look, what=f"a step of kind {kind} to be worked on")

    async def in_flight_at_death(self, name: str) -> int:
        """Waits for the replica to be killed; how many calls it had in flight then.

        The leases of the dead last long enough for the ledger to be read as they left it.
        """

        return await self.in_flight(await self.died(name, exit_code=-signal.SIGKILL))

    async def one_killed(self, names: Collection[str]) -> int:
        """Waits for one of these replicas to be killed; the pid that it had."""
        return await self._first_to_end(names, -signal.SIGKILL)

    async def died(self, name: str, *, exit_code: int) -> int:
        """Waits for the replica to end that way; the pid that it had."""
        return await self._first_to_end({name}, exit_code)

    async def _first_to_end(self, names: Collection[str], exit_code: int) -> int:
        async def look() -> Died | None:
            died = [each for each in self.house.deaths[self._deaths_seen :] if each.name in names]
            return died[0] if died else None

        died = await until(look, what=f"one of {', '.join(sorted(names))} to end")
        assert died is not None
        assert died.exit_code == exit_code
        self._deaths_seen = len(self.house.deaths)
        return died.pid

    async def in_flight(self, pid: int | None = None) -> int:
        """Calls sent or about to be, and no answer committed: of the steps leased by that process, or of all."""
        owner = Step.lease_owner
        of_whom = owner.is_not(None) if pid is None else owner.endswith(f":{pid}")
        async with self.database.transaction() as session:
            counted = await session.scalar(
                select(func.count())
                .select_from(Call)
                .join(Step, Step.id == Call.step_id)
                .where(Call.answered_at.is_(None), of_whom)
            )
        return counted or 0

    async def quiet(self, consumer: str) -> None:
        """Returns when the consumer has nothing left to do, not even to ack."""

        async def look() -> bool:
            try:
                found = await self.bus.jetstream.consumer_info(STREAM, consumer)
            except (NatsError, TimeoutError):
                return False
            return not found.num_pending and not found.num_ack_pending

        await until(look, what=f"the {consumer} to have nothing to do", seconds=PATIENCE_SECONDS)

    async def frozen(self, name: str) -> int:
        """Returns when the replica has stopped itself; its pid."""
        pid = self.house.fleet.pids()[name]

        async def look() -> bool:
            return psutil.Process(pid).status() == psutil.STATUS_STOPPED

        await until(look, what=f"the {name} to freeze")
        return pid

    async def blocked(self) -> None:
        """Returns when somebody waits for a lock in Postgres."""

        async def look() -> bool:
            waiting = "select exists (select from pg_stat_activity where wait_event_type = 'Lock')"
            async with self.database.transaction() as session:
                return bool(await session.scalar(text(waiting)))

        await until(look, what="somebody to wait for a lock")

    async def told(self, subject: str, agent: Agent, since: int) -> None:
        """Returns when an event of that subject and agent is on the stream."""

        async def look() -> bool:
            return any(
                event.subject == subject and event.agent_id == agent.id
                for event, _ in await told_since(self.bus, since)
            )

        await until(look, what=f"{subject} to be told")

    async def ended(self, agent: Agent) -> None:
        await until(
            lambda: self._has_ended(agent), what="the iteration to end", seconds=PATIENCE_SECONDS
        )

    async def _faults_in_the_end(self, agent: Agent, since: int) -> tuple[str, ...]:
        """Those that do not pass: what is told at the end is on its way when the state is there."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            told = await told_since(self.bus, since)
            async with self.database.transaction() as session:
                found = await faults(session, told, agent.id)
            if not found or time.monotonic() > deadline:
                return tuple(found)
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    async def _has_ended(self, agent: Agent) -> bool:
        wanted = select(Iteration.id).where(
            Iteration.agent_id == agent.id, Iteration.status != IterationStatus.RUNNING
        )
        try:
            async with self.database.transaction() as session:
                return await session.scalar(wanted) is not None
        except TransientError:
            return False
