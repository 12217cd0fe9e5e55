"""Tokens of the api: made, told, revoked."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, delete, func
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store import ids
from shared.store.secrets import digest_of, new_token
from shared.store.tables import ApiToken
from shared.store.words import AccessScope

LIFETIME: Final = timedelta(days=90)
"""Unless another is asked for."""
USUAL_SCOPES: Final = frozenset({AccessScope.READ, AccessScope.WRITE})
OWN_TOKEN: Final = "this installation's own"


async def create(
    session: AsyncSession,
    user_id: UUID,
    *,
    name: str,
    scopes: Iterable[AccessScope],
    lifetime: timedelta | None = LIFETIME,
) -> tuple[ApiToken, str]:
    """The row, and the token itself, which is known here and now only. `lifetime` None: it never expires."""
    token = new_token()
    row = ApiToken(
        id=uuid4(),
        user_id=user_id,
        name=name,
        digest=digest_of(token),
        scopes=_sorted(scopes),
        expires_at=None if lifetime is None else _after(lifetime),
    )
    session.add(row)
    await session.flush()
    await session.refresh(row)
    return row, token


async def keep_own(session: AsyncSession, owner_id: UUID, token: str) -> None:
    """The one token by which an installation's own commands come in as its owner; the one before it is refused."""
    own = {"digest": digest_of(token), "scopes": _sorted(AccessScope), "expires_at": None}
    await session.execute(
        insert(ApiToken)
        .values(id=ids.own_token_id(owner_id), user_id=owner_id, name=OWN_TOKEN, **own)
        .on_conflict_do_update(index_elements=[ApiToken.id], set_=own)
    )


async def revoke(session: AsyncSession, user_id: UUID, token_id: UUID) -> bool:
    """Whether the user had such a token."""
    revoked = await session.execute(
        delete(ApiToken)
        .where(ApiToken.id == token_id, ApiToken.user_id == user_id)
        .returning(ApiToken.id)
    )
    return revoked.first() is not None


def _after(lifetime: timedelta) -> ColumnElement[object]:
    return func.clock_timestamp() + lifetime


def _sorted(scopes: Iterable[AccessScope]) -> list[str]:
    wanted = set(scopes)
    return [scope.value for scope in AccessScope if scope in wanted]
