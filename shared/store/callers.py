"""Who is behind a credential that was shown."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Select, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.sign_in import is_alive
from shared.store.tables import ApiToken, BrowserSession, User
from shared.store.words import AccessScope, CredentialKind

NOTED_EVERY: Final = timedelta(minutes=1)
"""How often at most it is written down that a credential is used."""


@dataclass(frozen=True)
class Caller:
    """A user, with what the credential that was shown allows."""

    user_id: UUID
    name: str
    kind: CredentialKind
    credential_id: UUID
    scopes: frozenset[AccessScope]
    expires_at: datetime | None
    """Of the credential; None: never."""

    @property
    def is_operator(self) -> bool:
        return AccessScope.OPERATOR in self.scopes


async def recognise(session: AsyncSession, kind: CredentialKind, digest: bytes) -> Caller | None:
    """None where no credential of that digest lets anybody in now. One look through an index."""
    credential = ApiToken if kind is CredentialKind.TOKEN else BrowserSession
    unnoted = _unnoted(credential)
    found = (
        await session.execute(
            _living(credential).where(credential.digest == digest).add_columns(unnoted)
        )
    ).one_or_none()
    if found is None:
        return None
    row, user, is_unnoted = found
    if is_unnoted:
        await session.execute(
            update(credential)
            .where(credential.id == row.id, unnoted)
            .values(last_used_at=func.clock_timestamp())
            .execution_options(synchronize_session=False)
        )
    allowed = scopes_of(operator=user.operator)
    if isinstance(row, ApiToken):
        scopes = allowed & frozenset(map(AccessScope, row.scopes))
        return Caller(user.id, user.name, kind, row.id, scopes, row.expires_at)
    return Caller(user.id, user.name, kind, row.id, allowed, row.ends_at)


async def still_stands(session: AsyncSession, caller: Caller) -> bool:
    """Whether the credential lets its user in as it did: neither revoked nor expired, and the user not disabled."""
    credential = ApiToken if caller.kind is CredentialKind.TOKEN else BrowserSession
    found = await session.execute(
        _living(credential).where(credential.id == caller.credential_id).limit(1)
    )
    return found.first() is not None


def scopes_of(*, operator: bool) -> frozenset[AccessScope]:
    """All that a credential can allow, of an operator or of another user."""
    withheld = set() if operator else {AccessScope.OPERATOR}
    return frozenset(AccessScope) - withheld


def _living(credential: type[ApiToken] | type[BrowserSession]) -> Select[Any, User]:
    alive = is_alive()
    if credential is ApiToken:
        alive = or_(ApiToken.expires_at.is_(None), ApiToken.expires_at > func.clock_timestamp())
    return (
        select(credential, User)
        .join(User, User.id == credential.user_id)
        .where(alive, User.disabled_at.is_(None))
    )


def _unnoted(credential: type[ApiToken] | type[BrowserSession]) -> ColumnElement[bool]:
    last = credential.last_used_at
    return or_(last.is_(None), last < func.clock_timestamp() - NOTED_EVERY)
