"""Whether somebody who was let in may stay, for answers that take long."""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request

StillAllowed = Callable[[], Awaitable[bool]]
"""Raises TransientError where that cannot be known just now."""


def still_allowed_of(_: Request) -> StillAllowed:
    """There are no credentials yet that could be revoked or expire: whoever was let in stays."""

    async def still_allowed() -> bool:
        return True

    return still_allowed


Standing = Annotated[StillAllowed, Depends(still_allowed_of)]
