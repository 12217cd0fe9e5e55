"""The worlds in which operations of the stores are executed, for the walk through failures."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final
from uuid import UUID, uuid4

from sqlalchemy import text

from shared.billing import call_ledger
from shared.billing.call_ledger import CallAnswer, CallRequest, Holding, NewRow
from shared.billing.reservations import Attempt
from shared.database.engine import Database
from shared.database.statements import Batch
from shared.enums import CallKind, Phase
from shared.llm.phase_run_store import NewRun
from shared.workflow import dead_letters, investigations, iterations, steps
from shared.workflow.investigations import MissingData
from shared.workflow.iterations import IterationRow, StepRow
from shared.workflow.leases import Lease
from tests.support import claims
from tests.support.factories import make_agent, make_iteration

ANSWER: Final = CallAnswer({"said": "done"}, 3, 4, Decimal("0.02"))
MAX_USD: Final = Decimal("0.10")
QUERY: Final = {"objective": "lithium", "reasoning": "why not", "search_hints": []}
INSIGHT: Final = {"observation": "a", "relevant_node_ids": [], "synthesis_direction": "b"}
MISSING: Final = MissingData("Output of Togo", "It is lacking.")


@dataclass(frozen=True)
class World:
    """An agent with a running iteration: its observe step is claimed, of its queries the first is pending, and the second
    has failed with a dead letter. Another agent is due.
    """

    database: Database
    agent_id: UUID
    iteration: IterationRow
    lease: Lease
    """Of the observe step."""
    query: StepRow
    failed: StepRow
    letter_id: UUID
    run: NewRun
    attempt: Attempt
    """Of an open call."""
    request_id: UUID

    def row(self, name: str) -> NewRow:
        """The row of a call of the observe step."""
        request = CallRequest(CallKind.LLM, {"name": name}, {"of": name}, "m")
        return call_ledger.new_row(self.lease, self.run.id, Phase.OBSERVER, request)

    @property
    def params(self) -> Mapping[str, Any]:
        """Parameters of SQL that prepares an operation."""
        return {"agent": self.agent_id}

    async def execute(self, sql: str) -> None:
        async with self.database.transaction() as transaction:
            await transaction.execute(text(sql), self.params)


async def make_world(database: Database) -> World:
    agent = await make_agent(database, name="walked")
    started = await make_iteration(database, agent)
    await make_agent(database, name="due")
    async with database.transaction() as transaction:
        claim = await claims.claimed(transaction, started.observe.id, "worker")
        planning = iterations.plan_steps(
            started.iteration, queries=[QUERY, QUERY], insights=[INSIGHT]
        )
        query, failed, _ = sorted(
            await planning.execute(transaction), key=lambda step: (-ord(step.kind[0]), step.index)
        )
        failing = await claims.claimed(transaction, failed.id, "worker")
        failed = await steps.fail(transaction, failing.lease, "no", attempts=1)
        letter = {"service": "researcher", "subject": "query.requested", "code": "broken"}
        await dead_letters.store(
            transaction, **letter, payload=b"{}", error="no", attempts=1, step_id=failed.id
        )
        letters = await transaction.execute(text("select id from dead_letters"))
        letter_id = letters.scalar_one()
        run = NewRun(database, claim.lease, Phase.OBSERVER, model="m", system_prompt="", request={})
        await run.open_or_resume(transaction)
        request = await investigations.create_request(
            agent.id, started.iteration.id, started.observe.id, MISSING
        ).execute(transaction)
        row = await steps.iteration_query(query).execute(transaction)
    world = World(
        database,
        agent.id,
        row,
        claim.lease,
        query,
        failed,
        letter_id,
        run,
        Attempt(uuid4(), agent.id, 1, row.started_at.date(), MAX_USD),
        request,
    )
    async with database.transaction() as transaction:
        batch = Batch()
        opened = call_ledger.pay(
            batch,
            world.lease,
            (),
            [world.row("open")],
            {world.row("open")["id"]: MAX_USD},
            holding=Holding(),
        )
        await batch.execute(transaction)
    _, (attempt,) = opened.value
    return World(**{**vars(world), "attempt": attempt})
