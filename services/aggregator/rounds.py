"""What a further round looks for, and whom it asks again. Pure, as the join is.

A round is never decided twice: what it asks for stands in the state from then on, and is not asked for again.
"""

from collections.abc import Iterator
from typing import Final
from uuid import UUID

from services.aggregator.state import Lack, NewInsight, NewQuery, Part, State
from shared.store import ids
from shared.store.words import StepKind

QUERIES_A_ROUND: Final = 3


def queries_to_ask(state: State) -> tuple[NewQuery, ...]:
    """The queries of the next round; none where there may be none, or nothing is lacking that was not looked for."""
    if state.rests or state.round >= state.feedback_rounds:
        return ()
    first = len(state.of(StepKind.QUERY))
    return tuple(
        NewQuery(_query(state, first + number, request_ids), first + number)
        for number, request_ids in enumerate(_not_yet_asked(state)[:QUERIES_A_ROUND])
    )


def insights_to_ask_again(state: State) -> tuple[NewInsight, ...]:
    """Those insights that lacked what a query of this round has found, each of the plan's once."""
    found = {
        request_id
        for query in state.of(StepKind.QUERY)
        if query.round == state.round and query.ended is not None
        if query.ended.error is None and query.ended.found
        for request_id in query.answers
    }
    answered: dict[UUID, list[UUID]] = {}
    for insight, lack in _lacks(state):
        if lack.request_id in found:
            answered.setdefault(insight.planned_id, []).append(lack.request_id)
    first = len(state.of(StepKind.INSIGHT))
    return tuple(
        NewInsight(_insight(state, first + number, planned_id), first + number, tuple(request_ids))
        for number, (planned_id, request_ids) in enumerate(answered.items())
    )


def _lacks(state: State) -> Iterator[tuple[Part, Lack]]:
    for insight in state.of(StepKind.INSIGHT):
        if insight.ended is not None and insight.ended.error is None:
            yield from ((insight, lack) for lack in insight.ended.lacks)


def _not_yet_asked(state: State) -> list[tuple[UUID, ...]]:
    """Requests by what they ask for, in the order of the insights; what a query was made of before is left out."""
    by_objective: dict[str, list[UUID]] = {}
    for _, lack in _lacks(state):
        by_objective.setdefault(lack.objective.casefold(), []).append(lack.request_id)
    asked = {request_id for query in state.of(StepKind.QUERY) for request_id in query.answers}
    return [tuple(same) for same in by_objective.values() if asked.isdisjoint(same)]


def _query(state: State, index: int, request_ids: tuple[UUID, ...]) -> Part:
    step_id = ids.step_id(state.iteration_id, StepKind.QUERY, index)
    return Part(step_id, StepKind.QUERY, round=state.round + 1, answers=request_ids)


def _insight(state: State, index: int, planned_id: UUID) -> Part:
    step_id = ids.step_id(state.iteration_id, StepKind.INSIGHT, index)
    return Part(step_id, StepKind.INSIGHT, round=state.round, again_of=planned_id)
