"""Whether somebody who was let in may stay, for answers that take long."""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request

from services.api.access import Called
from shared.store import callers
from shared.store.database import Database

StillAllowed = Callable[[], Awaitable[bool]]
"""Raises TransientError where that cannot be known just now."""


def still_allowed_of(request: Request, caller: Called) -> StillAllowed:
    """As long as the credential that was shown would be let in again."""
    database: Database = request.app.state.database

    async def still_allowed() -> bool:
        async with database.transaction() as session:
            return await callers.still_stands(session, caller)

    return still_allowed


Standing = Annotated[StillAllowed, Depends(still_allowed_of)]
