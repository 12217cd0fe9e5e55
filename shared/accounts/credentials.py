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
from sqlalchemy.ext.asyncio import AsyncSession

from shared.accounts.secrets import digest_of, new_secret, new_token
from shared.agents import agents
from shared.database import ids
from shared.database.tables import Agent, ApiToken, BrowserSession, SignInLink, User
from shared.enums import AccessScope


async def ensure_owner(session: AsyncSession, name: str) -> UUID:
    """The installation's owner, an operator; made where there is none of that name."""
    owner_id = await agents.ensure_user(session, name)
    await session.execute(
        update(User)
        .where(User.id == owner_id, ~User.operator)
        .values(operator=True)
        .execution_options(synchronize_session=False)
    )
    return owner_id


async def create_user(
    session: AsyncSession, *, name: str, email: str | None, operator: bool
) -> User:
    """Raises IntegrityError where there is one of that name, or with that address in whatever case."""
    user = User(id=uuid4(), name=name, email=email, operator=operator)
    session.add(user)
    await session.flush()
    await session.refresh(user)
    return user


async def find(session: AsyncSession, reference: str) -> User | None:
    """By name, id or mail address."""
    return await session.scalar(select(User).where(_is_named(reference)))


async def find_existing(session: AsyncSession, references: Collection[str]) -> set[str]:
    """Of these names, ids and mail addresses those of users that are not disabled."""
    names, addresses = list(references), [reference.lower() for reference in references]
    found = await session.execute(
        select(User.id, User.name, func.lower(User.email)).where(
            User.disabled_at.is_(None),
            or_(
                User.name.in_(names),
                func.lower(User.email).in_(addresses),
                cast(User.id, Text).in_(addresses),
            ),
        )
    )
    known = {str(each) for row in found for each in row if each is not None}
    return {each for each in references if each in known or each.lower() in known}


async def set_disabled(session: AsyncSession, user_id: UUID, *, disabled: bool) -> None:
    """A disabled user's tokens are refused from now on, and work again once it is enabled; its sessions are ended."""
    await session.execute(
        update(User)
        .where(User.id == user_id, User.disabled_at.is_(None) == disabled)
        .values(disabled_at=func.clock_timestamp() if disabled else None)
        .execution_options(synchronize_session=False)
    )
    if disabled:
        for table in (SignInLink, BrowserSession):
            await session.execute(delete(table).where(table.user_id == user_id))


async def remove(session: AsyncSession, user_id: UUID) -> None:
    """With every agent of its, in the midst of an iteration too, and every credential."""
    owned = await session.scalars(
        select(Agent.id).where(Agent.owner_id == user_id).order_by(Agent.id)
    )
    for agent_id in owned.all():
        await agents.delete(session, agent_id)
    await session.execute(delete(User).where(User.id == user_id))


def _is_named(reference: str) -> ColumnElement[bool]:
    by_words = or_(User.name == reference, func.lower(User.email) == reference.lower())
    try:
        return or_(by_words, User.id == UUID(reference))
    except ValueError:
        return by_words


LIFETIME: Final = timedelta(days=90)
"""Unless another is asked for."""
USUAL_SCOPES: Final = frozenset({AccessScope.READ, AccessScope.WRITE})
OWN_TOKEN: Final = "this installation's own"


async def create_token(
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


LINK_LIFETIME: Final = timedelta(minutes=15)
MOST_LINKS: Final = 100
"""Of one user that can be used at the same time; a new one replaces the oldest. The api limits how many are mailed to
fewer than this within a link's lifetime, so no request in another's name ends a link that its user waits for."""
IDLE_LIFETIME: Final = timedelta(days=7)
"""Of a session that is not used."""
LONGEST_LIFETIME: Final = timedelta(days=30)
"""Of a session, however much it is used."""
BROWSER_CHARACTERS: Final = 200
LINK_PATH: Final = "/api/v1/sign-in/link"


def link_url(base: str, secret: str) -> str:
    """`base` is where people reach the api."""
    return f"{base}{LINK_PATH}?secret={secret}"


async def create_link(session: AsyncSession, user_id: UUID) -> tuple[SignInLink, str]:
    """The row and its secret, which is known here and now only."""
    # Links of one user are made one after the other, or several could each be the last that may be.
    await session.execute(select(User.id).where(User.id == user_id).with_for_update(key_share=True))
    replaced = (
        select(SignInLink.id)
        .where(SignInLink.user_id == user_id)
        .order_by(SignInLink.created_at.desc())
        .offset(MOST_LINKS - 1)
    )
    expired = SignInLink.expires_at <= func.clock_timestamp()
    await session.execute(
        delete(SignInLink)
        .where(SignInLink.user_id == user_id, or_(expired, SignInLink.id.in_(replaced)))
        .execution_options(synchronize_session=False)
    )
    secret = new_secret()
    row = SignInLink(
        id=uuid4(),
        user_id=user_id,
        digest=digest_of(secret),
        expires_at=func.clock_timestamp() + LINK_LIFETIME,
    )
    session.add(row)
    await session.flush()
    await session.refresh(row)
    return row, secret


async def delete_link(session: AsyncSession, link_id: UUID) -> None:
    await session.execute(delete(SignInLink).where(SignInLink.id == link_id))


async def open_session(session: AsyncSession, link_secret: str, browser: str) -> str | None:
    """Uses the link up and begins a session; its secret. None where the link is used, expired or none."""
    used = delete(SignInLink).where(
        SignInLink.digest == digest_of(link_secret),
        SignInLink.expires_at > func.clock_timestamp(),
        SignInLink.user_id.in_(select(User.id).where(User.disabled_at.is_(None))),
    )
    user_id = (await session.execute(used.returning(SignInLink.user_id))).scalar_one_or_none()
    if user_id is None:
        return None
    await session.execute(
        delete(BrowserSession).where(BrowserSession.user_id == user_id, ~is_alive())
    )
    await session.execute(
        update(User)
        .where(User.id == user_id)
        .values(signed_in_at=func.clock_timestamp())
        .execution_options(synchronize_session=False)
    )
    secret = new_secret()
    session.add(
        BrowserSession(
            id=uuid4(),
            user_id=user_id,
            digest=digest_of(secret),
            browser=browser[:BROWSER_CHARACTERS],
            ends_at=func.clock_timestamp() + LONGEST_LIFETIME,
        )
    )
    await session.flush()
    return secret


async def find_valid_links(session: AsyncSession, digests: Collection[bytes]) -> set[bytes]:
    """Of these digests those of links that can be used now."""
    found = await session.scalars(
        select(SignInLink.digest).where(
            SignInLink.digest == any_of(digests), SignInLink.expires_at > func.clock_timestamp()
        )
    )
    return set(found)


def any_of(digests: Collection[bytes]) -> CollectionAggregate[bool]:
    """To compare a digest with: one array, so that any number is one prepared statement."""
    return any_(bindparam(None, list(digests), ARRAY(LargeBinary)))


async def end_session(session: AsyncSession, user_id: UUID, session_id: UUID) -> bool:
    """Whether the user had such a session."""
    ended = await session.execute(
        delete(BrowserSession)
        .where(BrowserSession.id == session_id, BrowserSession.user_id == user_id)
        .returning(BrowserSession.id)
    )
    return ended.first() is not None


async def never_signed_in(session: AsyncSession, user_id: UUID) -> bool:
    """Whether no browser of that user ever was signed in."""
    known = select(User.id).where(User.id == user_id, User.signed_in_at.is_(None))
    return (await session.scalar(known)) is not None


def is_alive() -> ColumnElement[bool]:
    """Of a session."""
    now = func.clock_timestamp()
    return and_(BrowserSession.ends_at > now, BrowserSession.last_used_at > now - IDLE_LIFETIME)
