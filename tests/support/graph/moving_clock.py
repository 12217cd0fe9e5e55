"""An agent's clock that a test moves, by its archive date."""

from datetime import date

from sqlalchemy import text

from tests.support.graph.agent_graph import AgentGraph


async def set_day(agent_graph: AgentGraph, day: date, *, is_passing: bool = True) -> None:
    """Makes `day` the agent's date: as if time had passed, or as its owner changes it."""
    async with agent_graph.database.transaction() as session:
        if is_passing:
            # A change by the owner makes all boundaries due at once.
            await session.execute(text("set local session_replication_role = replica"))
        await session.execute(
            text("update agents set archive_date = :day where id = :agent"),
            {"day": day, "agent": agent_graph.scope.agent_id},
        )
