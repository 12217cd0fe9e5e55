"""The steps of a further round: queries made of what Analyzers lacked, and insights asked again."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from services.aggregator.state import NewInsight, NewQuery
from shared.store import investigations, iterations
from shared.store.tables import Iteration, Step
from shared.store.words import StepKind


async def make_queries(
    session: AsyncSession, iteration: Iteration, queries: Sequence[NewQuery]
) -> None:
    lacking = {each.id: each for each in await investigations.of_iteration(session, iteration.id)}
    for query in queries:
        request = lacking[query.part.answers[0]]
        given = {
            "objective": request.objective,
            "reasoning": request.reasoning,
            "search_hints": request.search_hints,
            "answers": [str(request_id) for request_id in query.part.answers],
            "round": query.part.round,
        }
        await _ask(session, iteration, StepKind.QUERY, query.index, given)


async def make_insights(
    session: AsyncSession, iteration: Iteration, insights: Sequence[NewInsight]
) -> None:
    """Each with the input of the insight that it is again, and what has been found since."""
    lacking = {each.id: each for each in await investigations.of_iteration(session, iteration.id)}
    for insight in insights:
        planned = await session.get_one(Step, insight.part.planned_id)
        given = planned.input | {
            "again_of": str(planned.id),
            "answered": [
                {"id": str(request_id), "objective": lacking[request_id].objective}
                for request_id in insight.answered
            ],
            "round": insight.part.round,
        }
        await _ask(session, iteration, StepKind.INSIGHT, insight.index, given)


async def _ask(
    session: AsyncSession, iteration: Iteration, kind: StepKind, index: int, given: dict[str, Any]
) -> None:
    asked = iterations.asked_for(await iterations.clock(session))
    session.add(iterations.new_step(iteration, kind, index, input=given, **asked))
