"""One agent with something of everything that the api tells, two of each."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import ids
from shared.database.engine import Database
from shared.database.tables import (
    Agent,
    Call,
    GraphEdge,
    GraphNode,
    InboxItem,
    Interaction,
    Iteration,
    Step,
)
from shared.enums import (
    ADVICE_TYPE,
    ANALYSIS_TYPE,
    CallKind,
    IterationStatus,
    Phase,
    Stage,
    StepStatus,
)
from shared.graph.conclusions import conclusions
from shared.graph.scope import GraphScope
from shared.schemas.base import Json
from shared.workflow import dead_letters, investigations
from shared.workflow.investigations import MissingData
from shared.workflow.iterations import StartedIteration
from tests.support.api.rows import advise, rest_on_pages, retracted_page, row_of
from tests.support.committing import COMMITTED, SURE
from tests.support.making import make_agent, make_iteration

AGENT: Final = "Full"
PLAN: Final = {
    "queries": [{"objective": "Who buys lithium?", "reasoning": "Nobody is known.", "search": []}],
    "insights": [],
}
SUBJECT: Final = "iteration.started"
SAID: Final = "It buys lithium."


@dataclass(frozen=True)
class Full:
    agent_id: UUID
    iteration_id: UUID
    """That runs."""
    ended_iteration_id: UUID
    interaction_id: UUID
    """With two answers of the model and two results of a tool, one of them free."""
    node_id: UUID
    edge_id: UUID
    analysis_id: UUID
    advice_id: UUID
    item_id: UUID
    letter_id: UUID
    """About no step."""
    source: str
    """The URL of a page that is not believed."""
    source_id: UUID
    """Of a page that is."""
    retraction_id: UUID


async def full_agent(database: Database, name: str = AGENT) -> Full:
    """Of the owner that an api without other settings serves."""
    agent = await make_agent(database, name=name)
    ended = await make_iteration(database, agent)
    await end(database, ended)
    runs = await make_iteration(database, await row_of(database, name))
    interaction_id = await spoken(database, ended)
    await spoken(database, runs)
    await advise(database, agent)
    await conclude_more(database, agent)
    source_id = await rest_on_pages(database, agent)
    await lack(database, ended)
    unreadable = b"\xff" + runs.iteration.id.bytes
    await _keep_letters(database, runs, unreadable)
    page = await retracted_page(database, agent, f"https://news.example.org/{agent.id}")
    async with database.transaction() as session:
        return Full(
            agent_id=agent.id,
            iteration_id=runs.iteration.id,
            ended_iteration_id=ended.iteration.id,
            interaction_id=interaction_id,
            node_id=await _id(session, GraphNode, agent, GraphNode.type == "Thing"),
            edge_id=await _id(session, GraphEdge, agent, GraphEdge.type == "buys"),
            analysis_id=await _id(session, GraphNode, agent, GraphNode.type == ANALYSIS_TYPE),
            advice_id=await _id(session, GraphNode, agent, GraphNode.type == ADVICE_TYPE),
            item_id=await _id(session, InboxItem, agent),
            letter_id=ids.dead_letter_id(SUBJECT, unreadable),
            source=page.url,
            source_id=source_id,
            retraction_id=page.retraction_id,
        )


async def end(database: Database, started: StartedIteration) -> None:
    async with database.transaction() as session:
        await session.execute(
            update(Iteration)
            .where(Iteration.id == started.iteration.id)
            .values(
                status=IterationStatus.COMPLETED,
                stage=Stage.ENDED,
                ended_at=func.clock_timestamp(),
                observer_plan=PLAN,
            )
        )
        await session.execute(
            update(Step)
            .where(Step.iteration_id == started.iteration.id)
            .values(status=StepStatus.COMPLETED, result={}, ended_at=func.clock_timestamp())
        )


async def spoken(database: Database, started: StartedIteration) -> UUID:
    """An interaction in the iteration's first step, with its calls; its id."""
    first, search, last = (uuid4() for _ in range(3))
    result = {"type": "tool_result", "tool_call_id": "t1"}
    events = [
        {"type": "answer", "call_id": str(first)},
        {**result, "name": "tavilySearch", "call_id": str(search)},
        {**result, "name": "queryGraph", "result": {"nodes": []}},
        {"type": "answer", "call_id": str(last)},
    ]
    asked = {"id": "t1", "function": {"name": "tavilySearch", "arguments": '{"query": "x"}'}}
    said = {
        first: {"role": "assistant", "content": None, "tool_calls": [asked]},
        last: {"role": "assistant", "content": SAID},
    }
    interaction = Interaction(
        **_of(started),
        id=uuid4(),
        phase=Phase.OBSERVER,
        model="m",
        system_prompt="You plan.",
        request={"messages": [{"role": "user", "content": "Plan."}], "tools": []},
        events=events,
    )
    async with database.transaction() as session:
        session.add(interaction)
        await session.flush()
        for call_id, message in said.items():
            answer = {"message": message, "finish_reason": "stop"}
            session.add(_call(interaction, call_id, CallKind.LLM, answer))
        session.add(_call(interaction, search, CallKind.SEARCH, {"results": []}))
    return interaction.id


def _of(started: StartedIteration) -> dict[str, UUID]:
    return {
        "agent_id": started.iteration.agent_id,
        "iteration_id": started.iteration.id,
        "step_id": started.observe.id,
    }


def _call(interaction: Interaction, call_id: UUID, kind: CallKind, answer: Json) -> Call:
    of_model = kind is CallKind.LLM
    return Call(
        id=call_id,
        agent_id=interaction.agent_id,
        iteration_id=interaction.iteration_id,
        step_id=interaction.step_id,
        interaction_id=interaction.id,
        kind=kind,
        phase=interaction.phase,
        model="m" if of_model else None,
        request_hash=str(call_id),
        request={"about": "lithium"},
        answer=answer,
        input_tokens=7 if of_model else None,
        answered_at=func.clock_timestamp(),
    )


async def conclude_more(database: Database, agent: Agent) -> None:
    scope = GraphScope(agent.owner_id, agent.id)
    async with database.transaction() as session:
        maker = await _id(session, GraphNode, agent, GraphNode.name == "Halden Cells")
        analysis = await conclusions.add_analysis(
            session,
            scope,
            name="Halden grows",
            kind="pattern",
            summary="It grows.",
            content=f"Each year [node:{maker}].",
            **SURE,
        )
        of = {"agent_id": agent.id, "source_id": analysis, "target_id": maker}
        session.add(GraphEdge(**of, id=uuid4(), type="about"))
        await conclusions.add_advice(
            session,
            scope,
            name="Buy of Halden",
            action="BUY",
            summary="It grows.",
            content=f"As it grows [node:{analysis}].",
            **COMMITTED,
        )


async def lack(database: Database, started: StartedIteration) -> None:
    """One investigation request that is open, and one that was answered."""
    step = started.observe
    async with database.transaction() as session:
        made = [
            await investigations.create_request(
                session,
                step.agent_id,
                started.iteration.id,
                step.id,
                MissingData(objective, "Nobody is known.", ("lithium",)),
            )
            for objective in ("Who mines lithium?", "Who buys lithium?")
        ]
        await investigations.mark_answered(session, step.agent_id, made[1:], by=step.id)


async def _keep_letters(database: Database, started: StartedIteration, unreadable: bytes) -> None:
    async with database.transaction() as session:
        readable = f'{{"iteration_id": "{started.iteration.id}"}}'.encode()
        for payload, step_id in ((unreadable, None), (readable, started.observe.id)):
            await dead_letters.store(
                session,
                actor="observer",
                subject=SUBJECT,
                payload=payload,
                step_id=step_id,
                code="unreadable_event",
                error="no event",
                attempts=1,
            )


async def _id(
    session: AsyncSession, table: type, agent: Agent, *conditions: ColumnElement[bool]
) -> UUID:
    columns = table.__table__.columns  # type: ignore[attr-defined]  # any of the tables
    wanted = select(columns.id).where(columns.agent_id == agent.id, *conditions)
    found: UUID = (await session.scalars(wanted.order_by(columns.created_at).limit(1))).one()
    return found
