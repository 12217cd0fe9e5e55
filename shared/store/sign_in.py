"""Browsers: a link that works once begins a session."""

from collections.abc import Collection
from datetime import timedelta
from typing import Final
from uuid import UUID, uuid4

from sqlalchemy import (
    ARRAY,
    CollectionAggregate,
    ColumnElement,
    LargeBinary,
    and_,
    any_,
    bindparam,
    delete,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.secrets import digest_of, new_secret
from shared.store.tables import BrowserSession, SignInLink, User

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
