"""Many workers on the steps of a few agents: they take over steps, die in the middle, and make paid calls."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from sqlalchemy import func, select

from shared.billing.budgets import BudgetUsedUpError
from shared.database.engine import Database
from shared.database.tables import Agent, Step
from shared.enums import Phase, StepKind, StepStatus
from shared.errors import RetrySoonError, TransientError
from shared.llm.phase_run import PhaseRun
from shared.llm.provider import Model
from shared.llm.tool_loop import ToolLoop
from shared.runtime.providers import create_model, create_search_client
from shared.runtime.settings import Settings
from shared.web_search.client import SearchClient
from shared.web_search.tools import knowledge_acquisition
from shared.workflow import iterations, leases, steps
from shared.workflow.leases import Lease, LeaseLostError
from tests.support import claims
from tests.support.claims import Claim, Claimed
from tests.support.factories import make_agent, make_iteration
from tests.support.sandbox_control import Sandbox

LEASE_SECONDS: Final = 2.0
LAPSING_SECONDS: Final = 0.05
"""Of leases that are not renewed: their worker continues beside the one that took over the step."""
LOOK_AGAIN_SECONDS: Final = 0.2
MAX_REST_SECONDS: Final = 1.0
"""Of a released step, however long its error wants it to wait."""
WORK_SECONDS: Final = 240.0
"""After this time the steps should have ended, on a busy machine too."""
OPEN: Final = (StepStatus.PENDING, StepStatus.RUNNING)
QUERY: Final = {"objective": "lithium", "reasoning": "why not", "search_hints": []}


def script_model(sandbox_control: Sandbox, chance: random.Random) -> None:
    """Script steps that search twice in parallel and once more; some responses are late, refused, lost or cut off."""

    def search_calls(*queries: str) -> dict[str, Any]:
        calls = [{"name": "tavilySearch", "arguments": {"query": query}} for query in queries]
        return {"tool_calls": calls, "times": None}

    sandbox_control.script(
        {"contains": "third query", "content": "done", "times": None},
        {"contains": "second query", **search_calls("third query")},
        search_calls("first query", "second query"),
    )
    late = {"kind": "latency", "always": True, "latency_seconds": 0.03}
    troubles: list[dict[str, Any]] = [
        {"status": 500},
        {"status": 429, "retry_after_seconds": 0.01},
        {"kind": "cut"},
    ]
    sandbox_control.faults(
        late,
        *(
            {"kind": "status", "nth": chance.randint(1, 150), **chance.choice(troubles)}
            for _ in range(20)
        ),
    )


@dataclass
class WorkerPool:
    """So many workers on `agents`' steps; workers die and are replaced until `deaths` are used up."""

    settings: Settings
    agents: Sequence[Agent]
    chance: random.Random
    workers: int
    deaths: int
    happened: Counter[str] = field(default_factory=Counter)

    async def work(self) -> None:
        """Run until every step has ended. Raises AssertionError if that takes longer than WORK_SECONDS."""
        async with self._open_pools() as pools:
            try:
                # A worker that fails ends the others too: none works on beside the next test.
                async with asyncio.timeout(WORK_SECONDS), asyncio.TaskGroup() as group:
                    for number in range(self.workers):
                        group.create_task(self._run_workers(pools[number % len(pools)]))
            except TimeoutError:
                left = await pools[0].open_steps()
                raise AssertionError(
                    f"steps are open after {WORK_SECONDS:g} s: {left}; {dict(self.happened)}"
                ) from None

    async def _run_workers(self, equipment: "Equipment") -> None:
        """Run one worker after another."""
        while self.deaths:
            self.deaths -= 1
            worker = asyncio.create_task(self._worker(equipment))
            await asyncio.wait({worker}, timeout=self.chance.uniform(0.02, 0.6))
            if worker.done():
                await worker
                return
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)
            self.happened["killed"] += 1
        await self._worker(equipment)

    async def _worker(self, equipment: "Equipment") -> None:
        while True:
            try:
                step_ids = await equipment.open_steps()
                if not step_ids:
                    return
                claim = await self._claim(equipment, self.chance.choice(step_ids))
            except RetrySoonError:
                # A busy machine: no connection was free in time.
                self.happened["no connection"] += 1
                continue
            if not isinstance(claim, Claimed):
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
                continue
            if claim.lease.epoch > 1:
                self.happened["taken over"] += 1
            self.happened[await self._attempt_step(equipment, claim.lease)] += 1

    async def _claim(self, equipment: "Equipment", step_id: UUID) -> Claim:
        seconds = LAPSING_SECONDS if self.chance.random() < 0.2 else LEASE_SECONDS
        async with equipment.database.transaction() as transaction:
            return await claims.claim(transaction, step_id, "worker", seconds=seconds)

    async def _attempt_step(self, equipment: "Equipment", lease: Lease) -> str:
        """Work on the step; return how the attempt ended."""
        try:
            work = equipment.search_and_end(lease)
            if lease.seconds == LAPSING_SECONDS:
                await work
            else:
                await leases.run_while_renewing(equipment.database, lease, work)
        except LeaseLostError:
            return "lost"
        except BudgetUsedUpError as error:
            with suppress(LeaseLostError, RetrySoonError):
                async with equipment.database.transaction() as session:
                    await steps.fail(session, lease, str(error), attempts=1)
            return "refused"
        except TransientError as error:
            rest_seconds = min(error.retry_in_seconds or 0.0, MAX_REST_SECONDS)
            with suppress(LeaseLostError, RetrySoonError):
                async with equipment.database.transaction() as session:
                    await steps.release(
                        session, lease, str(error), attempts=0, rest_seconds=rest_seconds
                    )
            return "released"
        return "ended"

    @asynccontextmanager
    async def _open_pools(self) -> AsyncIterator[list["Equipment"]]:
        """Resources as of four processes."""
        pools = [Equipment.of(self.settings, number) for number in range(4)]
        try:
            yield pools
        finally:
            for equipment in pools:
                await equipment.close()


@dataclass(frozen=True)
class Equipment:
    database: Database
    model: Model
    search: SearchClient

    @classmethod
    def of(cls, settings: Settings, number: int) -> "Equipment":
        database = Database(settings.database_url, name=f"worker-{number}", pool_size=8)
        return cls(
            database, create_model(settings, database), create_search_client(settings, database)
        )

    async def open_steps(self) -> list[UUID]:
        async with self.database.transaction() as session:
            step_ids = await session.scalars(
                select(Step.id).where(Step.kind == StepKind.QUERY, Step.status.in_(OPEN))
            )
            return list(step_ids)

    async def search_and_end(self, lease: Lease) -> None:
        async with self.database.transaction() as session:
            agent = await session.get_one(Agent, lease.agent_id)
        run = PhaseRun(self.model, lease, agent, Phase.KNOWLEDGE_ACQUISITION, "Go on.")
        await ToolLoop(run, knowledge_acquisition(self.search)).run()
        async with leases.leased_transaction(self.database, lease) as session:
            await steps.end(session, lease, {})

    async def close(self) -> None:
        await self.model.provider.close()
        await self.search.close()
        await self.database.close()


async def agents_with_work(database: Database, *, agents: int, steps_each: int) -> list[Agent]:
    created = [await make_agent(database, name=f"Agent {number}") for number in range(agents)]
    for agent in created:
        iteration_start = await make_iteration(database, agent)
        async with database.transaction() as session:
            queries = [{**QUERY, "number": number} for number in range(steps_each)]
            await iterations.plan_steps(
                iteration_start.iteration, queries=queries, insights=[]
            ).execute(session)
    return created


async def failed_steps(database: Database) -> int:
    async with database.transaction() as session:
        count = select(func.count()).where(Step.status == StepStatus.FAILED)
        return (await session.execute(count)).scalar_one()
