"""Who is behind a credential that was shown."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Select, bindparam, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from shared.accounts.credentials import any_of, is_alive
from shared.database.tables import ApiToken, BrowserSession, User
from shared.enums import AccessScope, CredentialKind

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
    is_unnoted: bool = False
    """That the credential is used has not been written down for a while."""

    @property
    def is_operator(self) -> bool:
        return AccessScope.OPERATOR in self.scopes


async def recognise(session: AsyncSession, kind: CredentialKind, digest: bytes) -> Caller | None:
    """None where no credential of that digest lets anybody in now. One look through an index."""
    found = (await session.execute(_OF_DIGEST[kind], {"digest": digest})).one_or_none()
    if found is None:
        return None
    allowed = scopes_of(operator=found.operator)
    if kind is CredentialKind.TOKEN:
        allowed &= frozenset(map(AccessScope, found.scopes))
    return Caller(
        found.user_id, found.name, kind, found.id, allowed, found.ends_at, found.is_unnoted
    )


async def find_valid(
    session: AsyncSession, kind: CredentialKind, digests: Collection[bytes]
) -> set[bytes]:
    """Of these digests, those of credentials that are valid now."""
    credential = _table_of(kind)
    found = await session.scalars(
        select(credential.digest)
        .select_from(User)
        .where(credential.digest == any_of(digests), *_alive(credential))
    )
    return set(found)


async def note_use(session: AsyncSession, caller: Caller) -> None:
    """Writes down that the caller's credential is used now."""
    credential = _table_of(caller.kind)
    await session.execute(
        update(credential)
        .where(credential.id == caller.credential_id, _unnoted(credential))
        .values(last_used_at=func.clock_timestamp())
        .execution_options(synchronize_session=False)
    )


async def still_stands(session: AsyncSession, caller: Caller) -> bool:
    """Whether the credential lets its user in as it did: neither revoked nor expired, and the user not disabled."""
    credential = _table_of(caller.kind)
    own = credential.id == caller.credential_id
    found = await session.execute(
        select(credential.id).select_from(User).where(own, *_alive(credential))
    )
    return found.first() is not None


def scopes_of(*, operator: bool) -> frozenset[AccessScope]:
    """All that a credential can allow, of an operator or of another user."""
    withheld = set() if operator else {AccessScope.OPERATOR}
    return frozenset(AccessScope) - withheld


def _table_of(kind: CredentialKind) -> type[ApiToken] | type[BrowserSession]:
    return ApiToken if kind is CredentialKind.TOKEN else BrowserSession


def _alive(credential: type[ApiToken] | type[BrowserSession]) -> tuple[ColumnElement[bool], ...]:
    """Of a credential with its user."""
    alive = is_alive()
    if credential is ApiToken:
        alive = or_(ApiToken.expires_at.is_(None), ApiToken.expires_at > func.clock_timestamp())
    return User.id == credential.user_id, alive, User.disabled_at.is_(None)


def _unnoted(credential: type[ApiToken] | type[BrowserSession]) -> ColumnElement[bool]:
    last = credential.last_used_at
    return or_(last.is_(None), last < func.clock_timestamp() - NOTED_EVERY)


def _of_digest(kind: CredentialKind) -> Select[*tuple[Any, ...]]:
    credential = _table_of(kind)
    of_kind = (
        (ApiToken.scopes, ApiToken.expires_at.label("ends_at"))
        if kind is CredentialKind.TOKEN
        else (BrowserSession.ends_at.label("ends_at"),)
    )
    return select(
        credential.id,
        User.id.label("user_id"),
        User.name,
        User.operator,
        _unnoted(credential).label("is_unnoted"),
        *of_kind,
    ).where(credential.digest == bindparam("digest"), *_alive(credential))


_OF_DIGEST: Final = {kind: _of_digest(kind) for kind in CredentialKind}
"""Every request asks one of these: to make it takes longer than to ask it."""
