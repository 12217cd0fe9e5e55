"""What was asked so far, and what came of it: no query is to be repeated, and no lack forgotten."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.context.listed import MOST
from shared.graph.lines import short
from shared.graph.scope import OWNED, Scope
from shared.graph.values import one_line
from shared.store import investigations
from shared.store.direct import Direct, Row
from shared.store.tables import Iteration, Step
from shared.store.words import StepKind, StepStatus

_MOST_QUERIES: Final = 20


@dataclass(frozen=True)
class Asked:
    """A query of an earlier iteration."""

    number: int
    objective: str
    came_of_it: str


async def request_lines(session: AsyncSession, scope: Scope) -> list[str]:
    """Open investigation requests, the newest first, each with the id by which a query names it."""
    return [
        f"- [request:{each.id}] {short(each.objective)} (lacking since iteration {each.iteration_number})"
        for each in await investigations.open_of(session, scope.agent_id)
    ]


async def asked_lines(session: AsyncSession, scope: Scope, iterations: int) -> list[str]:
    """The queries of the last iterations, the newest first."""
    return [
        f"- iteration {each.number}, {each.came_of_it}: {short(one_line(each.objective))}"
        for each in await _recently_asked(session, scope, iterations)
    ]


async def _recently_asked(session: AsyncSession, scope: Scope, iterations: int) -> Sequence[Asked]:
    # One more than asked for: the newest iteration is mostly the one that is running.
    rows = await _newest().rows(session, {**scope.bound, "most": iterations + 1})
    return [Asked(row.number, row.input.get("objective", ""), _came_of(row)) for row in rows]


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
