"""Iterations whose steps a test plans and ends, and the events of the aggregator."""

from shared import derived_events
from shared.database.engine import Database
from shared.database.tables import Iteration
from shared.enums import StepKind
from shared.events.envelope import Event
from shared.workflow import iterations, steps
from shared.workflow.iterations import IterationRow
from tests.support import claims
from tests.support.factories import make_agent, make_iteration

QUERY = {"objective": "a", "reasoning": "b", "search_hints": []}


INSIGHT = {"observation": "a", "relevant_node_ids": [], "synthesis_direction": "b"}


async def plan_iteration(database: Database, *, queries: int = 0, insights: int = 0) -> Iteration:
    """An iteration whose Observer has just ended its step with a plan of that size."""
    start = await make_iteration(database, await make_agent(database))
    async with database.transaction() as session:
        claim = await claims.claimed(session, start.observe.id, "observer")
        await iterations.plan_steps(
            start.iteration, queries=[QUERY] * queries, insights=[INSIGHT] * insights
        ).execute(session)
        await steps.end(session, claim.lease, {})
        return await session.get_one(Iteration, start.iteration.id)


async def end_events(database: Database, iteration: Iteration, kind: StepKind) -> list[Event]:
    """The events that the steps of that kind publish at their end."""
    async with database.transaction() as session:
        ended_steps = await steps.list_steps(session, iteration.id, kind)
        return [(await derived_events.events_after_step(session, step))[0] for step in ended_steps]


async def reload_iteration(database: Database, iteration: Iteration | IterationRow) -> Iteration:
    async with database.transaction() as session:
        return await session.get_one(Iteration, iteration.id)


def subjects(events: list[Event]) -> list[str]:
    return [event.subject for event in events]
