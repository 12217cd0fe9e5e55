"""What was asked so far, and what came of it: no query is to be repeated, and no lack forgotten."""

from collections.abc import Sequence
from functools import cache
from typing import Final
from uuid import UUID

from sqlalchemy import select

from shared.graph.context.listed import MOST
from shared.graph.lines import short
from shared.graph.scope import OWNED, Scope
from shared.graph.values import one_line
from shared.store.direct import Direct, Row
from shared.store.investigations import Open
from shared.store.round_trip import Asked
from shared.store.tables import Iteration, Step
from shared.store.words import StepKind, StepStatus

_MOST_QUERIES: Final = 20


def request_lines(requests: Sequence[Open]) -> list[str]:
    """Open investigation requests, each with the id by which a query names it."""
    return [
        f"- [request:{each.id}] {short(each.objective)} (lacking since iteration {each.iteration_number})"
        for each in requests
    ]


def asked_lines(scope: Scope, iterations: int) -> Asked[list[str]]:
    """The queries of the last iterations, the newest first."""
    # One more than asked for: the newest iteration is mostly the one that is running.
    return Asked(_newest(), {**scope.bound, "most": iterations + 1}, _lines)


def _lines(queries: Sequence[Row]) -> list[str]:
    return [
        f"- iteration {each.number}, {_came_of(each)}: {short(one_line(each.input.get('objective', '')))}"
        for each in queries
    ]


@cache
def _newest() -> Direct:
    newest = (
        select(Iteration.id, Iteration.number)
        .where(Iteration.agent_id == OWNED)
        .order_by(Iteration.number.desc())
        .limit(MOST)
        .subquery()
    )
    return Direct(
        select(newest.c.number, Step.input, Step.status, Step.result)
        .join(newest, newest.c.id == Step.iteration_id)
        .where(Step.kind == StepKind.QUERY)
        .order_by(newest.c.number.desc(), Step.index)
        .limit(_MOST_QUERIES)
    )


def _came_of(step: Row) -> str:
    match step.status:
        case StepStatus.COMPLETED:
            return "answered" if has_written(step) else "nothing found"
        case StepStatus.FAILED:
            return "failed"
        case _:
            return "under way"


def has_written(query: Row) -> bool:
    """Whether the query has put anything into the graph."""
    result = query.result or {}
    return query.status == StepStatus.COMPLETED and bool(result.get("nodes") or result.get("edges"))


def request_id_in(text: str) -> UUID | None:
    """The id that `text` is, bare or as the context shows it; None where it is none."""
    bare = text.strip().removeprefix("[").removesuffix("]").removeprefix("request:")
    try:
        return UUID(bare.strip())
    except ValueError:
        return None
