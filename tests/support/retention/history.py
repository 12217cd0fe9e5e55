"""Iterations of an agent without services: real rows of steps, phase runs, contexts, calls and budgets, with little text."""

from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import Final
from uuid import UUID, uuid4

from sqlalchemy import func, select, text, update

from shared.agents import contexts
from shared.agents.contexts import StepGroup
from shared.billing import call_ledger, reservations
from shared.billing.call_ledger import CallAnswer, CallRequest
from shared.database import ids
from shared.database.engine import Database
from shared.database.tables import Agent, Call, DeadLetter, Interaction, Iteration, Step
from shared.database.tables.billing import Context
from shared.database.transaction import Transaction
from shared.enums import CallKind, IterationStatus, Phase, Stage, StepKind, StepStatus
from shared.errors import RetrySoonError
from shared.llm import phase_run_store
from tests.support.factories import make_iteration

MODELS: Final = ("small", "large")
SYSTEM_PROMPT: Final = "You work for the agent. " * 20
MESSAGE: Final = {
    "content": "It is so. " * 30,
    "tool_calls": [{"id": "1", "function": {"name": "addGraphNode", "arguments": "{}"}}],
}
USE: Final = {
    "type": "tool_result",
    "tool_call_id": "1",
    "name": "addGraphNode",
    "result": {"id": "n1"},
}
WORDS: Final = ("lithium", "cobalt", "nickel", "copper", "graphite", "Chile", "Ghana", "Peru")
_TIMES: Final = {
    "iterations": ("started_at", "deadline_at", "stage_changed_at", "ended_at", "end_published_at"),
    "steps": ("requested_at", "first_requested_at", "started_at", "ended_at", "retry_requested_at"),
    "llm_interactions": ("created_at", "completed_at"),
    "calls": ("started_at", "sent_at", "answered_at"),
    "contexts": ("created_at",),
    "dead_letters": ("created_at", "stored_at", "retry_requested_at"),
}


@dataclass(frozen=True)
class StepIds:
    """What a call needs to know of its step."""

    step_id: UUID
    agent_id: UUID
    iteration_id: UUID | None


@dataclass
class History:
    database: Database
    agent: Agent
    chance: Random = field(default_factory=lambda: Random(1))
    texts: dict[UUID, str] = field(default_factory=dict)
    """By phase run, the message that it was given."""

    async def iterate(self, *, queries: int = 1, is_open: bool = False) -> Iteration:
        """Make an iteration whose steps have ended, unless it is open."""
        started = await make_iteration(self.database, self.agent)
        iteration_id = started.iteration.id
        await self._work(started.observe.id, iteration_id, Phase.OBSERVER)
        for index in range(queries):
            step_id = ids.step_id(iteration_id, StepKind.QUERY, index)
            async with self.database.transaction() as session:
                await session.insert(
                    Step,
                    id=step_id,
                    iteration_id=iteration_id,
                    agent_id=self.agent.id,
                    kind=StepKind.QUERY,
                    index=index,
                    status=StepStatus.PENDING,
                )
            await self._work(step_id, iteration_id, Phase.KNOWLEDGE_ACQUISITION)
        if not is_open:
            await self.end(iteration_id)
        async with self.database.transaction() as session:
            return await session.get_one(Iteration, iteration_id)

    async def end(self, iteration_id: UUID) -> None:
        now = func.clock_timestamp()
        async with self.database.transaction() as session:
            await session.execute(
                update(Step)
                .where(Step.iteration_id == iteration_id, Step.status != StepStatus.FAILED)
                .values(status=StepStatus.COMPLETED, ended_at=now)
            )
            await session.execute(
                update(Iteration)
                .where(Iteration.id == iteration_id)
                .values(
                    status=IterationStatus.COMPLETED,
                    stage=Stage.ENDED,
                    ended_at=now,
                    end_published_at=now,
                )
            )

    async def converse(self, turn: int) -> UUID:
        """Answer a question; returns the step."""
        step_id = ids.step_id(self.agent.id, StepKind.CONVERSE, turn)
        async with self.database.transaction() as session:
            await session.insert(
                Step,
                id=step_id,
                agent_id=self.agent.id,
                kind=StepKind.CONVERSE,
                index=turn,
                status=StepStatus.COMPLETED,
                ended_at=func.clock_timestamp(),
            )
        await self._work(step_id, None, Phase.CONVERSATION)
        return step_id

    async def fail_step(self, iteration_id: UUID) -> UUID:
        """The last step of the iteration has failed, with a dead letter; returns the step."""
        async with self.database.transaction() as session:
            step_id = (
                await session.execute(
                    select(Step.id)
                    .where(Step.iteration_id == iteration_id, Step.kind == StepKind.QUERY)
                    .limit(1)
                )
            ).scalar_one()
            await session.execute(
                update(Step)
                .where(Step.id == step_id)
                .values(status=StepStatus.FAILED, ended_at=func.clock_timestamp())
            )
            await session.insert(
                DeadLetter,
                id=uuid4(),
                service="researcher",
                subject="query.requested",
                payload=b"",
                step_id=step_id,
                code="gone",
                error="It failed.",
                attempts=1,
            )
        return step_id

    async def pass_days(self, days: float) -> None:
        """Let all that is not covered by the journal of the graph become older."""
        async with self.database.transaction() as session:
            for table, columns in _TIMES.items():
                shifts = ", ".join(
                    f"{name} = {name} - make_interval(secs => :by)" for name in columns
                )
                await session.execute(text(f"update {table} set {shifts}"), {"by": days * 86_400})

    async def assert_texts_can_be_read(self) -> int:
        """The number of phase runs with texts. Each has what it was given."""
        async with self.database.snapshot() as session:
            runs = list(
                await session.scalars(
                    select(Interaction).where(
                        Interaction.agent_id == self.agent.id, Interaction.message.is_not(None)
                    )
                )
            )
            for run_id, request in (await phase_run_store.load_requests(session, runs)).items():
                assert request["messages"][0]["content"] == self.texts[run_id]
            keys = await session.execute(select(Context.agent_id, Context.sha256))
            await contexts.load_texts(session, [(row.agent_id, row.sha256) for row in keys])
        return len(runs)

    async def _work(self, step_id: UUID, iteration_id: UUID | None, phase: Phase) -> None:
        of_step = StepIds(step_id, self.agent.id, iteration_id)
        context = f"<graph>{' '.join(self.chance.choices(WORDS, k=40))}</graph>"
        message = f"{context}\nNow {self.chance.random()}"
        stored = contexts.as_difference(self.database, self.agent.id, context)
        run_id = ids.interaction_id(step_id, phase)
        self.texts[run_id] = message
        async with self.database.transaction() as session:
            if stored.required_sha256 is not None and not await _is_stored(
                session, self.agent.id, stored.required_sha256
            ):
                stored = contexts.in_full(context)
            if stored.data is not None:
                await session.execute(
                    text(
                        "insert into contexts (agent_id, sha256, base_sha256, depth, data)"
                        " values (:agent, :sha256, :base, :depth, :data) on conflict do nothing"
                    ),
                    {
                        "agent": self.agent.id,
                        "sha256": stored.sha256,
                        "base": stored.base_sha256,
                        "depth": stored.depth,
                        "data": stored.data,
                    },
                )
            await session.insert(
                Interaction,
                id=run_id,
                agent_id=self.agent.id,
                iteration_id=iteration_id,
                step_id=step_id,
                phase=phase,
                model=self.chance.choice(MODELS),
                system_prompt=SYSTEM_PROMPT,
                request={"tools": ["finish"]},
                message=contexts.compress(message, context.encode()),
                context_sha256=stored.sha256,
                completed_at=func.clock_timestamp(),
            )
            if iteration_id is not None:
                with suppress(RetrySoonError):  # only the first one of a group is pinned
                    group = StepGroup(iteration_id, phase, 0)
                    await contexts.pinning(group, self.agent.id, stored.sha256).execute(session)
            for kind in self.chance.choices((CallKind.LLM, CallKind.SEARCH), k=3):
                await self._pay(session, of_step, run_id, phase, kind)
        if stored.data is not None:
            contexts.remember(self.database, self.agent.id, context, stored)

    async def _pay(
        self, session: Transaction, step: StepIds, run_id: UUID, phase: Phase, kind: CallKind
    ) -> None:
        model = self.chance.choice(MODELS) if kind is CallKind.LLM else None
        request = CallRequest(kind, {"n": self.chance.random()}, {"query": "lithium"}, model)
        row = call_ledger.new_row(step, run_id, phase, request)
        await call_ledger.open_call(session, row)
        attempts = await reservations.reserve(session, self.agent.id, {row["id"]: Decimal(1)})
        assert attempts is not None
        cost = self.chance.choice((None, Decimal("0.00012345"), Decimal("0.25")))
        is_model = kind is CallKind.LLM
        answer = CallAnswer(
            {"message": MESSAGE} if is_model else {"results": [{"url": "https://a.example"}]},
            self.chance.randrange(5000) if is_model else None,
            self.chance.randrange(500) if is_model else None,
            cost,
            [{"type": "answer", "call_id": str(row["id"])}, USE] if is_model else (),
        )
        for query in call_ledger.answer_queries(row["id"], answer):
            await query.execute(session)
        closing = reservations.settled(attempts[0], cost)
        await reservations.closing_query(closing).execute(session)


async def _is_stored(session: Transaction, agent_id: UUID, sha256: bytes) -> bool:
    found = select(Context.depth).where(Context.agent_id == agent_id, Context.sha256 == sha256)
    return await session.scalar(found) is not None


async def texts_of(database: Database, iteration_id: UUID) -> tuple[int, int, int]:
    """How many phase runs, and answers of calls, are there with their texts, and how many steps."""
    async with database.snapshot() as session:
        runs = select(func.count(Interaction.message)).where(
            Interaction.iteration_id == iteration_id
        )
        answers = select(func.count(Call.answer)).where(Call.iteration_id == iteration_id)
        steps = select(func.count(Step.id)).where(Step.iteration_id == iteration_id)
        counts = [(await session.execute(each)).scalar_one() for each in (runs, answers, steps)]
    return counts[0], counts[1], counts[2]
