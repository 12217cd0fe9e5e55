"""Answers of a model with calls of the graph's tools, which run together as in the tool loop."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import select

from shared.database.engine import Database
from shared.database.statements import Batch
from shared.database.tables import GraphName
from shared.database.transaction import Transaction
from shared.database.unit_of_work import UnitOfWork
from shared.llm.toolset import StateCall, prepare_state_calls
from shared.tools import Json, StateTool
from tests.support import canonical_graph
from tests.support.fences import EVERYONE
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.tooling import find_tool

Answer = Sequence[tuple[str, Json]]
"""Names of tools with their arguments."""


def calls_of(tools: Sequence[StateTool[Any]], answer: Answer) -> list[StateCall]:
    calls = []
    for name, arguments in answer:
        tool = find_tool(list(tools), name)
        try:
            calls.append(StateCall(tool, tool.arguments.model_validate(arguments)))
        except ValueError as fault:
            calls.append(StateCall(tool, None, f"{len(str(fault))} characters of complaint"))
    return calls


async def graph_state(session: Transaction, graph: AgentGraph) -> Json:
    """The graph, and the names that are reserved."""
    names = await session.execute(
        select(GraphName.type, GraphName.key, GraphName.name, GraphName.node_id)
        .where(GraphName.agent_id == graph.scope.agent_id)
        .order_by(GraphName.type, GraphName.key)
    )
    return {
        **await canonical_graph.canonical(session, graph.scope),
        "names": [tuple(row) for row in names],
    }


async def run_together(
    database: Database,
    calls: Sequence[StateCall],
    agent_id: UUID,
    before_commit: Callable[[], None] = lambda: None,
) -> list[Json]:
    """The result of each call. `before_commit` is called while other writers of the agent have to wait."""
    unit = UnitOfWork(database, EVERYONE)
    batch = Batch()
    run_calls = prepare_state_calls(batch, agent_id, calls)
    async with unit.transaction(batch) as transaction:
        results = await run_calls(transaction)
        before_commit()
    await unit.commit()
    return results
