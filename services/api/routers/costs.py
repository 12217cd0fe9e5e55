"""Where the money went."""

from datetime import date
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from services.api.auth.dependencies import Owned, OwnedAgent
from services.api.http.problem_details import ProblemError
from services.api.queries import costs
from services.api.queries.costs import Asked, TooManyDaysError
from shared.schemas.costs import CostsBy, CostsView

router = APIRouter(tags=["costs"])

_Day = Annotated[
    date | None,
    Query(
        description="A day in UTC; both ends are included",
        ge=date(2000, 1, 1),
        le=date(2999, 12, 31),
    ),
]


def _asked(
    by: CostsBy = "day",
    since: _Day = None,
    until: _Day = None,
    cursor: Annotated[
        str | None, Query(description="`next` of the page before; without it, the first groups")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=costs.MOST_GROUPS)] = costs.GROUPS,
) -> Asked:
    return Asked(by, since, until, cursor, limit)


Wanted = Annotated[Asked, Depends(_asked)]


@router.get("/costs")
async def show(access: Owned, wanted: Wanted) -> CostsView:
    """Of all your agents, by day, agent, phase or model; of the last thirty days unless others are asked for.

    What the whole installation may spend today is told to operators.
    """
    is_operator = access.caller.is_operator
    try:
        return await costs.owner_costs(
            access.session, access.owner_id, wanted, is_operator=is_operator
        )
    except TooManyDaysError as error:
        raise _too_many(error) from error


@router.get("/agents/{agent}/costs")
async def show_of_agent(access: OwnedAgent, wanted: Wanted) -> CostsView:
    """The same of one agent."""
    try:
        return await costs.agent_costs(access.session, access.agent.id, wanted)
    except TooManyDaysError as error:
        raise _too_many(error) from error


def _too_many(error: TooManyDaysError) -> ProblemError:
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", f"{error}.")
