"""One agent with two of each resource that the API lists."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, func, select, update

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
from shared.database.transaction import Transaction
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
from shared.workflow.investigations import Answer, MissingData
from shared.workflow.iterations import StartedIteration
from tests.support.api.rows import add_advice, add_evidence, add_retracted_page, get_agent
from tests.support.factories import make_agent, make_iteration
from tests.support.forecast_terms import ADVICE_TERMS, ANALYSIS_TERMS
from tests.support.second_analysis import add_second_analysis
from tests.support.table_rows import add

AGENT: Final = "Full"
PLAN: Final = {
    "queries": [{"objective": "Who buys lithium?", "reasoning": "Nobody is known.", "search": []}],
    "insights": [],
}
SUBJECT: Final = "iteration.started"
ANSWER_TEXT: Final = "It buys lithium."


@dataclass(frozen=True)
class FullAgent:
    agent_id: UUID
    iteration_id: UUID
    """The running iteration."""
    ended_iteration_id: UUID
    interaction_id: UUID
    """With two model responses and two tool results, one of them free."""
    node_id: UUID
    edge_id: UUID
    analysis_id: UUID
    advice_id: UUID
    item_id: UUID
    dead_letter_id: UUID
    """A dead letter without a step."""
    source: str
    """The URL of a retracted page."""
    source_id: UUID
    """A page that is not retracted."""
    retraction_id: UUID


async def create_full_agent(database: Database, name: str = AGENT) -> FullAgent:
    """Creates the agent for the owner in the default settings."""
    agent = await make_agent(database, name=name)
    ended = await make_iteration(database, agent)
    await end_iteration(database, ended)
    running = await make_iteration(database, await get_agent(database, name))
    interaction_id = await add_phase_run(database, ended)
    await add_phase_run(database, running)
    await add_advice(database, agent)
    await add_conclusions(database, agent)
    source_id = await add_evidence(database, agent)
    await add_investigation_requests(database, ended)
    unreadable = b"\xff" + running.iteration.id.bytes
    await _store_dead_letters(database, running, unreadable)
    retracted = await add_retracted_page(database, agent, f"https://news.example.org/{agent.id}")
    async with database.transaction() as session:
        return FullAgent(
            agent_id=agent.id,
            iteration_id=running.iteration.id,
            ended_iteration_id=ended.iteration.id,
            interaction_id=interaction_id,
            node_id=await _id(session, GraphNode, agent, GraphNode.type == "Thing"),
            edge_id=await _id(session, GraphEdge, agent, GraphEdge.type == "buys"),
            analysis_id=await _id(session, GraphNode, agent, GraphNode.type == ANALYSIS_TYPE),
            advice_id=await _id(session, GraphNode, agent, GraphNode.type == ADVICE_TYPE),
            item_id=await _id(session, InboxItem, agent),
            dead_letter_id=ids.dead_letter_id(SUBJECT, unreadable),
            source=retracted.url,
            source_id=source_id,
            retraction_id=retracted.retraction_id,
        )


async def end_iteration(database: Database, started: StartedIteration) -> None:
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


async def add_phase_run(database: Database, started: StartedIteration) -> UUID:
    """Adds an interaction with its calls to the iteration's first step; returns its id."""
    first, search, last = (uuid4() for _ in range(3))
    result = {"type": "tool_result", "tool_call_id": "t1"}
    events_of_search: list[Json] = [
        {**result, "name": "tavilySearch", "call_id": str(search)},
        {**result, "name": "queryGraph", "result": {"nodes": []}},
    ]
    tool_call = {"id": "t1", "function": {"name": "tavilySearch", "arguments": '{"query": "x"}'}}
    messages = {
        first: {"role": "assistant", "content": None, "tool_calls": [tool_call]},
        last: {"role": "assistant", "content": ANSWER_TEXT},
    }
    interaction = Interaction(
        **_step_ids(started),
        id=uuid4(),
        phase=Phase.OBSERVER,
        model="m",
        system_prompt="You plan.",
        request={"messages": [{"role": "user", "content": "Plan."}], "tools": []},
    )
    async with database.transaction() as session:
        await add(session, interaction)
        for call_id in (first, search, last):
            if call_id == search:
                call = _call(interaction, search, CallKind.SEARCH, {"results": []})
                call.events = events_of_search
            else:
                answer = {"message": messages[call_id], "finish_reason": "stop"}
                call = _call(interaction, call_id, CallKind.LLM, answer)
                call.events = [{"type": "answer", "call_id": str(call_id)}]
            await add(session, call)
    return interaction.id


def _step_ids(started: StartedIteration) -> dict[str, UUID]:
    return {
        "agent_id": started.iteration.agent_id,
        "iteration_id": started.iteration.id,
        "step_id": started.observe.id,
    }


def _call(interaction: Interaction, call_id: UUID, kind: CallKind, answer: Json) -> Call:
    is_model_call = kind is CallKind.LLM
    return Call(
        id=call_id,
        agent_id=interaction.agent_id,
        iteration_id=interaction.iteration_id,
        step_id=interaction.step_id,
        interaction_id=interaction.id,
        kind=kind,
        phase=interaction.phase,
        model="m" if is_model_call else None,
        request_hash=str(call_id),
        request={"about": "lithium"},
        answer=answer,
        input_tokens=7 if is_model_call else None,
        answered_at=func.clock_timestamp(),
    )


async def add_conclusions(database: Database, agent: Agent) -> None:
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
            **ANALYSIS_TERMS,
        )
        second = await add_second_analysis(session, scope, maker)
        columns = {"agent_id": agent.id, "source_id": analysis, "target_id": maker}
        await session.insert(GraphEdge, **columns, id=uuid4(), type="about")
        await conclusions.add_advice(
            session,
            scope,
            name="Buy of Halden",
            action="BUY",
            summary="It grows.",
            content=f"As it grows [node:{analysis}] [node:{second}].",
            **ADVICE_TERMS,
        )


async def add_investigation_requests(database: Database, started: StartedIteration) -> None:
    """Adds one open and one answered investigation request."""
    step = started.observe
    async with database.transaction() as session:
        request_ids = [
            await investigations.create_request(
                step.agent_id,
                started.iteration.id,
                step.id,
                MissingData(objective, "Nobody is known.", ("lithium",)),
            ).execute(session)
            for objective in ("Who mines lithium?", "Who buys lithium?")
        ]
        await investigations.mark_answered(
            step.agent_id, dict.fromkeys(request_ids[1:], Answer()), by=step.id
        ).execute(session)


async def _store_dead_letters(
    database: Database, started: StartedIteration, unreadable: bytes
) -> None:
    async with database.transaction() as session:
        readable = f'{{"iteration_id": "{started.iteration.id}"}}'.encode()
        for payload, step_id in ((unreadable, None), (readable, started.observe.id)):
            await dead_letters.store(
                session,
                service="observer",
                subject=SUBJECT,
                payload=payload,
                step_id=step_id,
                code="unreadable_event",
                error="no event",
                attempts=1,
            )


async def _id(
    session: Transaction, table: type, agent: Agent, *conditions: ColumnElement[bool]
) -> UUID:
    columns = table.__table__.columns  # type: ignore[attr-defined]  # any of the tables
    query = select(columns.id).where(columns.agent_id == agent.id, *conditions)
    row_id: UUID = (await session.scalars(query.order_by(columns.created_at).limit(1))).one()
    return row_id
