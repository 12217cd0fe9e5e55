"""Users and their credentials: tokens, sessions, sign-in links."""

from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Final
from uuid import UUID, uuid4

from sqlalchemy import (
    ARRAY,
    CollectionAggregate,
    ColumnElement,
    LargeBinary,
    Text,
    and_,
    any_,
    bindparam,
    cast,
    delete,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from shared.accounts.secrets import hash_secret, new_secret, new_token
from shared.agents import agents
from shared.database import ids
from shared.database.tables import Agent, ApiToken, BrowserSession, SignInLink, User
from shared.database.transaction import Transaction
from shared.enums import AccessScope


async def ensure_owner(session: Transaction, name: str) -> UUID:
    """Returns the id of the installation's owner, an operator. Creates the user if there is none of that name."""
    owner_id = await agents.ensure_user(session, name)
    await session.execute(
        update(User).where(User.id == owner_id, ~User.operator).values(operator=True)
    )
    return owner_id


async def create_user(
    session: Transaction, *, name: str, email: str | None, operator: bool
) -> User:
    """Inserts a user. Raises UniqueViolation if another has the name or, ignoring case, the mail address."""
    return await session.insert(User, id=uuid4(), name=name, email=email, operator=operator)


async def find_user(session: Transaction, reference: str) -> User | None:
    """Returns the user with this name, id or mail address."""
    return await session.scalar(select(User).where(_matches_user(reference)))


async def find_active_references(session: Transaction, references: Collection[str]) -> set[str]:
    """Returns the subset of `references` (names, ids, mail addresses) that belong to users who are not disabled."""
    names, addresses = list(references), [reference.lower() for reference in references]
    users = await session.execute(
        select(User.id, User.name, func.lower(User.email)).where(
            User.disabled_at.is_(None),
            or_(
                User.name.in_(names),
                func.lower(User.email).in_(addresses),
                cast(User.id, Text).in_(addresses),
            ),
        )
    )
    existing = {str(value) for user in users for value in user if value is not None}
    return {
        reference
        for reference in references
        if reference in existing or reference.lower() in existing
    }


async def set_disabled(session: Transaction, user_id: UUID, *, disabled: bool) -> None:
    """Disables or enables the user. While it is disabled its tokens are refused. Disabling ends its sessions."""
    await session.execute(
        update(User)
        .where(User.id == user_id, User.disabled_at.is_(None) == disabled)
        .values(disabled_at=func.clock_timestamp() if disabled else None)
    )
    if disabled:
        for table in (SignInLink, BrowserSession):
            await session.execute(delete(table).where(table.user_id == user_id))


async def delete_user(session: Transaction, user_id: UUID) -> None:
    """Deletes the user with its agents, even those in the middle of an iteration, and its credentials."""
    owned = await session.scalars(
        select(Agent.id).where(Agent.owner_id == user_id).order_by(Agent.id)
    )
    for agent_id in owned.all():
        await agents.delete_agent(session, agent_id)
    await session.execute(delete(User).where(User.id == user_id))


def _matches_user(reference: str) -> ColumnElement[bool]:
    by_name = or_(User.name == reference, func.lower(User.email) == reference.lower())
    try:
        return or_(by_name, User.id == UUID(reference))
    except ValueError:
        return by_name


TOKEN_LIFETIME: Final = timedelta(days=90)
"""Default lifetime of a token."""
DEFAULT_SCOPES: Final = frozenset({AccessScope.READ, AccessScope.WRITE})
OWN_TOKEN_NAME: Final = "this installation's own"


async def create_token(
    session: Transaction,
    user_id: UUID,
    *,
    name: str,
    scopes: Iterable[AccessScope],
    lifetime: timedelta | None = TOKEN_LIFETIME,
) -> tuple[ApiToken, str]:
    """Returns the row and the token, which is not stored. With `lifetime` None it never expires."""
    token = new_token()
    row = await session.insert(
        ApiToken,
        id=uuid4(),
        user_id=user_id,
        name=name,
        digest=hash_secret(token),
        scopes=_scope_values(scopes),
        expires_at=None if lifetime is None else func.clock_timestamp() + lifetime,
    )
    return row, token


async def store_own_token(session: Transaction, owner_id: UUID, token: str) -> None:
    """Stores the token that the installation's own commands use as its owner. It replaces the previous one."""
    own = {"digest": hash_secret(token), "scopes": _scope_values(AccessScope), "expires_at": None}
    await session.execute(
        insert(ApiToken)
        .values(id=ids.own_token_id(owner_id), user_id=owner_id, name=OWN_TOKEN_NAME, **own)
        .on_conflict_do_update(index_elements=[ApiToken.id], set_=own)
    )


async def revoke_token(session: Transaction, user_id: UUID, token_id: UUID) -> bool:
    """Deletes a token of the user. Returns whether it existed."""
    revoked = await session.execute(
        delete(ApiToken)
        .where(ApiToken.id == token_id, ApiToken.user_id == user_id)
        .returning(ApiToken.id)
    )
    return revoked.first() is not None


def _scope_values(scopes: Iterable[AccessScope]) -> list[str]:
    selected = set(scopes)
    return [scope.value for scope in AccessScope if scope in selected]


LINK_LIFETIME: Final = timedelta(minutes=15)
MAX_LINKS: Final = 100
"""Valid sign-in links of one user at a time. A new one replaces the oldest. The API mails fewer than this within a link's
lifetime, so requests of another person cannot invalidate a link that the user waits for."""
IDLE_SESSION_LIFETIME: Final = timedelta(days=7)
"""Lifetime of a session without requests."""
MAX_SESSION_LIFETIME: Final = timedelta(days=30)
"""Maximum lifetime of a session in use."""
MAX_BROWSER_CHARS: Final = 200
LINK_PATH: Final = "/api/v1/sign-in/link"


def link_url(base: str, secret: str) -> str:
    """Returns the URL of a sign-in link. `base` is the API's public URL."""
    return f"{base}{LINK_PATH}?secret={secret}"


async def create_link(session: Transaction, user_id: UUID) -> tuple[SignInLink, str]:
    """Creates a sign-in link. Returns the row and the secret, which is not stored."""
    # Locks the user, so that concurrent requests cannot exceed the limit together.
    await session.execute(select(User.id).where(User.id == user_id).with_for_update(key_share=True))
    replaced = (
        select(SignInLink.id)
        .where(SignInLink.user_id == user_id)
        .order_by(SignInLink.created_at.desc())
        .offset(MAX_LINKS - 1)
    )
    expired = SignInLink.expires_at <= func.clock_timestamp()
    await session.execute(
        delete(SignInLink).where(
            SignInLink.user_id == user_id, or_(expired, SignInLink.id.in_(replaced))
        )
    )
    secret = new_secret()
    row = await session.insert(
        SignInLink,
        id=uuid4(),
        user_id=user_id,
        digest=hash_secret(secret),
        expires_at=func.clock_timestamp() + LINK_LIFETIME,
    )
    return row, secret


async def delete_link(session: Transaction, link_id: UUID) -> None:
    await session.execute(delete(SignInLink).where(SignInLink.id == link_id))


async def open_session(session: Transaction, link_secret: str, browser: str) -> str | None:
    """Consumes the link, starts a session and returns its secret. None if the link is used, expired or unknown."""
    deletion = delete(SignInLink).where(
        SignInLink.digest == hash_secret(link_secret),
        SignInLink.expires_at > func.clock_timestamp(),
        SignInLink.user_id.in_(select(User.id).where(User.disabled_at.is_(None))),
    )
    user_id = (await session.execute(deletion.returning(SignInLink.user_id))).scalar_one_or_none()
    if user_id is None:
        return None
    await session.execute(
        delete(BrowserSession).where(BrowserSession.user_id == user_id, ~session_is_valid())
    )
    await session.execute(
        update(User).where(User.id == user_id).values(signed_in_at=func.clock_timestamp())
    )
    secret = new_secret()
    await session.insert(
        BrowserSession,
        id=uuid4(),
        user_id=user_id,
        digest=hash_secret(secret),
        browser=browser[:MAX_BROWSER_CHARS],
        ends_at=func.clock_timestamp() + MAX_SESSION_LIFETIME,
    )
    return secret


async def find_valid_links(session: Transaction, digests: Collection[bytes]) -> set[bytes]:
    """Returns the subset of `digests` whose links are valid now."""
    valid_digests = await session.scalars(
        select(SignInLink.digest).where(
            SignInLink.digest == any_of(digests), SignInLink.expires_at > func.clock_timestamp()
        )
    )
    return set(valid_digests)


def any_of(digests: Collection[bytes]) -> CollectionAggregate[bool]:
    """Returns `any(array)` of the digests. With one array parameter, any number of them is one prepared statement."""
    return any_(bindparam(None, list(digests), ARRAY(LargeBinary)))


async def end_session(session: Transaction, user_id: UUID, session_id: UUID) -> bool:
    """Ends a session of the user. Returns whether it existed."""
    result = await session.execute(
        delete(BrowserSession)
        .where(BrowserSession.id == session_id, BrowserSession.user_id == user_id)
        .returning(BrowserSession.id)
    )
    return result.first() is not None


async def has_never_signed_in(session: Transaction, user_id: UUID) -> bool:
    """Whether the user has never signed in with a browser."""
    never_signed_in = select(User.id).where(User.id == user_id, User.signed_in_at.is_(None))
    return (await session.scalar(never_signed_in)) is not None


def session_is_valid() -> ColumnElement[bool]:
    """Condition: the browser session has not expired."""
    now = func.clock_timestamp()
    return and_(
        BrowserSession.ends_at > now, BrowserSession.last_used_at > now - IDLE_SESSION_LIFETIME
    )
