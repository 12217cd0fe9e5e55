"""One iteration of a new agent in an installation, and its result."""

import asyncio
import signal
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import psutil
from nats.errors import Error as NatsError
from sqlalchemy import func, select, update

from cli.local.process_pool import Died
from shared.database.engine import Database
from shared.database.tables import Agent, Call, Iteration, Step
from shared.enums import IterationStatus, StepKind, StepStatus
from shared.errors import TransientError
from shared.events.topology import CONSUMERS, STREAM
from shared.graph.scope import GraphScope
from shared.runtime.bus import Bus
from tests.support.chaos.evidence import Result, faults, list_events_since, load_result
from tests.support.chaos.installation import Installation
from tests.support.chaos.mission import Mission
from tests.support.factories import make_agent
from tests.support.sandbox_control import Sandbox
from tests.support.waiting import LOOK_AGAIN_SECONDS, wait_until

PATIENCE_SECONDS: Final = 90.0
SETTLE_SECONDS: Final = CONSUMERS["aggregator"].ack_wait_seconds + 10.0
"""Events that a killed aggregator committed and did not publish are published when its message is redelivered."""


@dataclass(frozen=True)
class ScenarioRun:
    """The result of the iteration, its faults and its calls."""

    result: Result
    faults: tuple[str, ...]
    billed: dict[str, int]
    repeated: int
    """Calls billed for the same request as an earlier one."""


class ScenarioRunner:
    """Starts agents in one installation, waits for them and checks their results."""

    def __init__(
        self, installation: Installation, database: Database, bus: Bus, sandbox: Sandbox
    ) -> None:
        self.installation = installation
        self.database = database
        self.bus = bus
        self.sandbox = sandbox
        self._deaths_seen = 0

    async def begin(self, seed: int, kind: type[Mission] = Mission) -> Agent:
        """Reset the sandbox, and start a new agent with a scripted mission."""
        self.sandbox.reset()
        return await self.begin_another(seed, kind)

    async def begin_another(self, seed: int, kind: type[Mission] = Mission) -> Agent:
        """The same without a reset, beside running agents. Waits for PostgreSQL while it is down."""
        tag = f"watch-{uuid4().hex[:12]}"
        agent = await wait_until(lambda: self._create_agent(tag), what="the agent to be created")
        assert agent is not None
        mission = kind(agent.id, tag)
        mission.script_model(self.sandbox)
        mission.add_latency(self.sandbox, seed)
        values = {"feedback_rounds": kind.feedback_rounds}
        await wait_until(
            lambda: self._request_run(agent, values), what="the agent's run to be requested"
        )
        return agent

    async def _create_agent(self, tag: str) -> Agent | None:
        try:
            return await make_agent(self.database, name=tag, mission=f"Keep {tag}", active=False)
        except TransientError:
            return None

    async def _request_run(self, agent: Agent, values: Mapping[str, int]) -> bool:
        update_agent = update(Agent).where(Agent.id == agent.id)
        try:
            async with self.database.transaction() as session:
                await session.execute(
                    update_agent.values(run_requested_at=func.clock_timestamp(), **values)
                )
        except TransientError:
            return False
        return True

    async def end(self, agent: Agent, since: int) -> ScenarioRun:
        """Wait for the end of the iteration, and check it."""
        await self.wait_until_ended(agent)
        faults_at_end = await self._lasting_faults(agent, since)
        async with self.database.transaction() as session:
            result = await load_result(session, GraphScope(agent.owner_id, agent.id))
        return ScenarioRun(result, faults_at_end, self.sandbox.billed(), self.sandbox.repeated())

    async def run(self, seed: int, kind: type[Mission] = Mission) -> ScenarioRun:
        """Run one iteration from start to end."""
        since = await self.next_sequence()
        return await self.end(await self.begin(seed, kind), since)

    async def next_sequence(self) -> int:
        return (await self.bus.jetstream.stream_info(STREAM)).state.last_seq + 1

    async def wait_until_working(self, agent: Agent, kind: StepKind) -> None:
        """Wait until a step of that kind is running."""

        async def look() -> bool:
            async with self.database.transaction() as session:
                is_running = (Step.kind == kind) & (Step.status == StepStatus.RUNNING)
                running_steps = (
                    select(Step.id).where(Step.agent_id == agent.id, is_running).limit(1)
                )
                return await session.scalar(running_steps) is not None

        await wait_until(look, what=f"a step of kind {kind} to run")

    async def reaches_statement(self, name: str, agent: Agent) -> bool:
        """Wait until the replica kills itself at its statement; False if the iteration ends before it."""

        async def look() -> bool:
            return not self.installation.is_statement_armed(name) or await self._has_ended(agent)

        await wait_until(
            look,
            what=f"the {name} to reach its statement or the iteration to end",
            seconds=PATIENCE_SECONDS,
        )
        return not self.installation.disarm_statement(name)

    async def in_flight_at_kill(self, name: str) -> int:
        """Wait for the replica to be killed; return the number of calls it had in flight.

        The leases of the dead process last until the ledger has been read.
        """
        return await self.in_flight(await self.wait_for_exit(name, exit_code=-signal.SIGKILL))

    async def wait_for_kill(self, names: Collection[str]) -> int:
        """Wait until one of these replicas is killed; return its pid."""
        return await self._first_exit(names, -signal.SIGKILL)

    async def wait_for_exit(self, name: str, *, exit_code: int) -> int:
        """Wait until the replica exits with that code; return its pid."""
        return await self._first_exit({name}, exit_code)

    async def _first_exit(self, names: Collection[str], exit_code: int) -> int:
        async def look() -> Died | None:
            deaths = [
                death
                for death in self.installation.deaths[self._deaths_seen :]
                if death.name in names
            ]
            return deaths[0] if deaths else None

        death = await wait_until(look, what=f"one of {', '.join(sorted(names))} to end")
        assert death is not None
        assert death.exit_code == exit_code
        self._deaths_seen = len(self.installation.deaths)
        return death.pid

    async def in_flight(self, pid: int | None = None) -> int:
        """Number of calls without a committed response, of the steps that the process has leased, or of all."""
        owner = Step.lease_owner
        is_leased = owner.is_not(None) if pid is None else owner.endswith(f":{pid}")
        async with self.database.transaction() as session:
            count = await session.scalar(
                select(func.count())
                .select_from(Call)
                .join(Step, Step.id == Call.step_id)
                .where(Call.answered_at.is_(None), is_leased)
            )
        return count or 0

    async def wait_until_idle(self, consumer: str) -> None:
        """Wait until the consumer has no pending or unacknowledged messages."""

        async def look() -> bool:
            try:
                info = await self.bus.jetstream.consumer_info(STREAM, consumer)
            except (NatsError, TimeoutError):
                return False
            return not info.num_pending and not info.num_ack_pending

        await wait_until(
            look, what=f"the {consumer} to have nothing to do", seconds=PATIENCE_SECONDS
        )

    async def wait_until_frozen(self, name: str) -> int:
        """Wait until the replica has stopped itself; return its pid."""
        pid = self.installation.process_pool.pids()[name]

        async def look() -> bool:
            return psutil.Process(pid).status() == psutil.STATUS_STOPPED

        await wait_until(look, what=f"the {name} to freeze", seconds=PATIENCE_SECONDS)
        return pid

    async def wait_for_event(self, subject: str, agent: Agent, since: int) -> None:
        """Wait until an event of that subject and agent is on the stream."""

        async def look() -> bool:
            return any(
                event.subject == subject and event.agent_id == agent.id
                for event, _ in await list_events_since(self.bus, since)
            )

        await wait_until(look, what=f"{subject} to be published")

    async def wait_until_ended(self, agent: Agent) -> None:
        await wait_until(
            lambda: self._has_ended(agent), what="the iteration to end", seconds=PATIENCE_SECONDS
        )

    async def _lasting_faults(self, agent: Agent, since: int) -> tuple[str, ...]:
        """Faults that remain after a while: the last events are published after the state is committed."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            events = await list_events_since(self.bus, since)
            async with self.database.transaction() as session:
                messages = await faults(session, events, agent.id)
            if not messages or time.monotonic() > deadline:
                return tuple(messages)
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    async def _has_ended(self, agent: Agent) -> bool:
        ended_iteration = select(Iteration.id).where(
            Iteration.agent_id == agent.id, Iteration.status != IterationStatus.RUNNING
        )
        try:
            async with self.database.transaction() as session:
                return await session.scalar(ended_iteration) is not None
        except TransientError:
            return False
