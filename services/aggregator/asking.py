"""The steps of a further round: queries made of what Analyzers lacked, and insights asked again."""

from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncSession

from services.aggregator.loading import Rows
from services.aggregator.state import NewInsight, NewQuery
from shared.store import joining
from shared.store.joining import StepRow
from shared.store.words import StepKind


async def make_queries(
    session: AsyncSession, rows: Rows, queries: Sequence[NewQuery]
) -> list[StepRow]:
    lacking = {each.id: each for each in rows.requests}
    made = []
    for query in queries:
        request = lacking[query.part.answers[0]]
        given = {
            "objective": request.objective,
            "reasoning": request.reasoning,
            "search_hints": request.search_hints,
            "answers": [str(request_id) for request_id in query.part.answers],
            "round": query.part.round,
        }
        made.append(
            await joining.add(
                session, rows.iteration, StepKind.QUERY, query.index, given, rows.work.now
            )
        )
    return made


async def make_insights(
    session: AsyncSession, rows: Rows, insights: Sequence[NewInsight]
) -> list[StepRow]:
    """Each with the input of the insight that it is again, and what has been found since."""
    lacking = {each.id: each for each in rows.requests}
    made = []
    for insight in insights:
        planned = rows.step(insight.part.planned_id)
        assert planned is not None, f"insight {insight.part.planned_id} is asked again, and gone"
        given = planned.input | {
            "again_of": str(planned.id),
            "answered": [
                {"id": str(request_id), "objective": lacking[request_id].objective}
                for request_id in insight.answered
            ],
            "round": insight.part.round,
        }
        made.append(
            await joining.add(
                session, rows.iteration, StepKind.INSIGHT, insight.index, given, rows.work.now
            )
        )
    return made
