"""Authentication: finds the user of a presented credential."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Select, Update, bindparam, func, or_, select, update

from shared.accounts.credentials import any_of, session_is_valid
from shared.database.statements import CompiledStatement, Executor
from shared.database.tables import ApiToken, BrowserSession, User
from shared.database.transaction import Transaction
from shared.enums import AccessScope, CredentialKind

USE_UPDATE_INTERVAL: Final = timedelta(minutes=1)
"""The minimum time between two updates of a credential's time of last use."""


@dataclass(frozen=True)
class Caller:
    """An authenticated user, with the scopes of the presented credential."""

    user_id: UUID
    name: str
    kind: CredentialKind
    credential_id: UUID
    scopes: frozenset[AccessScope]
    expires_at: datetime | None
    """Expiry of the credential. None: it never expires."""
    is_use_update_due: bool = False
    """True if the stored time of last use is due for an update."""

    @property
    def is_operator(self) -> bool:
        return AccessScope.OPERATOR in self.scopes


async def authenticate(session: Executor, kind: CredentialKind, digest: bytes) -> Caller | None:
    """Returns the caller with this credential; None if no valid credential has the digest. One index lookup."""
    row = await _SELECT_BY_DIGEST[kind].row(session, {"digest": digest})
    if row is None:
        return None
    scopes = allowed_scopes(operator=row.operator)
    if kind is CredentialKind.TOKEN:
        scopes &= frozenset(map(AccessScope, row.scopes))
    return Caller(row.user_id, row.name, kind, row.id, scopes, row.ends_at, row.is_use_update_due)


async def find_valid_digests(
    session: Transaction, kind: CredentialKind, digests: Collection[bytes]
) -> set[bytes]:
    """Returns the subset of `digests` whose credentials are valid now."""
    credential = _table(kind)
    valid_digests = await session.scalars(
        select(credential.digest)
        .select_from(User)
        .where(credential.digest == any_of(digests), *_is_valid(credential))
    )
    return set(valid_digests)


async def record_use(session: Executor, caller: Caller) -> None:
    """Sets the time of last use of the caller's credential."""
    await _RECORD_USE[caller.kind].run(session, {"of_credential": caller.credential_id})


async def is_still_valid(session: Transaction, caller: Caller) -> bool:
    """Whether the credential is still valid: not revoked, not expired, and its user not disabled."""
    credential = _table(caller.kind)
    own = credential.id == caller.credential_id
    row = await session.execute(
        select(credential.id).select_from(User).where(own, *_is_valid(credential))
    )
    return row.first() is not None


def allowed_scopes(*, operator: bool) -> frozenset[AccessScope]:
    """Returns all scopes that a credential of an operator, or of another user, can have."""
    withheld = set() if operator else {AccessScope.OPERATOR}
    return frozenset(AccessScope) - withheld


def _table(kind: CredentialKind) -> type[ApiToken] | type[BrowserSession]:
    return ApiToken if kind is CredentialKind.TOKEN else BrowserSession


def _is_valid(credential: type[ApiToken] | type[BrowserSession]) -> tuple[ColumnElement[bool], ...]:
    """Conditions: the credential is not expired and its user is not disabled. They join the user."""
    not_expired = session_is_valid()
    if credential is ApiToken:
        not_expired = or_(
            ApiToken.expires_at.is_(None), ApiToken.expires_at > func.clock_timestamp()
        )
    return User.id == credential.user_id, not_expired, User.disabled_at.is_(None)


def _is_use_update_due(credential: type[ApiToken] | type[BrowserSession]) -> ColumnElement[bool]:
    last = credential.last_used_at
    return or_(last.is_(None), last < func.clock_timestamp() - USE_UPDATE_INTERVAL)


def _select_by_digest(kind: CredentialKind) -> Select[*tuple[Any, ...]]:
    credential = _table(kind)
    kind_columns = (
        (ApiToken.scopes, ApiToken.expires_at.label("ends_at"))
        if kind is CredentialKind.TOKEN
        else (BrowserSession.ends_at.label("ends_at"),)
    )
    return select(
        credential.id,
        User.id.label("user_id"),
        User.name,
        User.operator,
        _is_use_update_due(credential).label("is_use_update_due"),
        *kind_columns,
    ).where(credential.digest == bindparam("digest"), *_is_valid(credential))


def _record_use(credential: type[ApiToken] | type[BrowserSession]) -> Update:
    return (
        update(credential)
        .where(credential.id == bindparam("of_credential"), _is_use_update_due(credential))
        .values(last_used_at=func.clock_timestamp())
    )


_SELECT_BY_DIGEST: Final = {
    kind: CompiledStatement(_select_by_digest(kind)) for kind in CredentialKind
}
_RECORD_USE: Final = {kind: CompiledStatement(_record_use(_table(kind))) for kind in CredentialKind}
